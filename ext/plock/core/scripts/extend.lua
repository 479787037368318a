-- Makes a lease that is still ours last longer, from now. KEYS: lock. ARGV: value, ttl ms, and anything where it is not to be
-- shortened. 1: done, 0: it was not ours.
local lock, ttl = KEYS[1], ARGV[2]
if redis.call('GET', lock) ~= ARGV[1] then return 0 end
if ARGV[3] and redis.call('PTTL', lock) >= tonumber(ttl) then return 1 end
return redis.call('PEXPIRE', lock, ttl)
