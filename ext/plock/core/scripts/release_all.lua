-- Gives back several locks. KEYS: locks, their queues, their companions where they stay taken. ARGV: for how long they stay taken (ms, or
-- ''), ms for which the companions then last, and the value of each. What became of each (parts/free.lua).
-- include parts/free
local n, told, ours = #ARGV - 2, {}, {}
local keep = ARGV[1] ~= '' and ARGV[1] or nil
local plain = not keep and redis.call('EXISTS', unpack(KEYS, n + 1)) == 0 -- then they can go all at once
for i = 1, n do
  local value = ARGV[i + 2]
  if not plain then
    told[i] = free(KEYS[i], KEYS[n + i], value, nil, keep, KEYS[2 * n + i], ARGV[2])
  elseif redis.call('GET', KEYS[i]) == value then
    told[i] = 1
    ours[#ours + 1] = KEYS[i]
  else
    told[i] = 0
  end
end
if ours[1] then redis.call('DEL', unpack(ours)) end
return told
