-- Releases a share if the value still holds it, and calls waiters whose shares fit now.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the holder's value.
-- ARGV[2]: fence_ttl, in ms.
-- ARGV[3], optional: for how many ms the share stays taken after the release. It is 'held' instead
--   if the lease was valid when the client sent the request. In that case the script does not check
--   the expiry.
-- Reply: 0 if the value is not a holder, 1 if a share is free now or after the ms in ARGV[3], 2 if
--   waiters have been called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2]
local held = ARGV[3] == 'held'
local span = not held and ARGV[3]
-- include parts/names
local ours, waited_for
if held then
  ours = redis.call('ZREM', lock, value) == 1
  -- EXISTS counts the queue twice. So 1 means that there are only other holders, and 2 or 3 mean
  -- that there are waiters.
  local rest = redis.call('EXISTS', queue, queue, lock)
  -- If there are neither other holders nor waiters, the script skips the HDEL. The note may stay,
  -- because the next grant deletes all notes.
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
  else
    -- ZREM removes even an expired lease. When the server's memory is full, Redis refuses the
    -- commands of `pass`, unless the script has already written. ZREM is this write.
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
  -- The kept value is added before `value` is removed, so that the set is never empty.
  -- shared_adopt.lua tells why.
  remove(lock, companion, value)
  keep(lock, companion)
  tell_two(lock, queue, '~' .. left(lock))
  return 1
end
local called = waited_for and pass(lock, companion, queue) or 0
return not ours and 0 or called > 0 and 2 or 1
