-- Moves a share that its owner has left to another owner, as adopt.lua does.
-- KEYS: lock. ARGV: left value, ttl ms, new value, its signature, fence_ttl ms.
-- Returns the fence; a repeated request gets the same one. 0: the left value no longer holds.
local lock, old, ttl, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local record = ARGV[4] .. ' ' .. value
-- include parts/beside
-- include parts/companion
-- include parts/now
-- include parts/share
-- include parts/relabel
local ends, note = tonumber(call('ZSCORE', lock, value) or 0), call('HGET', companion, value)
if ends > now and value ~= old and note then
  if ends < now + ttl then call('ZADD', lock, now + ttl, value) end
  keep(lock, companion)
  return string.match(note, '^%a (%d+)')
end
note = call('HGET', companion, old)
if tonumber(call('ZSCORE', lock, old) or 0) <= now or not note then return 0 end
local fence, last = t[1] .. string.sub('00000' .. t[2], -6), call('HGET', companion, 'fence')
if last and last >= fence then fence = string.format('%.0f', last + 1) end
remove(lock, companion, old)
local mode, time = string.sub(note, 1, 1), t[1] .. ':' .. t[2]
record = relabel(record, note, '^%a %d+ %S+ ')
local noted = mode .. ' ' .. fence .. ' ' .. time .. ' ' .. record
put(lock, companion, value, ttl, noted)
call('HSET', companion, 'fence', fence)
keep(lock, companion)
return fence
