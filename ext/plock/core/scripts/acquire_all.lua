-- Takes several locks, or none.
-- KEYS: locks. ARGV: ttl ms, companions' ttl ms, then the value and the signature of each lock.
-- Returns the fences if all locks are held now. If refused, returns the number of free locks before
-- the first that is taken. -1: the call reached its limit of dead records, and more are left. The
-- client asks again.
-- include parts/number
local n, queues, companions = #KEYS, {}, {}
for i, lock in ipairs(KEYS) do
  -- include parts/names
  queues[i], companions[i] = queue, companion
end
if redis.call('EXISTS', unpack(KEYS)) + redis.call('EXISTS', unpack(queues)) > 0 then
  -- include parts/tries
  -- include parts/pass
  for i = 1, n do
    if redis.call('EXISTS', KEYS[i]) == 1 then return i - 1 end
    if redis.call('EXISTS', queues[i]) == 1 then
      -- The last lease expired. The turn goes to the first waiter that is alive.
      local passed = pass(KEYS[i], queues[i])
      if passed then return i - 1 end
      if passed == nil then return -1 end
    end
  end
end
local t, fences = redis.call('TIME'), {}
for i, lock in ipairs(KEYS) do
  local value = ARGV[2 * i + 1]
  redis.call('SET', lock, value, 'PX', ARGV[1])
  fences[i] = number(companions[i], ARGV[2 * i + 2], value, ARGV[2], t)
end
return fences
