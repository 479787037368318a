-- Makes a lease that is still ours last longer, from now. KEYS: lock, companion. ARGV: value, ttl ms, and what extend.lua has there
-- besides; without a ttl it is only asked whether it is ours. 1: it is, 0: it was not.
local lock, companion, value, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
-- include parts/now
local ends = tonumber(call('ZSCORE', lock, value) or 0)
if ends <= now then return 0 end
if ARGV[4] then
  -- include parts/adopt
  local note = call('HGET', companion, value)
  if note then call('HSET', companion, value, adopt(note, '^(%a %d+ %S+) ', ARGV[4])) end
end
if ttl and not (ARGV[3] == 'longer' and ends >= now + ttl) then
  -- include parts/share
  call('ZADD', lock, now + ttl, value)
  keep(lock, companion)
end
return 1
