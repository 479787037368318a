-- Returns 1 if the value holds the lock, else 0. KEYS: lock. ARGV: value.
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
