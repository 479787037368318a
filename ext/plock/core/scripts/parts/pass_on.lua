-- include pass

-- Hands a lock over to the next waiter, or frees the lock if there is no waiter. Returns 1 if the
-- lock is free now, and 2 if a waiter has the turn now. Returns 3 if the call reached its limit of
-- tries. The client must then ask again.
local function pass_on(lock, queue)
  local passed = pass(lock, queue)
  if passed then return 2 end
  if passed == nil then return 3 end
  return redis.call('DEL', lock)
end
