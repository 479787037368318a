-- Releases several locks.
-- KEYS: the locks' keys.
-- ARGV[1]: for how many ms the keys stay taken after the release, or ''.
-- ARGV[2]: the companions' TTL, in ms, or '' if ARGV[1] is ''.
-- ARGV[3] and the following: the value of each lock's holder.
-- Reply: for each lock, the number that free() returns (parts/free.lua).
-- include parts/free
local result, ours, queues = {}, {}, {}
for i, lock in ipairs(KEYS) do
  -- include parts/beside
  -- include parts/queue
  queues[i] = queue
end
local keep = ARGV[1] ~= '' and ARGV[1] or nil
-- If there are no waiters, and no key stays taken, one DEL removes all keys.
local plain = not keep and redis.call('EXISTS', unpack(queues)) == 0
for i, lock in ipairs(KEYS) do
  local value = ARGV[i + 2]
  if not plain then
    result[i] = free(lock, value, nil, keep, ARGV[2])
  elseif redis.call('GET', lock) == value then
    result[i] = 1
    ours[#ours + 1] = lock
  else
    result[i] = 0
  end
end
if ours[1] then redis.call('DEL', unpack(ours)) end
return result
