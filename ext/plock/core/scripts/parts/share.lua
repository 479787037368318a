-- Functions for locks with several holders.
-- The lock's key is a sorted set of the holders' values. The score is the server's time, in ms, at
-- which the holder's lease expires.
-- The companion is a hash. Its field 'fence' is the last fence. It also has a field for the value
-- of each holder, with the text 'mode fence seconds:microseconds record'.
-- The queue is a sorted set of entries 'share record', with the waiters' tickets as scores.
-- A share is a mode and its limit. The share 's3' is one permit of a semaphore that has 3 permits.
-- A reader's share 'r' has no limit. A writer's share 'w' has the limit 1. A share is granted if
-- there is no holder, or if all holders have its mode and their number is below its limit. No share
-- is granted before the share of an earlier waiter.
-- A script calls a waiter by sending it the turn. The waiter's baton then takes a place among the
-- holders for 1 s.
-- A script that includes this part defines `call`, `now` (the server's time in ms) and `fence_ttl`
-- (for how many ms the fence outlasts the leases).
-- include tries
-- include tell

-- The lower bound for the scores of leases that have not expired. Queries need it, because the set
-- may still contain expired leases.
local live = '(' .. string.format('%.0f', now)

local function is_inside(lock, value)
  return tonumber(call('ZSCORE', lock, value) or 0) > now
end

-- Returns the ms until the first lease expires. A waiter need not ask for the share before that
-- time, because messages announce all changes except the expiry of a lease.
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

-- Keeps the lock's key until its last lease expires, and the companion for fence_ttl after that.
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

-- Sends a message to one waiter after another, until a process receives it. Removes the entries of
-- the waiters whose processes are dead. Returns the entry of the waiter whose process received the
-- message. Returns false if the queue is empty, and nil if the call reached its limit of tries.
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

-- Sends a message to the first waiter that is alive and to the waiter after it. One message is not
-- enough, because the first waiter may be frozen or about to leave.
local function tell_two(lock, queue, kind)
  local first = tell_first(lock, queue, kind)
  local second = first and call('ZRANGE', queue, 1, 1)[1]
  if second then tell(string.match(second, '^%S+ (.*)$') or '', kind, lock) end
end

-- Calls waiters in the queue's order while their shares fit. A called waiter may be frozen, so the
-- waiter after the last called one is told to ask again after a second.
-- Returns true if the caller's own entry `mine` is next, and otherwise the number of called
-- waiters. If the function reaches the limit of tries after it has called a waiter, the called
-- waiter calls the next waiters when it acquires its share. If the function reaches the limit
-- before it has called a waiter, it returns nil.
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
      fits = not value and share -- without a new holder, the next entry with this share also fits
      if value then
        put(lock, companion, baton(value), 1000, string.sub(share, 1, 1))
        called = called + 1
        heard = true
      end
    end
    if out > 0 then call('ZREM', queue, unpack(entries, 1, out)) end
    if found then return true end
    unfinished = not ended and tries <= 0 and call('EXISTS', queue) == 1
    size = heard and 1 or math.max(tries, 1) -- entries of dead processes are often adjacent
  until ended or unfinished
  if called > 0 then
    keep(lock, companion)
    tell_first(lock, queue, '~1000')
  elseif unfinished then
    return nil
  end
  return called
end
