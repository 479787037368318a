-- Releases a lock. parts/free.lua explains the arguments and the answer.
-- KEYS: lock, queue, and the companion if the key stays taken.
-- ARGV: value, window ms, keep ms, companion's ttl ms.
-- include parts/free
return free(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], KEYS[3], ARGV[4])
