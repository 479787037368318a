-- Gives a new owner the lease that its earlier owner left (plock_lease_leave). The lease gets a
-- greater fence, and keeps its label. It can be adopted only once, because the new owner's value
-- replaces the left value.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the left value, which is the earlier owner's value.
-- ARGV[2]: the TTL, in ms.
-- ARGV[3]: the new owner's value.
-- ARGV[4]: the new owner's signature, 'host pid thread channel label'.
-- ARGV[5]: the companion's TTL, in ms.
-- Reply: the fence, or 0 if the left value does not hold the lock any more. A repeated request gets
--   the same fence again.
local lock, left, ttl, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local signature, noted_for = ARGV[4], ARGV[5]
-- include parts/beside
-- include parts/companion
-- include parts/record
local holder, noted = redis.call('GET', lock), redis.call('GET', companion) or ''
if holder == value and value ~= left and notes(noted, value) then
  -- This request repeats an earlier request, which has already changed the owner. PEXPIRE runs even
  -- if the TTL stays the same, because a WAIT after the script confirms only writes.
  redis.call('PEXPIRE', lock, math.max(tonumber(ttl), redis.call('PTTL', lock)))
  -- include parts/lasting
  return string.match(noted, '^%d+')
end
if holder ~= left then return 0 end
-- include parts/number
-- include parts/relabel
if notes(noted, left) then signature = relabel(signature, noted, '^%d+ %S+ ') end
redis.call('SET', lock, value, 'PX', ttl)
return number(companion, signature, value, noted_for, redis.call('TIME'))
