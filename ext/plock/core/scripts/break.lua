-- Takes a lock from its holder, notifies the holder, and hands the lock to the first waiter.
-- KEYS[1]: the lock's key.
-- ARGV[1], optional: the fences whose holders lose the lock, as in parts/chosen.lua. Without it,
--   any holder loses the lock.
-- ARGV[2], optional: 'anyway', as in parts/cluster_break.lua.
-- Reply: 0 if no such holder had the lock, else the number that pass_on() returns
--   (parts/pass_on.lua).
-- include parts/tries
-- include parts/pass_on
-- include parts/chosen
local lock = KEYS[1]
-- include parts/names
local holder, noted = redis.call('GET', lock), redis.call('GET', companion)
if not holder then return 0 end
local record = noted_record(noted)
local value = record and select(2, read_record(record))
local known = value and (value == holder or kept(value) == holder)
if not chosen(ARGV[1], known and string.match(noted, '^%d+')) then return 0 end
if value == holder then tell(record, '!' .. #holder, lock) end
return pass_on(lock, queue)
