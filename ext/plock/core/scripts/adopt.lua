-- Takes over a lease that its owner has left. It goes to another owner, with a greater fence, so the value that was left is good
-- for one adoption. KEYS: lock, companion. ARGV: value that was left, ttl ms, new value, its record ('host pid thread channel label
-- value'), ms for which the companion lasts; the label stays as it was. The fence; a request that comes twice gets the same one. 0: it was not that owner's any more.
local lock, companion, left, ttl, value, record, noted_for = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- include parts/record
local holder, noted = redis.call('GET', lock), redis.call('GET', companion) or ''
if holder == value and value ~= left and notes(noted, value) then
  if redis.call('PTTL', lock) < tonumber(ttl) then redis.call('PEXPIRE', lock, ttl) end
  if redis.call('PTTL', companion) < tonumber(noted_for) then redis.call('PEXPIRE', companion, noted_for) end
  return string.match(noted, '^%d+')
end
if holder ~= left then return 0 end
-- include parts/number
-- include parts/relabel
if notes(noted, left) then record = relabel(record, noted, '^%d+ %S+ ') end
redis.call('SET', lock, value, 'PX', ttl)
return number(companion, record, noted_for, redis.call('TIME'))
