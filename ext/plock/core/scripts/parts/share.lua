-- Functions for locks with several holders. The lock is a sorted set: the value of each holder, by
-- the time (ms) at which its lease expires. The companion is a hash: 'fence' is the last fence, and
-- each value has 'mode fence seconds:microseconds record'.
-- A share is a mode with a limit: 's3'; 'r' has no limit, and that of 'w' is 1. A share is granted
-- if there is no holder, or if all holders have its mode and are fewer than its limit. No share is
-- granted before that of an earlier waiter. The queue contains entries 'share record' by ticket.
-- The baton of a called waiter has a place among the holders for 1 s.
-- A script that includes this part defines `call`, `now` (the server's time in ms) and `fence_ttl`
-- (for how many ms the fence outlasts the leases).
-- include tries
-- include tell

-- The least score of a lease that has not expired. Expired leases may still be in the set.
local live = '(' .. string.format('%.0f', now)

local function is_inside(lock, value)
  return tonumber(call('ZSCORE', lock, value) or 0) > now
end

-- Returns the ms until the first lease expires. Messages announce all earlier changes.
local function left(lock)
  local first = call('ZRANGEBYSCORE', lock, live, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return first and math.max(1, first - now) or 1
end

local function put(lock, companion, value, ms, note)
  call('ZADD', lock, now + ms, value)
  call('HSET', companion, value, note)
end

local function remove(lock, companion, value)
  call('HDEL', companion, value)
  call('ZREM', lock, value)
end

-- Removes expired leases, at most `tries` of them.
local function sweep(lock, companion)
  local over = call('ZRANGEBYSCORE', lock, '-inf', now, 'LIMIT', 0, tries)
  if not over[1] then return end
  call('ZREM', lock, unpack(over))
  call('HDEL', companion, unpack(over))
end

-- Makes the keys last as long as the longest lease, and the fence for fence_ttl more.
local function keep(lock, companion)
  local last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')[2]
  if not last then return end
  call('PEXPIREAT', lock, last)
  call('PEXPIREAT', companion, last + fence_ttl)
end

local function admits(lock, companion, share)
  local inside = call('ZCOUNT', lock, live, '+inf')
  if inside == 0 then return true end
  if share == 'w' or inside >= (tonumber(string.sub(share, 2)) or math.huge) then return false end
  if share ~= 'r' then return true end -- all holders of a semaphore have its mode
  local note = call('HGET', companion, call('ZRANGEBYSCORE', lock, live, '+inf', 'LIMIT', 0, 1)[1])
  return note and string.sub(note, 1, 1) == 'r'
end

-- Sends a message to the first waiter whose process receives it, removes the entries before it, and
-- returns its entry. Returns false if the queue is empty, and nil if the call reached its limit of
-- dead entries, and more are left.
local function tell_first(lock, queue, kind)
  local size = 1
  while true do
    local entries, dead, heard = call('ZRANGE', queue, 0, size - 1), 0, nil
    if not entries[1] then return false end
    if tries <= 0 then return nil end
    for _, entry in ipairs(entries) do
      tries = tries - 1
      heard = tell(string.match(entry, '^%S+ (.*)$') or '', kind, lock) and entry
      if heard then break end
      dead = dead + 1
    end
    if dead > 0 then call('ZREM', queue, unpack(entries, 1, dead)) end
    if heard then return heard end
    size = math.max(tries, 1)
  end
end

-- Sends a message to the first two waiters, because the first may be frozen or about to leave.
local function tell_two(lock, queue, kind)
  local first = tell_first(lock, queue, kind)
  local second = first and call('ZRANGE', queue, 1, 1)[1]
  if second then tell(string.match(second, '^%S+ (.*)$') or '', kind, lock) end
end

-- Calls waiters in their order while their shares fit. The next waiter is told to look again after
-- a second, because a called waiter may be frozen.
-- Returns true if the entry `mine`, that of the caller, is next; otherwise the number of called
-- waiters. If the call reached its limit of tries, these waiters continue it when they acquire.
-- Returns nil if it reached the limit and called no waiter.
local function pass(lock, companion, queue, mine)
  local called, size = 0, 1
  local found, ended, unfinished
  repeat
    local entries, out, fits, heard = call('ZRANGE', queue, 0, size - 1), 0, nil, false
    ended = not entries[1]
    for _, entry in ipairs(entries) do
      local share, record = string.match(entry, '^(%S+) (.*)$')
      ended = share and share ~= fits and not admits(lock, companion, share)
      if ended then break end
      out = out + 1
      found = entry == mine
      if found then break end
      tries = tries - 1
      local value = share and tell(record, '+', lock)
      fits = not value and share -- without a new holder, the next entry with this share fits, too
      if value then
        put(lock, companion, baton(value), 1000, string.sub(share, 1, 1))
        called = called + 1
        heard = true
      end
    end
    if out > 0 then call('ZREM', queue, unpack(entries, 1, out)) end
    if found then return true end
    unfinished = not ended and tries <= 0 and call('EXISTS', queue) == 1
    size = heard and 1 or math.max(tries, 1) -- dead entries often follow each other
  until ended or unfinished
  if called > 0 then
    keep(lock, companion)
    tell_first(lock, queue, '~1000')
  elseif unfinished then
    return nil
  end
  return called
end
