-- Makes a lease that is still ours last longer, from now. KEYS: lock. ARGV: value, ttl ms. 1: done, 0: it was not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
