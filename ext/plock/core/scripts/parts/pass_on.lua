-- include pass

-- Hands a lock over to the next waiter, or frees it. Returns 1: it is free now, 2: handed over,
-- 3: unfinished, ask again (pass.lua's nil).
local function pass_on(lock, queue)
  local passed = pass(lock, queue)
  if passed then return 2 end
  if passed == nil then return 3 end
  return redis.call('DEL', lock)
end
