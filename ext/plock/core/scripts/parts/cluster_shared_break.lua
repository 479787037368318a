-- Comes first in the break script of shares for a Redis Cluster, as cluster_break.lua.
if ARGV[3] ~= 'anyway' then
  local lock = KEYS[1]
  -- include names
  -- include moving
  local holders = moving and redis.pcall('ZRANGE', lock, 0, -1) or {}
  for _, value in ipairs(holders) do
    if type(redis.pcall('HGET', companion, value)) ~= 'string' then
      return redis.error_reply('TRYAGAIN the note of a holder is at another node')
    end
  end
end
