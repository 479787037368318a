-- Takes one who waited out of the line, and lets in those whom he kept out. KEYS: lock, companion, queue. ARGV: value, doubt ('1': an
-- answer never came, so he may be inside), and his share and record.
-- 0: there was nothing to hand on, 1: there is room now, 2: somebody has been let in.
local lock, companion, queue, value = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
-- include parts/now
-- include parts/share
local member = ARGV[4] and ARGV[3] .. ' ' .. ARGV[4]
local first = member and call('ZRANK', queue, member) == 0
if member then call('ZREM', queue, member) end
sweep(lock, companion)
local had = remove(lock, companion, baton(value))
if ARGV[2] == '1' then had = remove(lock, companion, value) or had end
local called = pass(lock, companion, queue)
if called > 0 then return 2 end
if first then tell_two(lock, queue, '~' .. left(lock)) end -- he may have been told alone
return had and 1 or 0
