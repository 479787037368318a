-- Removes a waiter from the queue, and calls the waiters that it kept out.
-- KEYS: lock.
-- ARGV: value, doubt ('1': an answer was lost, so the value may be a holder), fence_ttl ms, and the
--   waiter's share and signature.
-- Returns 0: there was no turn to pass on, 1: there is room now, 2: waiters have been called.
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
-- An earlier message may have reached only the waiter that leaves now.
if first then tell_two(lock, queue, '~' .. left(lock)) end
return had and 1 or 0
