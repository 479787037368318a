-- Who holds a lock and who waits for it. KEYS: lock, companion, queue. ARGV: how many waiters have been told already, how many to tell.
-- {value, ms left, what the companion notes, waiters in all, ticket and record of each …}; value and note are '' where there is none.
local waiters = redis.call('ZRANGE', KEYS[3], ARGV[1], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
local value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local note = redis.call('GET', KEYS[2])
local told = {value or '', left, note or '', redis.call('ZCARD', KEYS[3])}
for i = 1, #waiters, 2 do
  told[#told + 1] = string.format('%.0f', waiters[i + 1])
  told[#told + 1] = waiters[i]
end
return told
