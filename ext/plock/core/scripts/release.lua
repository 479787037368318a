-- Gives back a lock. KEYS: lock, queue, and the companion where it stays taken. ARGV: value, window ms, keep ms, ms for which the
-- companion then lasts (parts/free.lua).
-- include parts/free
return free(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], KEYS[3], ARGV[4])
