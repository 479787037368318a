-- Gives back a lock that is still ours, to the first in line where somebody waits. window ms: pass.lua's; keep ms: for which it is
-- to stay taken, or nil, and then the companion lasts for noted_for ms. 0: it was not ours, 1: free now, or when it has been taken long
-- enough, 2: handed over, 3: not yet, ask again (pass.lua's nil).

-- include tries

local function free(lock, queue, value, window, keep, companion, noted_for)
  if redis.call('GET', lock) ~= value then return 0 end
  if keep or redis.call('EXISTS', queue) == 1 then -- else there is nobody to hand it to
    -- include pass
    local left = tonumber(keep) or left_to_polling(window)
    if left > 0 then
      look_again(lock, queue, left)
      if keep then
        redis.call('SET', lock, kept(value), 'PX', left)
        if redis.call('PTTL', companion) < tonumber(noted_for) then redis.call('PEXPIRE', companion, noted_for) end
        return 1
      end
    else
      local passed = pass(lock, queue)
      if passed then return 2 end
      if passed == nil then return 3 end
    end
  end
  return redis.call('DEL', lock)
end
