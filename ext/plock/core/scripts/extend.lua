-- Makes a lease that is still ours last longer, from now. KEYS: lock, and its companion where it is adopted. ARGV: value, ttl ms, and
--   'longer'                        where it is not to be shortened, or
--   '', 'host pid thread channel'   of who adopts it: it is noted as his from now on.
-- 1: done, 0: it was not ours.
local lock, companion, value, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('GET', lock) ~= value then return 0 end
if companion then
  -- include parts/adopt
  local noted = redis.call('GET', companion)
  if noted and string.sub(noted, -#value) == value then
    redis.call('SET', companion, adopt(noted, '^(%d+ %S+) ', ARGV[4]), 'PX', '86400000')
  end
end
if ARGV[3] == 'longer' and redis.call('PTTL', lock) >= tonumber(ttl) then return 1 end
return redis.call('PEXPIRE', lock, ttl)
