-- Gives back a lock that is still ours. KEYS: lock. ARGV: value. 1: done, 0: it was not ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
