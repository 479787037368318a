-- Removes a waiter from the queue, and calls waiters whose shares fit now.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the waiter's value.
-- ARGV[2]: '1' if a reply was lost, so that the value may be a holder; otherwise '0'. If it is '1',
--   the script also releases the share.
-- ARGV[3]: fence_ttl, in ms.
-- ARGV[4]: the waiter's share. Missing if ARGV[5] is missing.
-- ARGV[5], optional: the waiter's signature. Without it, the queue keeps the waiter.
-- Reply: 0 if there was no turn to pass on, 1 if a share is free now, 2 if waiters have been
--   called.
local lock, value, fence_ttl = KEYS[1], ARGV[1], ARGV[3]
-- include parts/names
-- include parts/now
-- include parts/share
local entry = ARGV[5] and ARGV[4] .. ' ' .. ARGV[5] .. ' ' .. value
local first = entry and call('ZRANK', queue, entry) == 0
if entry then call('ZREM', queue, entry) end
sweep(lock, companion)
local had = is_inside(lock, baton(value))
remove(lock, companion, baton(value))
if ARGV[2] == '1' then
  had = had or is_inside(lock, value)
  remove(lock, companion, value)
end
if (pass(lock, companion, queue) or 0) > 0 then return 2 end
-- The waiter that left was the first, so it may have been the only one that was told when the next
-- lease expires. So other waiters are told.
if first then tell_two(lock, queue, '~' .. left(lock)) end
return had and 1 or 0
