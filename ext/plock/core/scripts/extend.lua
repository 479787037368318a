-- Extends a lease if the value still holds the lock. The lease then lasts for the TTL from now.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the holder's value.
-- ARGV[2]: the TTL, in ms.
-- ARGV[3]: the companion's TTL, in ms.
-- ARGV[4], optional: 'longer' if the call must not shorten the lease, or ''.
-- ARGV[5], optional: the owner's new place for its record, 'host pid thread channel'.
-- Reply: 1 if the lease was extended, 0 if the value does not hold the lock.
-- Every extension writes, even if the TTL stays the same. Otherwise a WAIT after the script would
-- confirm nothing, because it confirms only writes (Redis 7.2 and later).
-- While the server's memory is full, Redis refuses SET, unless the script has already written. So
-- PEXPIRE, which needs no memory, comes first.
local lock, value, ttl = KEYS[1], ARGV[1], ARGV[2]
local noted_for, place = ARGV[3], ARGV[5]
if redis.call('GET', lock) ~= value then return 0 end
-- include parts/beside
-- include parts/companion
if ARGV[4] == 'longer' then ttl = math.max(tonumber(ttl), redis.call('PTTL', lock)) end
redis.call('PEXPIRE', lock, ttl)
if place then
  -- include parts/record
  -- include parts/place
  local noted = redis.call('GET', companion)
  if notes(noted, value) then
    redis.call('SET', companion, placed(noted, '^(%d+ %S+) ', place), 'KEEPTTL')
  end
end
-- include parts/lasting
return 1
