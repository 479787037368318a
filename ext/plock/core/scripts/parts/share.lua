-- What locks with several holders have in common. The lock is a sorted set: the value of each holder, by the moment (ms) at which
-- its time is over. The companion is a hash: 'fence', the last one given, and for each value 'mode fence seconds:microseconds record'.
-- A share is a mode with a limit ('s3'; 'r' has none, 'w' is 1): who asks for it is let in where nobody is inside, or all who are have
-- that mode and are fewer than the limit; but nobody past one who waits before him. The queue has 'share record', by ticket; who is
-- called from there has his place inside, under his baton, for 1 s.
-- Whoever includes this has `call`, as `now` the server's time in ms, and as `fence_ttl` for how many ms the fence outlasts the leases.
-- include tries
-- include tell

-- The least score of a holder whose time is not over. The others are inside no more, whether they have been removed or not.
local live = '(' .. string.format('%.0f', now)

local function is_inside(lock, value)
  return tonumber(call('ZSCORE', lock, value) or 0) > now
end

-- How long the one stays who leaves first: until then nothing changes that is not told.
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

-- Removes holders whose time is over, so many in one call.
local function sweep(lock, companion)
  local over = call('ZRANGEBYSCORE', lock, '-inf', now, 'LIMIT', 0, tries)
  if not over[1] then return end
  call('ZREM', lock, unpack(over))
  call('HDEL', companion, unpack(over))
end

-- The keys last as long as the one who stays longest; the fence for fence_ttl more.
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
  local note = call('HGET', companion, call('ZRANGEBYSCORE', lock, live, '+inf', 'LIMIT', 0, 1)[1])
  return note and string.sub(note, 1, 1) == string.sub(share, 1, 1)
end

-- Tells the first in line whose process hears it, and returns its entry; those before it are taken out. False: nobody is in line.
-- nil: as many as one call may try belonged to nobody, and more are left.
local function tell_first(lock, queue, kind)
  local size = 1
  while true do
    local line, dead, heard = call('ZRANGE', queue, 0, size - 1), 0, nil
    if not line[1] then return false end
    if tries <= 0 then return nil end
    for _, entry in ipairs(line) do
      tries = tries - 1
      heard = tell(string.match(entry, '^%S+ (.*)$') or '', kind, lock) and entry
      if heard then break end
      dead = dead + 1
    end
    if dead > 0 then call('ZREM', queue, unpack(line, 1, dead)) end
    if heard then return heard end
    size = math.max(tries, 1)
  end
end

-- The first two: the first may be frozen, or just giving up.
local function tell_two(lock, queue, kind)
  local first = tell_first(lock, queue, kind)
  local second = first and call('ZRANGE', queue, 1, 1)[1]
  if second then tell(string.match(second, '^%S+ (.*)$') or '', kind, lock) end
end

-- Lets in those who wait, in their order, as far as there is room. The next is told to look again when the second is over: who
-- was called may be frozen. True where it comes to `mine`, who asks just now. Else how many were called: where they are as many as one
-- call may try, each of them who comes in goes on. nil: nobody, and more are left.
local function pass(lock, companion, queue, mine)
  local called, size = 0, 1
  local found, ended, unfinished
  repeat
    local line, out, fits, heard = call('ZRANGE', queue, 0, size - 1), 0, nil, false
    ended = not line[1]
    for _, entry in ipairs(line) do
      local share, record = string.match(entry, '^(%S+) (.*)$')
      ended = share and share ~= fits and not admits(lock, companion, share)
      if ended then break end
      out = out + 1
      found = entry == mine
      if found then break end
      tries = tries - 1
      local value = share and tell(record, '+', lock)
      fits = not value and share -- while nobody comes in, the next one with this share fits, too
      if value then
        put(lock, companion, baton(value), 1000, string.sub(share, 1, 1))
        called = called + 1
        heard = true
      end
    end
    if out > 0 then call('ZREM', queue, unpack(line, 1, out)) end
    if found then return true end
    unfinished = not ended and tries <= 0 and call('EXISTS', queue) == 1
    size = heard and 1 or math.max(tries, 1) -- where one is dead, others often are, too
  until ended or unfinished
  if called > 0 then
    keep(lock, companion)
    tell_first(lock, queue, '~1000')
  elseif unfinished then
    return nil
  end
  return called
end
