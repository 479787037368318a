-- Acquires several locks, or none of them.
-- KEYS: the locks' keys.
-- ARGV[1]: the TTL, in ms.
-- ARGV[2]: the companions' TTL, in ms.
-- ARGV[3] and the following: the value for each lock.
-- Arguments after these: the signature for each lock, or one signature for all.
-- Reply if the caller holds all locks now: their fences.
-- Reply if the locks are refused: the number of free locks before the first one that is taken.
-- Reply if the call reached its limit of tries: -1. The client must then ask again.
-- include parts/number
local names, companions = {}, {} -- names: the first lock, its queue, the second lock, its queue …
for i, lock in ipairs(KEYS) do
  -- include parts/names
  names[2 * i - 1] = lock
  names[2 * i] = queue
  companions[i] = companion
end
if redis.call('EXISTS', unpack(names)) > 0 then
  -- include parts/tries
  -- include parts/pass
  for i, lock in ipairs(KEYS) do
    local queue = names[2 * i]
    if redis.call('EXISTS', lock) == 1 then return i - 1 end
    if redis.call('EXISTS', queue) == 1 then
      -- The last lease expired, so the turn goes to the first waiter that is alive.
      local passed = pass(lock, queue)
      if passed then return i - 1 end
      if passed == nil then return -1 end
    end
  end
end
-- last: the index of the last value in ARGV.
local t, fences, last = redis.call('TIME'), {}, 2 + #KEYS
for i, lock in ipairs(KEYS) do
  local value, signature = ARGV[2 + i], ARGV[last + i] or ARGV[last + 1]
  redis.call('SET', lock, value, 'PX', ARGV[1])
  fences[i] = number(companions[i], signature, value, ARGV[2], t)
end
return fences
