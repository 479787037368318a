-- Releases several locks.
-- KEYS: locks, their queues, and their companions if the keys stay taken.
-- ARGV: keep ms or '', companions' ttl ms, and the value of each lock.
-- Returns the answer of parts/free.lua for each lock.
-- include parts/free
local n, result, ours = #ARGV - 2, {}, {}
local keep = ARGV[1] ~= '' and ARGV[1] or nil
-- Without waiters and `keep`, one DEL removes all keys.
local plain = not keep and redis.call('EXISTS', unpack(KEYS, n + 1)) == 0
for i = 1, n do
  local value = ARGV[i + 2]
  if not plain then
    result[i] = free(KEYS[i], KEYS[n + i], value, nil, keep, KEYS[2 * n + i], ARGV[2])
  elseif redis.call('GET', KEYS[i]) == value then
    result[i] = 1
    ours[#ours + 1] = KEYS[i]
  else
    result[i] = 0
  end
end
if ours[1] then redis.call('DEL', unpack(ours)) end
return result
