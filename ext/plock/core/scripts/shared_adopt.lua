-- Moves a share that its owner has left to another owner, as adopt.lua does.
-- KEYS: lock. ARGV: left value, ttl ms, new value, its signature, fence_ttl ms.
-- Returns the fence; a repeated request gets the same one. 0: the left value no longer holds.
local lock, old, ttl, value, fence_ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local record = ARGV[4] .. ' ' .. value
-- include parts/beside
-- include parts/companion
-- include parts/now
-- include parts/grant
-- include parts/share
-- include parts/relabel
local ends, note = tonumber(call('ZSCORE', lock, value) or 0), call('HGET', companion, value)
if ends > now and value ~= old and note then
  if ends < now + ttl then call('ZADD', lock, now + ttl, value) end
  keep(lock, companion)
  return string.match(note, '^%a (%d+)')
end
if not is_inside(lock, old) then return 0 end
note = call('HGET', companion, old)
if not note then -- lost, as in shared_downgrade.lua; 'w' admits no reader beside a writer
  note = 'w'
  call('HSET', companion, old, note) -- fails before a change if the companion is at another node
end
-- The old share goes last: while a slot moves, its old node may add to a set, but not make one.
local fence = grant(string.sub(note, 1, 1), relabel(record, note, '^%a %d+ %S+ '))
if value ~= old then remove(lock, companion, old) end
keep(lock, companion)
return fence
