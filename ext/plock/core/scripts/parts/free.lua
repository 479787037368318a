-- Releases a lock if `value` still holds it. If the lock has waiters, hands it to the first one.
-- window: the part of each second that is reserved for processes that poll, in ms
--   (left_to_polling of pass.lua); nil if no process polls for the lock.
-- keep: for how many ms the key stays taken after the release; nil to free it at once.
-- noted_for: the companion's least TTL, in ms. Used only with `keep`.
-- Returns 0 if the value does not hold the lock, 1 if the lock is free now or after `keep`, else the
-- number that pass_on() returns.

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
        -- While the server's memory is full, Redis refuses SET, unless the script has already
        -- written. So PEXPIRE, which needs no memory, comes first.
        redis.call('PEXPIRE', lock, left)
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
