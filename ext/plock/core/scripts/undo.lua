-- Takes back what one acquire may have got whose answer was lost, but not what the same owner has acquired since.
-- KEYS: lock, companion, queue. ARGV: value, owner as that acquire wrote it. 0: there was nothing, 1: free now, 2: handed over, 3: not
-- yet, ask again (pass.lua's nil).
-- include parts/tries
-- include parts/pass
local lock, queue = KEYS[1], KEYS[3]
if redis.call('GET', lock) ~= ARGV[1] then return 0 end
if noted_record(redis.call('GET', KEYS[2])) ~= ARGV[2] then return 0 end
local passed = pass(lock, queue)
if passed then return 2 end
if passed == nil then return 3 end
return redis.call('DEL', lock)
