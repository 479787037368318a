-- Takes shares of a lock from their holders, notifies the holders, and calls waiters whose shares
-- fit now.
-- KEYS[1]: the lock's key.
-- ARGV[1]: fence_ttl, in ms.
-- ARGV[2], optional: the fences whose holders lose their shares, as in parts/chosen.lua. Without
--   it, all holders lose their shares.
-- ARGV[3], optional: 'anyway', as in parts/cluster_break.lua.
-- Reply: 0 if there was no such holder, 1 if a share is free now, 2 if waiters have been called.
local lock, fence_ttl = KEYS[1], ARGV[1]
-- include parts/names
-- include parts/now
-- include parts/share
-- include parts/chosen
sweep(lock, companion)
local broken = false
for _, value in ipairs(call('ZRANGEBYSCORE', lock, live, '+inf')) do
  local fence, record = string.match(call('HGET', companion, value) or '', '^%a (%d+) %S+ (.+)$')
  if chosen(ARGV[2], fence) then
    if record then tell(record, '!' .. #value, lock) end
    remove(lock, companion, value)
    broken = true
  end
end
if not broken then return 0 end
return (pass(lock, companion, queue) or 0) > 0 and 2 or 1
