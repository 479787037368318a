-- Takes one who waited out of the line, and lets in those whom he kept out. KEYS: lock, companion, queue. ARGV: value, doubt ('1': an
-- answer never came, so he may be inside), fence_ttl ms, and his share and record.
-- 0: there was nothing to hand on, 1: there is room now, 2: somebody has been let in.
local lock, companion, queue, value, fence_ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[3]
-- include parts/now
-- include parts/share
local member = ARGV[5] and ARGV[4] .. ' ' .. ARGV[5]
local first = member and call('ZRANK', queue, member) == 0
if member then call('ZREM', queue, member) end
sweep(lock, companion)
local had = is_inside(lock, baton(value))
remove(lock, companion, baton(value))
if ARGV[2] == '1' then
  had = had or is_inside(lock, value)
  remove(lock, companion, value)
end
if (pass(lock, companion, queue) or 0) > 0 then return 2 end
if first then tell_two(lock, queue, '~' .. left(lock)) end -- he may have been told alone
return had and 1 or 0
