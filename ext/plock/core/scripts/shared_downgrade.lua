-- Makes a writer a reader. No other writer can acquire the lock in between.
-- KEYS: lock. ARGV: value, fence_ttl ms.
-- Returns 0: the value is not a holder, 1: it is a reader now, 2: and waiters have been called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
-- include parts/names
-- include parts/now
-- include parts/share
local note = call('HGET', companion, value)
if not is_inside(lock, value) or not note then return 0 end
call('HSET', companion, value, 'r' .. string.sub(note, 2))
return (pass(lock, companion, queue) or 0) > 0 and 2 or 1
