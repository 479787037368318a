-- Turns the holder of a write lock into a reader. No other writer can acquire the lock in between.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the holder's value.
-- ARGV[2]: fence_ttl, in ms.
-- Reply: 0 if the value is not a holder, 1 if it is a reader now, 2 if it is a reader now and
--   waiters have been called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
-- include parts/names
-- include parts/now
-- include parts/share
if not is_inside(lock, value) then return 0 end
-- include parts/full
local note = call('HGET', companion, value)
call('HSET', companion, value, 'r' .. string.sub(note or '', 2))
-- The note is missing if the server evicted the companion, or if an older version of the companion
-- replaced it when the slot moved. After an eviction, HSET has created a new companion, which has
-- no TTL until keep() gives it one.
if not note then keep(lock, companion) end
return (pass(lock, companion, queue) or 0) > 0 and 2 or 1
