-- Gives back several locks. KEYS: locks, their queues. ARGV: how long they are to stay taken (ms, or ''), and the value of each.
-- What became of each (parts/free.lua).
-- include parts/free
local n, told, ours = #ARGV - 1, {}, {}
local keep = ARGV[1] ~= '' and ARGV[1] or nil
local plain = not keep and redis.call('EXISTS', unpack(KEYS, n + 1)) == 0 -- then they can go all at once
for i = 1, n do
  if not plain then
    told[i] = free(KEYS[i], KEYS[n + i], ARGV[i + 1], nil, keep)
  elseif redis.call('GET', KEYS[i]) == ARGV[i + 1] then
    told[i] = 1
    ours[#ours + 1] = KEYS[i]
  else
    told[i] = 0
  end
end
if ours[1] then redis.call('DEL', unpack(ours)) end
return told
