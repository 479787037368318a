-- Extends a lease that the value still holds: it lasts for the ttl from now.
-- KEYS: lock.
-- ARGV: value, ttl ms, companion's ttl ms, 'longer' (the call must not shorten the lease) or ''.
-- The owner's new place for its record, 'host pid thread channel', may follow.
-- Returns 1: extended, 0: the value does not hold the lock.
-- It always writes, because a WAIT that follows confirms only writes (Redis 7.2 and later). PEXPIRE
-- comes first: while its memory is full, Redis refuses SET in a script that has not written before.
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
