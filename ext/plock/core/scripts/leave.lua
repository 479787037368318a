-- Removes a waiter from the queue. If the waiter had the turn, the turn passes to the next one. If
-- an earlier message may have reached only this waiter, other waiters are told to look again.
-- KEYS: lock.
-- ARGV: value, doubt ('1': an answer was lost, so the value may hold the lock), and its signature.
-- Returns 0: there was no turn to pass on, 1: the lock is free now, 2: handed over, 3: unfinished,
-- ask again (pass.lua's nil).
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
