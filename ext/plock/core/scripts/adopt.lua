-- Moves a lease that its owner has left to another owner. The new owner gets a greater fence, so
-- each left value allows one adoption. The label stays the same.
-- KEYS: lock.
-- ARGV: left value, ttl ms, new value, its signature ('host pid thread channel label'),
--   companion's ttl ms.
-- Returns the fence; a repeated request gets the same one. 0: the left value no longer holds.
local lock, left, ttl, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local signature, noted_for = ARGV[4], ARGV[5]
-- include parts/beside
-- include parts/companion
-- include parts/record
local holder, noted = redis.call('GET', lock), redis.call('GET', companion) or ''
if holder == value and value ~= left and notes(noted, value) then
  -- a write in any case, as in extend.lua
  redis.call('PEXPIRE', lock, math.max(tonumber(ttl), redis.call('PTTL', lock)))
  -- include parts/lasting
  return string.match(noted, '^%d+')
end
if holder ~= left then return 0 end
-- include parts/number
-- include parts/relabel
if notes(noted, left) then signature = relabel(signature, noted, '^%d+ %S+ ') end
redis.call('SET', lock, value, 'PX', ttl)
return number(companion, signature, value, noted_for, redis.call('TIME'))
