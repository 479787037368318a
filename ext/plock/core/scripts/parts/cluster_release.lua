-- Precedes cluster.lua in the release script for a Redis Cluster. If the lock has no waiters, does
-- the same as parts/free.lua, and saves the server the work of cluster.lua.
if not ARGV[2] then
  local lock = KEYS[1]
  if redis.call('GET', lock) ~= ARGV[1] then return 0 end
  -- include beside
  -- include queue
  if redis.pcall('EXISTS', queue) == 0 then return redis.call('DEL', lock) end
end
