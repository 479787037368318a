-- Takes several locks, or none. KEYS: lock, companion and queue of each. ARGV: ttl ms, then value and record of each.
-- Held: the fence of each. Refused: how many are free before the first that is not.
-- include parts/number
for i = 1, #KEYS, 3 do
  if redis.call('EXISTS', KEYS[i], KEYS[i + 2]) > 0 then return (i - 1) / 3 end
end
local t, fences = redis.call('TIME'), {}
for i = 1, #KEYS / 3 do
  redis.call('SET', KEYS[3 * i - 2], ARGV[2 * i], 'PX', ARGV[1])
  fences[i] = number(KEYS[3 * i - 1], ARGV[2 * i + 1], t)
end
return fences
