-- Takes back what one acquire may have got whose answer was lost, but not what the same owner has acquired since.
-- KEYS: lock, companion. ARGV: value, owner as that acquire wrote it. 1: done, 0: there was nothing.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local record = redis.call('GET', KEYS[2])
if not record or string.sub(record, -#ARGV[2]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
