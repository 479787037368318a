-- Releases a lock. parts/free.lua explains the arguments and the answer.
-- KEYS: lock. ARGV: value, window ms, keep ms, companion's ttl ms.
-- include parts/free
return free(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
