-- Lists the holder of a lock and its waiters.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the rank of the first waiter to list.
-- ARGV[2]: how many waiters to list.
-- Reply: {value, ms left, companion, number of all waiters, …}. Value and companion are '' if they
--   do not exist. After the number, the reply has two elements for each waiter: the ticket and the
--   record.
local lock = KEYS[1]
-- include parts/names
local waiters = redis.call('ZRANGE', queue, ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
local value = redis.call('GET', lock)
local left = redis.call('PTTL', lock)
local note = redis.call('GET', companion)
local result = {value or '', left, note or '', redis.call('ZCARD', queue)}
for i = 1, #waiters, 2 do
  result[#result + 1] = string.format('%.0f', waiters[i + 1])
  result[#result + 1] = waiters[i]
end
return result
