-- Precedes cluster.lua in the script that breaks shares on a Redis Cluster. Does the same as
-- cluster_break.lua, but 'anyway' is ARGV[3].
if ARGV[3] ~= 'anyway' then
  local lock = KEYS[1]
  -- include names
  -- include moving
  local holders = moving and redis.pcall('ZRANGE', lock, 0, -1) or {}
  for _, value in ipairs(holders) do
    if type(redis.pcall('HGET', companion, value)) ~= 'string' then
      return redis.error_reply('TRYAGAIN the note of a holder is on another node')
    end
  end
end
