-- Precedes cluster.lua in the acquire script for a Redis Cluster. If the lock has neither a holder
-- nor waiters, does the same as acquire.lua, and saves the server the work of cluster.lua.
if not ARGV[5] then
  local lock, value = KEYS[1], ARGV[1]
  if redis.call('SET', lock, value, 'NX', 'PX', ARGV[2]) then
    -- include beside
    -- include queue
    if redis.call('EXISTS', queue) == 0 then
      -- include companion
      -- include number
      return number(companion, ARGV[3], value, ARGV[4], redis.call('TIME'))
    end
    redis.call('DEL', lock)
  end
end
