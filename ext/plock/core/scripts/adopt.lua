-- Moves a lease that its owner has left to another owner. The new owner gets a greater fence, so
-- each left value allows one adoption. The label stays the same.
-- KEYS: lock, companion.
-- ARGV: left value, ttl ms, new value, its record ('host pid thread channel label value'),
--   companion's ttl ms.
-- Returns the fence; a repeated request gets the same one. 0: the left value no longer holds.
local lock, companion, left, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local value, record, noted_for = ARGV[3], ARGV[4], ARGV[5]
-- include parts/record
local holder, noted = redis.call('GET', lock), redis.call('GET', companion) or ''
if holder == value and value ~= left and notes(noted, value) then
  if redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
  if redis.call('PTTL', companion) < tonumber(noted_for) then
    redis.call('PEXPIRE', companion, noted_for)
  end
  return string.match(noted, '^%d+')
end
if holder ~= left then return 0 end
-- include parts/number
-- include parts/relabel
if notes(noted, left) then record = relabel(record, noted, '^%d+ %S+ ') end
redis.call('SET', lock, value, 'PX', ttl)
return number(companion, record, noted_for, redis.call('TIME'))
