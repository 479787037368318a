-- Takes several locks, or none. KEYS: locks, their queues, their companions. ARGV: ttl ms, ms for which the companions last, then value
-- and record of each.
-- Held: the fence of each. Refused: how many are free before the first that is not. -1: records without a process stood in the way, and
-- there are more of them; ask again at once.
-- include parts/number
local n = #KEYS / 3
if redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) > 0 then
  -- include parts/tries
  -- include parts/pass
  for i = 1, n do
    if redis.call('EXISTS', KEYS[i]) == 1 then return i - 1 end
    if redis.call('EXISTS', KEYS[n + i]) == 1 then -- the last holder's time ran out: it is the turn of one who waits, if one lives
      local passed = pass(KEYS[i], KEYS[n + i])
      if passed then return i - 1 end
      if passed == nil then return -1 end
    end
  end
end
local t, fences = redis.call('TIME'), {}
for i = 1, n do
  redis.call('SET', KEYS[i], ARGV[2 * i + 1], 'PX', ARGV[1])
  fences[i] = number(KEYS[2 * n + i], ARGV[2 * i + 2], ARGV[2], t)
end
return fences
