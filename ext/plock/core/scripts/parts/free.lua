-- Releases a lock that the value still holds. The first waiter gets it, if there is one.
-- window ms: see pass.lua. keep ms: the key stays taken for this long (nil: it does not), and the
-- companion lasts for noted_for ms.
-- Returns 0: the value does not hold the lock, 1: free now or after `keep`, 2: handed over,
-- 3: unfinished, ask again (pass.lua's nil).

-- include tries

local function free(lock, value, window, keep, noted_for)
  if redis.call('GET', lock) ~= value then return 0 end
  -- include beside
  -- include queue
  if keep or redis.call('EXISTS', queue) == 1 then
    -- include pass_on
    local left = tonumber(keep) or left_to_polling(window)
    if left > 0 then
      look_again(lock, queue, left)
      if keep then
        -- include companion
        redis.call('PEXPIRE', lock, left) -- first, as in extend.lua
        redis.call('SET', lock, kept(value), 'PX', left)
        -- include lasting
        return 1
      end
    else
      return pass_on(lock, queue)
    end
  end
  return redis.call('DEL', lock)
end
