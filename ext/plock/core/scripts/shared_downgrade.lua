-- Makes a writer a reader, without letting another writer in. KEYS: lock, companion, queue. ARGV: value.
-- 0: it was not ours, 1: it is a reader now, 2: and others have been let in.
local lock, companion, queue, value = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
-- include parts/now
-- include parts/share
local ends, note = call('ZSCORE', lock, value), call('HGET', companion, value)
if not ends or tonumber(ends) <= now or not note then return 0 end
call('HSET', companion, value, 'r' .. string.sub(note, 2))
return pass(lock, companion, queue) > 0 and 2 or 1
