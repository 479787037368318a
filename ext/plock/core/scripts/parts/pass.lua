-- Hands a lock over to the next waiter. A queue is a sorted set of the waiters' records ('host pid
-- thread channel label value'), with their tickets as scores. A script that includes this part also
-- includes tries.lua.

-- include tell

-- Offers the turn to one waiter after another. Stops at the first waiter whose process receives the
-- turn, and returns the index and the value of its record. If `mine`, the caller's own record,
-- comes earlier, stops there and returns only its index. Returns nil if the processes of all
-- records are dead.
local function first_alive(records, mine, lock)
  for place, record in ipairs(records) do
    if record == mine then return place end
    tries = tries - 1
    local value = tell(record, '=', lock)
    if value then return place, value end
  end
end

-- Reserves the lock for 1 s for the first waiter whose process receives the turn, and returns true.
-- That waiter may be frozen, so the waiter after it is told to ask for the lock after that second.
-- Returns false if the queue is empty, or if the caller's own record `mine` is next.
-- Returns nil if the call reached its limit of tries while records were left. The client must then
-- call the script again. If the client fails to do so, the lock's key, if it exists, would stay
-- taken for as long as it lasts. So the function makes the key expire within 1 s.
local function pass(lock, queue, mine)
  local records = redis.call('ZRANGE', queue, 0, 1) -- usually the first waiter is alive
  while records[1] do
    local place, value = first_alive(records, mine, lock)
    redis.call('ZREM', queue, unpack(records, 1, place or #records))
    if value then
      redis.call('SET', lock, baton(value), 'PX', 1000)
      local second = records[place + 1] or redis.call('ZRANGE', queue, 0, 0)[1]
      if second then tell(second, '~1000', lock) end
      return true
    end
    if place then return false end
    if tries <= 0 and redis.call('EXISTS', queue) == 1 then
      if redis.call('PTTL', lock) > 1000 then redis.call('PEXPIRE', lock, 1000) end
      return nil
    end
    records = redis.call('ZRANGE', queue, 0, math.max(tries, 1) - 1)
  end
  return false
end

-- Tells the first two waiters that are alive to ask for the lock again after `left` ms. One message
-- is not enough, because the first waiter may be frozen or about to leave. If the call has reached
-- its limit of tries, the function tells no further waiter. That is safe, because each waiting
-- process asks for the lock once a second even without a message.
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

-- Processes of the older implementation poll for the lock. The first `window` ms of each second of
-- the server's clock are reserved for them. Returns how many ms of the current window are left.
local function left_to_polling(window)
  if not window or window == '0' then return 0 end
  return math.max(0, tonumber(window) - math.floor(redis.call('TIME')[2] / 1000))
end
