-- Gives back a lock that is still ours, to the first in line where somebody waits. window ms: pass.lua's; keep ms: for which it is
-- to stay taken, or nil. 0: it was not ours, 1: free now, or when it has been taken long enough, 2: handed over.
local function free(lock, queue, value, window, keep)
  if redis.call('GET', lock) ~= value then return 0 end
  if keep or redis.call('EXISTS', queue) == 1 then -- else there is nobody to hand it to
    -- include pass
    local left = tonumber(keep) or left_to_polling(window)
    if left > 0 then
      look_again(lock, queue, left)
      if keep then
        redis.call('SET', lock, kept(value), 'PX', left)
        return 1
      end
    elseif pass(lock, queue) then
      return 2
    end
  end
  return redis.call('DEL', lock)
end
