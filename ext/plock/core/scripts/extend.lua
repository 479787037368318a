-- Makes a lease that is still ours last longer, from now. KEYS: lock, companion. ARGV: value, ttl ms, ms for which the companion lasts
-- with it, 'longer' where it is not to be shortened, else '', and where it is to be noted the place of its owner, 'host pid thread
-- channel'. 1: done, 0: it was not ours.
local lock, companion, value, ttl, noted_for, place = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[5]
if redis.call('GET', lock) ~= value then return 0 end
if place then
  -- include parts/record
  -- include parts/place
  local noted = redis.call('GET', companion)
  if notes(noted, value) then redis.call('SET', companion, placed(noted, '^(%d+ %S+) ', place), 'KEEPTTL') end
end
if ARGV[4] == 'longer' and redis.call('PTTL', lock) >= tonumber(ttl) then return 1 end
if redis.call('PTTL', companion) < tonumber(noted_for) then redis.call('PEXPIRE', companion, noted_for) end
return redis.call('PEXPIRE', lock, ttl)
