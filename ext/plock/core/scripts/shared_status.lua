-- Lists the holders of a lock with several holders, and then its waiters.
-- KEYS[1]: the lock's key.
-- ARGV[1]: how many entries of this list to skip.
-- ARGV[2]: how many entries to return.
-- Reply: {number of all holders, number of all waiters, …}. After these numbers, the reply has two
--   elements for each holder (the ms left and the note), and then two for each waiter (the ticket
--   and 'share record').
local lock = KEYS[1]
-- include parts/names
local from, count = tonumber(ARGV[1]), tonumber(ARGV[2])
-- include parts/now
local over = call('ZCOUNT', lock, '-inf', now) -- the expired leases come first
local result = {call('ZCARD', lock) - over, call('ZCARD', queue)}
local values = call('ZRANGE', lock, over + from, over + from + count - 1, 'WITHSCORES')
for i = 1, #values, 2 do
  result[#result + 1] = values[i + 1] - now
  result[#result + 1] = call('HGET', companion, values[i]) or ''
end
from, count = math.max(0, from - result[1]), count - #values / 2
local waiters = count > 0 and call('ZRANGE', queue, from, from + count - 1, 'WITHSCORES') or {}
for i = 1, #waiters, 2 do
  result[#result + 1] = string.format('%.0f', waiters[i + 1])
  result[#result + 1] = waiters[i]
end
return result
