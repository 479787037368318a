-- Acquires a share of a lock if the rules in parts/share.lua allow it, and gives the lease a fence.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the caller's value.
-- ARGV[2]: the TTL, in ms.
-- ARGV[3]: the caller's signature, 'host pid thread channel label'.
-- ARGV[4]: fence_ttl, in ms.
-- ARGV[5]: the share, as in parts/share.lua.
-- ARGV[6], only from a waiter: its ticket, or '0' if it has none yet.
-- Reply if the caller holds the share now: the fence, a string of 16 digits. If others wait for the
--   lock, the reply is {fence, ms until the first lease expires}.
-- Reply if the share is refused: as that of acquire.lua, but the second element is the ms until
--   the caller should ask again. The first flag is always 1, because each release notifies the
--   waiters.
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
if not mine then
  -- A waiter whose channel is closed sends no ticket. It may have a baton nevertheless, so the
  -- script looks for a baton of every caller.
  mine = is_inside(lock, baton(value))
  remove(lock, companion, baton(value))
end
if mine then call('ZREM', queue, entry)
elseif ticket and ticket ~= '0' then lost = call('ZADD', queue, 'NX', ticket, entry) == 1 end
local passed = mine or pass(lock, companion, queue, entry)
-- As long as the share fits, only an earlier waiter can prevent the grant. The loop sends the first
-- waiter a message, to find out whether its process is alive. A dead waiter is removed.
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
  -- The share fits, so only an earlier waiter prevents the grant. If that waiter dies, no message
  -- announces it. So the caller must ask again within a second.
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
