-- Makes a lease that is still ours last longer, from now. KEYS: lock, companion. ARGV: value, ttl ms, fence_ttl ms, 'longer' where it is
-- not to be shortened, else '', and the place of its owner, as extend.lua has it; without a ttl it is only asked whether it is ours.
-- 1: it is, 0: it was not.
local lock, companion, value, ttl, fence_ttl, place = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[5]
-- include parts/now
local ends = tonumber(call('ZSCORE', lock, value) or 0)
if ends <= now then return 0 end
local note = place and call('HGET', companion, value)
if note then
  -- include parts/place
  call('HSET', companion, value, placed(note, '^(%a %d+ %S+) ', place))
end
if ttl and not (ARGV[4] == 'longer' and ends >= now + ttl) then
  -- include parts/share
  call('ZADD', lock, now + ttl, value)
  keep(lock, companion)
end
return 1
