-- Gives back several locks. KEYS: lock and queue of each. ARGV: how long they are to stay taken (ms, or ''), and the value of each.
-- What became of each (parts/free.lua).
-- include parts/free
local told = {}
local keep = ARGV[1] ~= '' and ARGV[1] or nil
for i = 2, #ARGV do told[i - 1] = free(KEYS[2 * i - 3], KEYS[2 * i - 2], ARGV[i], nil, keep) end
return told
