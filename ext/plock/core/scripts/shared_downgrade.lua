-- Makes a writer a reader. No other writer can acquire the lock in between.
-- KEYS: lock. ARGV: value, fence_ttl ms.
-- Returns 0: the value is not a holder, 1: it is a reader now, 2: and waiters have been called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
-- include parts/names
-- include parts/now
-- include parts/share
if not is_inside(lock, value) then return 0 end
-- include parts/full
-- A slot that has moved may have replaced the companion by an earlier one, without the note.
local note = call('HGET', companion, value) or ''
call('HSET', companion, value, 'r' .. string.sub(note, 2))
return (pass(lock, companion, queue) or 0) > 0 and 2 or 1
