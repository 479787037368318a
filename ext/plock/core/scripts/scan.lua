-- Lists some of the keys that match a pattern.
-- KEYS: none.
-- ARGV[1]: the cursor from the previous reply, or '0' to begin.
-- ARGV[2]: the pattern.
-- Reply: {next cursor, key, key, …}. The next cursor is '0' at the end.
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', '100')
local result = {found[1]}
for _, key in ipairs(found[2]) do result[#result + 1] = key end
return result
