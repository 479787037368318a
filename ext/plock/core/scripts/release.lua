-- Gives back a lock that is still ours, to the first in line where somebody waits.
-- KEYS: lock, queue. ARGV: value, window ms (pass.lua's), and ms for which it is to stay taken.
-- 0: it was not ours, 1: free now, or when it has been taken long enough, 2: handed over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[3] or redis.call('EXISTS', KEYS[2]) == 1 then
  local lock, queue = KEYS[1], KEYS[2]
  -- include parts/pass
  local left = tonumber(ARGV[3]) or left_to_polling(ARGV[2])
  if left > 0 then
    look_again(lock, queue, left)
    if ARGV[3] then return redis.call('PEXPIRE', lock, left) end
  elseif pass(lock, queue) then
    return 2
  end
end
return redis.call('DEL', KEYS[1])
