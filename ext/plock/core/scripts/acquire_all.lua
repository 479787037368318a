-- Takes several locks, or none. KEYS: locks, their queues, their companions. ARGV: ttl ms, then value and record of each.
-- Held: the fence of each. Refused: how many are free before the first that is not.
-- include parts/number
local n = #KEYS / 3
if redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) > 0 then
  for i = 1, n do
    if redis.call('EXISTS', KEYS[i], KEYS[n + i]) > 0 then return i - 1 end
  end
end
local t, fences = redis.call('TIME'), {}
for i = 1, n do
  redis.call('SET', KEYS[i], ARGV[2 * i], 'PX', ARGV[1])
  fences[i] = number(KEYS[2 * n + i], ARGV[2 * i + 1], t)
end
return fences
