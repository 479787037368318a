-- Undoes an acquire whose answer was lost. The record must match, so that the script does not
-- release a lease that the same owner has acquired since.
-- KEYS: lock, companion, queue. ARGV: value, record that the acquire wrote.
-- Returns 0: there was nothing to undo, 1: free now, 2: handed over, 3: unfinished, ask again
-- (pass.lua's nil).
-- include parts/tries
-- include parts/pass
local lock, queue = KEYS[1], KEYS[3]
if redis.call('GET', lock) ~= ARGV[1] then return 0 end
if noted_record(redis.call('GET', KEYS[2])) ~= ARGV[2] then return 0 end
local passed = pass(lock, queue)
if passed then return 2 end
if passed == nil then return 3 end
return redis.call('DEL', lock)
