-- What locks with several holders have in common. The lock is a sorted set: the value of each holder, by the moment (ms) at which
-- its time is over. The companion is a hash: 'fence', the last one given, and for each value 'mode fence seconds:microseconds record'.
-- A share is a mode with a limit ('s3'; 'r' has none, 'w' is 1): who asks for it is let in where nobody is inside, or all who are have
-- that mode and are fewer than the limit; but nobody past one who waits before him. The queue has 'share record', by ticket; who is
-- called from there has his place inside, under his baton, for 1 s.
-- Whoever includes this has `call`, and as `now` the server's time in ms.
-- include tell

-- How long the one stays who leaves first: until then nothing changes that is not told.
local function left(lock)
  local first = call('ZRANGE', lock, 0, 0, 'WITHSCORES')[2]
  return first and math.max(1, first - now) or 1
end

local function put(lock, companion, value, ms, note)
  call('ZADD', lock, now + ms, value)
  call('HSET', companion, value, note)
end

local function remove(lock, companion, value)
  call('HDEL', companion, value)
  return call('ZREM', lock, value) == 1
end

-- Those whose time is over are inside no more.
local function sweep(lock, companion)
  for _, value in ipairs(call('ZRANGEBYSCORE', lock, '-inf', now)) do remove(lock, companion, value) end
end

-- The keys last as long as the one who stays longest; the fence for 24 h more.
local function keep(lock, companion)
  local last = call('ZRANGE', lock, -1, -1, 'WITHSCORES')[2]
  if not last then return end
  call('PEXPIREAT', lock, last)
  call('PEXPIREAT', companion, last + 86400000)
end

local function admits(lock, companion, share)
  local inside = call('ZCARD', lock)
  if inside == 0 then return true end
  if share == 'w' or inside >= (tonumber(string.sub(share, 2)) or math.huge) then return false end
  local note = call('HGET', companion, call('ZRANGE', lock, 0, 0)[1])
  return note and string.sub(note, 1, 1) == string.sub(share, 1, 1)
end

-- Tells the first in line something, in whose process somebody hears it; the others before him are taken out.
local function tell_first(lock, queue, kind)
  while true do
    local first = call('ZRANGE', queue, 0, 0)[1]
    if not first or tell(string.match(first, '^%S+ (.*)$'), kind, lock) then return first end
    call('ZREM', queue, first)
  end
end

-- The first two: the first may be frozen, or just giving up.
local function tell_two(lock, queue, kind)
  tell_first(lock, queue, kind)
  local second = call('ZRANGE', queue, 1, 1)[1]
  if second then tell(string.match(second, '^%S+ (.*)$'), kind, lock) end
end

-- Lets in those who wait, in their order, as far as there is room. The next is told to look again when the second is over: who
-- was called may be frozen. True where it comes to `mine`, who asks just now. Else how many were called.
local function pass(lock, companion, queue, mine)
  local called = 0
  while true do
    local first = call('ZRANGE', queue, 0, 0)[1]
    local share, record = string.match(first or '', '^(%S+) (.*)$')
    if not share or not admits(lock, companion, share) then break end
    call('ZREM', queue, first)
    if first == mine then return true end
    local value = tell(record, '+', lock)
    if value then
      put(lock, companion, baton(value), 1000, string.sub(share, 1, 1))
      called = called + 1
    end
  end
  if called > 0 then
    keep(lock, companion)
    tell_first(lock, queue, '~1000')
  end
  return called
end
