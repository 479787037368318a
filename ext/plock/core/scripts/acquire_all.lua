-- Takes several locks, or none.
-- KEYS: locks.
-- ARGV: ttl ms, companions' ttl ms, the value of each lock, and then the signature of each lock, or
--   one for all.
-- Returns the fences if all locks are held now. If refused, returns the number of free locks before
-- the first that is taken. -1: the call reached its limit of dead records, and more are left. The
-- client asks again.
-- include parts/number
local names, companions = {}, {} -- names: a lock, its queue, the next lock …
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
      -- The last lease expired. The turn goes to the first waiter that is alive.
      local passed = pass(lock, queue)
      if passed then return i - 1 end
      if passed == nil then return -1 end
    end
  end
end
local t, fences, last = redis.call('TIME'), {}, 2 + #KEYS -- the last value
for i, lock in ipairs(KEYS) do
  local value, signature = ARGV[2 + i], ARGV[last + i] or ARGV[last + 1]
  redis.call('SET', lock, value, 'PX', ARGV[1])
  fences[i] = number(companions[i], signature, value, ARGV[2], t)
end
return fences
