-- Extends a share if the value still holds it. The lease then lasts for the TTL from now. Without a
-- TTL, the script only checks whether the value is a holder.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the holder's value.
-- ARGV[2], optional: the TTL, in ms.
-- ARGV[3], only with a TTL: fence_ttl, in ms.
-- ARGV[4], optional: 'longer' if the call must not shorten the lease, or ''.
-- ARGV[5], optional: the owner's new place for its record, 'host pid thread channel'.
-- Reply: 1 if the value is a holder, 0 if it is not.
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
-- keep() writes even if the TTL stays the same, because a WAIT after the script confirms only
-- writes.
keep(lock, companion)
return 1
