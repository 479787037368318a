-- Takes a lock from its holder, notifies the holder, and hands the lock to the first waiter.
-- KEYS: lock, companion, queue.
-- Returns 0: the lock was not held, 1: free now, 2: handed over, 3: unfinished, ask again
-- (pass.lua's nil).
-- include parts/tries
-- include parts/pass
local lock, companion, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, noted = redis.call('GET', lock), redis.call('GET', companion)
if not holder then return 0 end
if notes(noted, holder) then tell(noted_record(noted), '!' .. #holder, lock) end
local passed = pass(lock, queue)
if passed then return 2 end
if passed == nil then return 3 end
return redis.call('DEL', lock)
