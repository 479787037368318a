-- Makes a writer a reader. No other writer can acquire the lock in between.
-- KEYS: lock. ARGV: value, fence_ttl ms.
-- Returns 0: the value is not a holder, 1: it is a reader now, 2: and waiters have been called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
-- include parts/names
-- include parts/now
-- include parts/share
if not is_inside(lock, value) then return 0 end
-- include parts/full
local note = call('HGET', companion, value)
call('HSET', companion, value, 'r' .. string.sub(note or '', 2))
-- The companion was evicted and is new now, or a slot that moved has replaced it by an earlier one.
if not note then keep(lock, companion) end
return (pass(lock, companion, queue) or 0) > 0 and 2 or 1
