-- Is it still ours? KEYS: lock. ARGV: value. 1: it is, 0: it is not.
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
