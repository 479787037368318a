-- Who is inside a lock with several holders, and who waits for it. KEYS: lock, companion, queue. ARGV: how many of them have been told
-- already, how many to tell. {holders in all, waiters in all, then of each holder ms left and what the companion notes, and of each
-- waiter ticket and 'share record' …}
local lock, companion, queue, from, count = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]), tonumber(ARGV[2])
-- include parts/now
local over = call('ZCOUNT', lock, '-inf', now) -- they come first, and count no more
local told = {call('ZCARD', lock) - over, call('ZCARD', queue)}
local values = call('ZRANGE', lock, over + from, over + from + count - 1, 'WITHSCORES')
for i = 1, #values, 2 do
  told[#told + 1] = values[i + 1] - now
  told[#told + 1] = call('HGET', companion, values[i]) or ''
end
from, count = math.max(0, from - told[1]), count - #values / 2
local waiters = count > 0 and call('ZRANGE', queue, from, from + count - 1, 'WITHSCORES') or {}
for i = 1, #waiters, 2 do
  told[#told + 1] = string.format('%.0f', waiters[i + 1])
  told[#told + 1] = waiters[i]
end
return told
