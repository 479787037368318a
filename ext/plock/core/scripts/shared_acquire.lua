-- Lets in one who wants a share of a lock, and numbers the lease. KEYS: lock, companion, queue. ARGV: value, ttl ms, record, fence_ttl ms,
-- share (parts/share.lua), and of one who waits his ticket, '0' where he has none yet.
-- Held: the fence, a string of 16 digits, where others wait in an array with the ms until anything changes by itself.
-- Refused: {0, the same ms}, and to one who waits also his rank, the ticket to come back with, 1: whoever leaves will tell, and 1 if
-- his place in the queue had been lost. 0 ms: entries without a process stood in the way, and there are more of them; ask again at once.
local lock, companion, queue = KEYS[1], KEYS[2], KEYS[3]
local value, ttl, record, fence_ttl, share, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- include parts/now

-- alone: nobody is inside, so whatever the companion notes beside the fence is of such as went with the key.
local function grant(alone)
  local fence = t[1] .. string.sub('00000' .. t[2], -6)
  local last = call('HGET', companion, 'fence')
  if last and last >= fence then fence = string.format('%.0f', last + 1) end
  if alone then call('DEL', companion) end
  call('ZADD', lock, now + ttl, value)
  call('HSET', companion, 'fence', fence, value, string.sub(share, 1, 1) .. ' ' .. fence .. ' ' .. t[1] .. ':' .. t[2] .. ' ' .. record)
  return fence
end

if call('EXISTS', lock, queue) == 0 then
  local fence = grant(true)
  call('PEXPIRE', lock, ttl)
  call('PEXPIRE', companion, ttl + fence_ttl)
  return fence
end

-- include parts/share
local member = share .. ' ' .. record
sweep(lock, companion)
local mine, lost = is_inside(lock, value), false
if not mine then -- who cannot hear now asks without a ticket
  mine = is_inside(lock, baton(value))
  remove(lock, companion, baton(value))
end
if mine then call('ZREM', queue, member)
elseif ticket and ticket ~= '0' then lost = call('ZADD', queue, 'NX', ticket, member) == 1 end
local passed = mine or pass(lock, companion, queue, member)
while passed ~= true and passed ~= nil and admits(lock, companion, share) do -- only who waits before us keeps us out
  local first = call('ZRANGE', queue, 0, 0)[1]
  local told = first and tell_first(lock, queue, '~' .. left(lock))
  if not first then passed = true
  elseif told == first then break -- and he is there
  elseif told == nil then passed = nil
  else passed = pass(lock, companion, queue, member) end
end
if passed == true then
  local fence = grant(call('EXISTS', lock) == 0)
  keep(lock, companion)
  if call('EXISTS', queue) == 0 then return fence end
  pass(lock, companion, queue)
  return {fence, left(lock)}
end
local changes = left(lock)
if passed == nil then changes = 0
elseif admits(lock, companion, share) then changes = math.min(changes, 1000) end -- if he dies who is before us, nobody tells
if not ticket then return {0, changes} end
local place = call('ZSCORE', queue, member)
if not place then
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  place = math.max(t[1] * 1000000 + t[2], last and last + 1 or 0)
  call('ZADD', queue, string.format('%.0f', place), member)
end
call('PEXPIRE', queue, left(lock) + 600000)
return {0, changes, call('ZRANK', queue, member), string.format('%.0f', place), 1, lost and 1 or 0}
