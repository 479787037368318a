-- Gives a new owner the share that its earlier owner left, as adopt.lua does with a lock.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the left value, which is the earlier owner's value.
-- ARGV[2]: the TTL, in ms.
-- ARGV[3]: the new owner's value.
-- ARGV[4]: the new owner's signature, 'host pid thread channel label'.
-- ARGV[5]: fence_ttl, in ms.
-- Reply: as that of adopt.lua.
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
if not note then
  -- The note was lost (shared_downgrade.lua tells how). The mode 'w' is safe, because it admits no
  -- other holder.
  note = 'w'
  -- If the companion is on another node, HSET fails here, before the script has changed anything.
  call('HSET', companion, old, note)
end
-- The new value is added before the old value is removed, so that the set is never empty. Redis
-- would delete an empty set. While the lock's slot moves, the node that the slot leaves can add to
-- a set, but cannot create one.
local fence = grant(string.sub(note, 1, 1), relabel(record, note, '^%a %d+ %S+ '))
if value ~= old then remove(lock, companion, old) end
keep(lock, companion)
return fence
