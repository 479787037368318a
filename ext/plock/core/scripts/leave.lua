-- Removes a waiter from the queue. If the waiter had the turn, the turn passes to the next one. If
-- only this waiter may have been told to look again, other waiters are told.
-- KEYS: lock, queue.
-- ARGV: value, doubt ('1': an answer was lost, so the value may hold the lock), and its record.
-- Returns 0: there was no turn to pass on, 1: the lock is free now, 2: handed over, 3: unfinished,
-- ask again (pass.lua's nil).
-- include parts/tries
-- include parts/pass
local lock, queue, value = KEYS[1], KEYS[2], ARGV[1]
local first = ARGV[3] and redis.call('ZRANK', queue, ARGV[3]) == 0
if ARGV[3] then redis.call('ZREM', queue, ARGV[3]) end
local holder = redis.call('GET', lock)
if holder ~= baton(value) and not (ARGV[2] == '1' and holder == value) then
  if first then look_again(lock, queue, math.max(redis.call('PTTL', lock), 0)) end
  return 0
end
local passed = pass(lock, queue)
if passed then return 2 end
if passed == nil then return 3 end
return redis.call('DEL', lock)
