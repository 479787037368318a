-- Releases a share that the value still holds, and calls waiters whose shares fit.
-- KEYS: lock.
-- ARGV: value, fence_ttl ms, and optionally keep ms, for which the place stays taken, or 'held', if
--   the lease was valid when the client sent the request. Then its end is not looked at.
-- Returns 0: the value is not a holder, 1: there is room now or after `keep`, 2: waiters have been
-- called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
local held = ARGV[3] == 'held'
local span = not held and ARGV[3]
-- include parts/names
local ours, waited_for
if held then
  ours = redis.call('ZREM', lock, value) == 1
  local rest = redis.call('EXISTS', queue, queue, lock) -- 1: other holders, 2 or 3: waiters
  -- If there are no other holders, the next grant deletes all notes.
  if rest > 0 then redis.call('HDEL', companion, value) end
  if rest < 2 then return ours and 1 or 0 end
  waited_for = true
end
-- include parts/now
if not held then
  ours = tonumber(call('ZSCORE', lock, value) or 0) > now
  waited_for = call('EXISTS', queue) == 1
  if span then
    -- include parts/full
  else -- expired leases, too: a write comes before `pass`, as in parts/full.lua
    call('ZREM', lock, value)
    call('HDEL', companion, value)
  end
  if not waited_for and not span then return ours and 1 or 0 end
end
-- include parts/share
sweep(lock, companion)
if ours and span then
  local note = call('HGET', companion, value)
  put(lock, companion, kept(value), span, note or '')
  remove(lock, companion, value) -- last, as in shared_adopt.lua
  keep(lock, companion)
  tell_two(lock, queue, '~' .. left(lock))
  return 1
end
local called = waited_for and pass(lock, companion, queue) or 0
return not ours and 0 or called > 0 and 2 or 1
