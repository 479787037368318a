-- Undoes an acquire whose reply was lost. The record must match, so that the script does not
-- release a later lease of the same owner.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the owner's value.
-- ARGV[2]: the signature that the acquire wrote.
-- Reply: 0 if there was nothing to undo, else the number that pass_on() returns
--   (parts/pass_on.lua).
-- include parts/tries
-- include parts/pass_on
local lock, value = KEYS[1], ARGV[1]
-- include parts/names
if redis.call('GET', lock) ~= value then return 0 end
if noted_record(redis.call('GET', companion)) ~= ARGV[2] .. ' ' .. value then return 0 end
return pass_on(lock, queue)
