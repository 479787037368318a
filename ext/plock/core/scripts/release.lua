-- Releases a lock if the value still holds it.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the holder's value.
-- ARGV[2], optional: the window, which is the part of each second that is reserved for processes
--   that poll (left_to_polling of parts/pass.lua), in ms.
-- ARGV[3], optional: for how many ms the key stays taken after the release.
-- ARGV[4], only with ARGV[3]: the companion's TTL, in ms.
-- Reply: the number that free() returns (parts/free.lua).
-- include parts/free
return free(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
