-- What hands a lock over. Included by the scripts that may have to: a queue is a sorted set of the records of those who
-- wait ('host pid thread channel label value'), by ticket. The includer includes tries.

-- include tell

-- Which of these records is the first that is `mine`, or whose process hears that it is its turn; and in this case its value.
local function first_alive(line, mine, lock)
  for place, record in ipairs(line) do
    if record == mine then return place end
    tries = tries - 1
    local value = tell(record, '=', lock)
    if value then return place, value end
  end
end

-- Reserves the lock for 1 s for the first waiter in line whose process hears it, and returns true. The waiter after it is told to look
-- again when that second is over: the first one may be frozen.
-- False: nobody is left in line, or the record `mine` comes first. nil: as many records as one call may try belonged to nobody, and more
-- are left. The lock, if it is held, then ends within a second; until then the caller can go on with it.
local function pass(lock, queue, mine)
  local line = redis.call('ZRANGE', queue, 0, 1) -- most often the first one is alive
  while line[1] do
    local place, value = first_alive(line, mine, lock)
    redis.call('ZREM', queue, unpack(line, 1, place or #line))
    if value then
      redis.call('SET', lock, baton(value), 'PX', 1000)
      local second = line[place + 1] or redis.call('ZRANGE', queue, 0, 0)[1]
      if second then tell(second, '~1000', lock) end
      return true
    end
    if place then return false end
    if tries <= 0 and redis.call('EXISTS', queue) == 1 then
      if redis.call('PTTL', lock) > 1000 then redis.call('PEXPIRE', lock, 1000) end
      return nil
    end
    line = redis.call('ZRANGE', queue, 0, math.max(tries, 1) - 1)
  end
  return false
end

-- Has the first two who hear of it look again in so many milliseconds: the first may be frozen, or just giving up. Beyond the records
-- that one call may try it does not go: each process that waits looks once a second anyway.
local function look_again(lock, queue, left)
  if tries <= 0 then return end
  local told = 0
  for _, record in ipairs(redis.call('ZRANGE', queue, 0, tries - 1)) do
    tries = tries - 1
    if tell(record, '~' .. left, lock) then
      told = told + 1
      if told == 2 then return end
    else
      redis.call('ZREM', queue, record)
    end
  end
end

-- Milliseconds for which the lock is to be left to those who look by polling, where there may be such: at the beginning of
-- each second of this clock.
local function left_to_polling(window)
  if not window or window == '0' then return 0 end
  return math.max(0, tonumber(window) - math.floor(redis.call('TIME')[2] / 1000))
end
