-- Acquires the lock if it is free and no other waiter is first in the queue, and gives the lease a
-- fence.
-- KEYS[1]: the lock's key.
-- ARGV[1]: the caller's value.
-- ARGV[2]: the TTL, in ms.
-- ARGV[3]: the caller's signature, 'host pid thread channel label'.
-- ARGV[4]: the companion's TTL, in ms.
-- ARGV[5], optional: 'again' if an earlier request of this owner may have acquired the lock. A
--   waiter passes its ticket instead, or '0' if it has none yet.
-- ARGV[6], only from a waiter: the window, which is the part of each second that is reserved for
--   processes that poll (left_to_polling of parts/pass.lua), in ms.
-- Reply if the caller holds the lock now: the fence, a string of 16 digits.
-- Reply if the lock is refused: {0, ms until the lock can be free}. 0 ms means that the call
--   reached its limit of tries, so the client must ask again.
--   The reply to a waiter also has the waiter's rank, its ticket and two flags. The first flag is 1
--   if the holder notifies waiters, otherwise 0. The second flag is 1 if the waiter had lost its
--   place in the queue, otherwise 0.
local call, lock, value, ttl = redis.call, KEYS[1], ARGV[1], ARGV[2]
local mine = call('SET', lock, value, 'NX', 'PX', ttl)
-- include parts/names
if not mine or call('EXISTS', queue) == 1 then
  local ticket, window, record = ARGV[5], ARGV[6], ARGV[3] .. ' ' .. value
  local left, lost
  -- include parts/tries
  -- include parts/pass
  if mine then
    -- The last lease expired without a release, so no waiter was notified. This script therefore
    -- does what the release would have done. It leaves the lock to the processes that poll while
    -- their window lasts, and then hands it to the first waiter.
    left = left_to_polling(window)
    if left > 0 then
      call('DEL', lock)
      mine = false
    else
      if window and ticket ~= '0' then lost = call('ZADD', queue, 'NX', ticket, record) == 1 end
      local passed = pass(lock, queue, record)
      mine = passed == false
      left = passed == nil and 0 or nil
      if left then call('DEL', lock) end
    end
  elseif ticket then
    local holder = call('GET', lock)
    mine = holder == value or (window and holder == baton(value))
    -- After 'again', the lock may have this owner's value for two reasons: the earlier request
    -- acquired it, or the owner acquired it another time. Only in the first case does the record
    -- match.
    if mine and not window then mine = noted_record(call('GET', companion)) == record end
    if mine then
      call('SET', lock, value, 'PX', ttl)
      if window then call('ZREM', queue, record) end
    end
  end
  if not mine then
    if not left then
      left = call('PTTL', lock)
      if left == 0 then left = 1 end
    end
    if not window then return {0, left} end
    local place = call('ZSCORE', queue, record)
    if not place then
      place = ticket
      if ticket == '0' then
        local t, last = call('TIME'), call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
        place = math.max(t[1] * 1000000 + t[2], last and last + 1 or 0)
      else
        lost = true
      end
      place = string.format('%.0f', place)
      call('ZADD', queue, place, record)
      if redis.queued then redis.queued(lock) end
    end
    call('PEXPIRE', queue, math.max(left, 0) + 600000)
    local holder = call('GET', lock)
    local ours = not holder or stands_for(holder) or notes(call('GET', companion), holder)
    local rank = call('ZRANK', queue, record)
    return {0, left, rank, string.format('%.0f', place), ours and 1 or 0, lost and 1 or 0}
  end
end
-- include parts/number
return number(companion, ARGV[3], value, ARGV[4], call('TIME'))
