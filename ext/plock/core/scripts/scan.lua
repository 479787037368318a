-- Lists some of the keys that match a pattern. ARGV: cursor, pattern.
-- Returns {next cursor, '0' at the end; keys …}.
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', '100')
local result = {found[1]}
for _, key in ipairs(found[2]) do result[#result + 1] = key end
return result
