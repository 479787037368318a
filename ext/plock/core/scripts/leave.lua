-- Removes a waiter from the queue. If the waiter had the turn, the turn passes to the next waiter.
-- If the waiter was the first, it may have been the only one that was told when the lock can be
-- free. So the script tells other waiters to ask for the lock again at that time.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the waiter's value.
-- ARGV[2]: '1' if a reply was lost, so that the value may hold the lock; otherwise '0'. If it is
--   '1', the script also releases the lock.
-- ARGV[3], optional: the waiter's signature. Without it, the queue keeps the waiter.
-- Reply: 0 if there was no turn to pass on, else the number that pass_on() returns
--   (parts/pass_on.lua).
-- include parts/tries
-- include parts/pass_on
local lock, value = KEYS[1], ARGV[1]
-- include parts/beside
-- include parts/queue
local record = ARGV[3] and ARGV[3] .. ' ' .. value
local first = record and redis.call('ZRANK', queue, record) == 0
if record then redis.call('ZREM', queue, record) end
local holder = redis.call('GET', lock)
if holder ~= baton(value) and not (ARGV[2] == '1' and holder == value) then
  if first then look_again(lock, queue, math.max(redis.call('PTTL', lock), 0)) end
  return 0
end
return pass_on(lock, queue)
