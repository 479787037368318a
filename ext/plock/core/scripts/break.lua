-- Takes a lock away from whoever holds it, tells him where he listens, and hands it to the first in line.
-- KEYS: lock, companion, queue. 0: nobody held it, 1: free now, 2: handed over.
-- include parts/pass
local lock, companion, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, noted = redis.call('GET', lock), redis.call('GET', companion)
if not holder then return 0 end
local record = noted and string.match(noted, '^%d+ %S+ (.*)$')
if record and string.sub(record, -#holder - 1) == ' ' .. holder then tell(record, '!', lock) end
if pass(lock, queue) then return 2 end
return redis.call('DEL', lock)
