-- Takes a lock from its holder, notifies the holder, and hands the lock to the first waiter.
-- KEYS: lock. ARGV, optional: the fences whose holders lose the lock, see parts/chosen.lua, and
--   'anyway', see parts/cluster_break.lua.
-- Returns 0: the lock was not held (by them), 1: free now, 2: handed over, 3: unfinished, ask again
-- (pass.lua's nil).
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
