-- Precedes cluster.lua in the release script for a Redis Cluster. Does the same as parts/free.lua
-- for a lock without waiters, and saves the server the work of cluster.lua.
if not ARGV[2] then
  local lock = KEYS[1]
  if redis.call('GET', lock) ~= ARGV[1] then return 0 end
  -- include beside
  -- include queue
  if redis.pcall('EXISTS', queue) == 0 then return redis.call('DEL', lock) end
end
