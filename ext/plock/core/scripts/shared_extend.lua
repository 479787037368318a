-- Extends a share that the value still holds: it lasts for the ttl from now.
-- KEYS: lock.
-- ARGV: value, ttl ms, fence_ttl ms, 'longer' if the call must not shorten the lease, else '', and
--   the place of its owner, as in extend.lua. Without a ttl, the script only checks the holder.
-- Returns 1: the value is a holder, 0: it is not.
local lock, value, ttl, fence_ttl, place = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[5]
-- include parts/beside
-- include parts/companion
-- include parts/now
local ends = tonumber(call('ZSCORE', lock, value) or 0)
if ends <= now then return 0 end
if not ttl then return 1 end
-- include parts/full
local note = place and call('HGET', companion, value)
if note then
  -- include parts/place
  call('HSET', companion, value, placed(note, '^(%a %d+ %S+) ', place))
end
-- include parts/share
if ARGV[4] ~= 'longer' or ends < now + ttl then call('ZADD', lock, now + ttl, value) end
keep(lock, companion) -- writes, as in extend.lua
return 1
