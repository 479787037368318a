-- Undoes an acquire whose answer was lost. The record must match, so that the script does not
-- release a lease that the same owner has acquired since.
-- KEYS: lock. ARGV: value, signature that the acquire wrote.
-- Returns 0: there was nothing to undo, 1: free now, 2: handed over, 3: unfinished, ask again
-- (pass.lua's nil).
-- include parts/tries
-- include parts/pass_on
local lock, value = KEYS[1], ARGV[1]
-- include parts/names
if redis.call('GET', lock) ~= value then return 0 end
if noted_record(redis.call('GET', companion)) ~= ARGV[2] .. ' ' .. value then return 0 end
return pass_on(lock, queue)
