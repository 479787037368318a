-- Takes all shares of a lock from their holders, notifies the holders, and calls waiters.
-- KEYS: lock, companion, queue. ARGV: fence_ttl ms.
-- Returns 0: there was no holder, 1: free now, 2: waiters have been called.
local lock, companion, queue, fence_ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
-- include parts/now
-- include parts/share
sweep(lock, companion)
local values = call('ZRANGEBYSCORE', lock, live, '+inf')
if not values[1] then return 0 end
for _, value in ipairs(values) do
  local record = string.match(call('HGET', companion, value) or '', '^%a %d+ %S+ (.+)$')
  if record then tell(record, '!' .. #value, lock) end
  remove(lock, companion, value)
end
return (pass(lock, companion, queue) or 0) > 0 and 2 or 1
