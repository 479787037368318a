-- Checks who holds a lock.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the value of the possible holder.
-- Reply: 1 if the value holds the lock, else 0.
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
