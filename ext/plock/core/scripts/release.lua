-- Releases a lock if the value still holds it.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the holder's value.
-- ARGV[2] to ARGV[4], optional: window, keep and noted_for of free() (parts/free.lua).
-- Reply: the number that free() returns.
-- include parts/free
return free(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
