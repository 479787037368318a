-- Grants a share of a lock if parts/share.lua allows it, and numbers the lease.
-- KEYS: lock.
-- ARGV: value, ttl ms, signature, fence_ttl ms, share. A waiter adds its ticket ('0' if it has
--   none).
-- Returns the fence, a string of 16 digits, if the share is held now. If others wait, returns
-- {fence, ms until the first lease expires}.
-- If refused, returns {0, the same ms}. A waiter also gets its rank, its ticket, 1 (each release
-- notifies the waiters), and 1 if it had lost its place in the queue.
-- 0 ms: the call reached its limit of dead entries, and more are left. The client asks again.
local lock, value, ttl, fence_ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local record, share, ticket = ARGV[3] .. ' ' .. value, ARGV[5], ARGV[6]
-- include parts/names
-- include parts/now
-- include parts/grant
local mode = string.sub(share, 1, 1)

if call('EXISTS', lock, queue) == 0 then
  local fence = grant(mode, record, true)
  call('PEXPIRE', lock, ttl)
  call('PEXPIRE', companion, ttl + fence_ttl)
  return fence
end

-- include parts/share
local entry = share .. ' ' .. record
sweep(lock, companion)
local mine, lost = is_inside(lock, value), false
if not mine then -- a waiter that cannot receive messages now asks without a ticket
  mine = is_inside(lock, baton(value))
  remove(lock, companion, baton(value))
end
if mine then call('ZREM', queue, entry)
elseif ticket and ticket ~= '0' then lost = call('ZADD', queue, 'NX', ticket, entry) == 1 end
local passed = mine or pass(lock, companion, queue, entry)
-- The share fits, and only an earlier waiter is in the way.
while passed ~= true and passed ~= nil and admits(lock, companion, share) do
  local first = call('ZRANGE', queue, 0, 0)[1]
  local told = first and tell_first(lock, queue, '~' .. left(lock))
  if not first then passed = true
  elseif told == first then break -- the earlier waiter is alive
  elseif told == nil then passed = nil
  else passed = pass(lock, companion, queue, entry) end
end
if passed == true then
  local fence = grant(mode, record, call('EXISTS', lock) == 0)
  keep(lock, companion)
  if call('EXISTS', queue) == 0 then return fence end
  pass(lock, companion, queue)
  return {fence, left(lock)}
end
local changes = left(lock)
if passed == nil then changes = 0
elseif admits(lock, companion, share) then
  -- No message tells that the earlier waiter has died.
  changes = math.min(changes, 1000)
end
if not ticket then return {0, changes} end
local place = call('ZSCORE', queue, entry)
if not place then
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  place = math.max(t[1] * 1000000 + t[2], last and last + 1 or 0)
  call('ZADD', queue, string.format('%.0f', place), entry)
  if redis.queued then redis.queued(lock) end
end
call('PEXPIRE', queue, left(lock) + 600000)
local rank = call('ZRANK', queue, entry)
return {0, changes, rank, string.format('%.0f', place), 1, lost and 1 or 0}
