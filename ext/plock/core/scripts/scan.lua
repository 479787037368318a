-- Names some of the keys of a pattern. ARGV: cursor, pattern. {cursor to go on from, '0' at the end; keys …}
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', '100')
local told = {found[1]}
for _, key in ipairs(found[2]) do told[#told + 1] = key end
return told
