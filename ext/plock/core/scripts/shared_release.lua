-- Releases a share that the value still holds, and calls waiters whose shares fit.
-- KEYS: lock. ARGV: value, fence_ttl ms, and optionally keep ms, for which the place stays taken.
-- Returns 0: the value is not a holder, 1: there is room now or after `keep`, 2: waiters have been
-- called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
-- include parts/names
-- include parts/now
local ours = tonumber(call('ZSCORE', lock, value) or 0) > now
local waited_for = call('EXISTS', queue) == 1
if ARGV[3] then
  -- include parts/full
else -- expired leases, too: a write comes before `pass`, as in parts/full.lua
  call('ZREM', lock, value)
  call('HDEL', companion, value)
end
if not waited_for and not ARGV[3] then return ours and 1 or 0 end
-- include parts/share
sweep(lock, companion)
if ours and ARGV[3] then
  local note = call('HGET', companion, value)
  put(lock, companion, kept(value), ARGV[3], note or '')
  remove(lock, companion, value) -- last, as in shared_adopt.lua
  keep(lock, companion)
  tell_two(lock, queue, '~' .. left(lock))
  return 1
end
local called = waited_for and pass(lock, companion, queue) or 0
return not ours and 0 or called > 0 and 2 or 1
