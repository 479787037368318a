-- Gives back a lock. KEYS: lock, queue. ARGV: value, window ms, keep ms (parts/free.lua).
-- include parts/free
return free(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])
