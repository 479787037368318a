-- What hands a lock over. Included by the scripts that may have to: a queue is a sorted set of the records of those who
-- wait ('host pid thread channel label value'), by ticket.

-- include tell

-- Reserves the lock for the first in line who hears of it, for 1 s; false where there is none, or where it is `mine`. The one
-- after it is told to look again when that second is over: who is reserved for may be frozen.
local function pass(lock, queue, mine)
  while true do
    local line = redis.call('ZRANGE', queue, 0, 1)
    if not line[1] then return false end
    redis.call('ZREM', queue, line[1])
    if mine and string.sub(line[1], -#mine) == mine then return false end
    local value = tell(line[1], '=', lock)
    if value then
      redis.call('SET', lock, baton(value), 'PX', 1000)
      if line[2] then tell(line[2], '~1000', lock) end
      return true
    end
  end
end

-- Has the first two who hear of it look again in so many milliseconds: the first may be frozen, or just giving up.
local function look_again(lock, queue, left)
  local told = 0
  for _, record in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
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
