-- Comes first in the break script for a Redis Cluster. While a slot moves, the note that says where
-- the holder listens may be at the other node. So the client tries again, until it says 'anyway'.
if ARGV[2] ~= 'anyway' then
  local lock = KEYS[1]
  -- include names
  -- include moving
  local holder = moving and redis.pcall('GET', lock)
  if type(holder) == 'string' then
    -- include record
    local noted = redis.pcall('GET', companion)
    if type(noted) ~= 'string' or not notes(noted, holder) then
      return redis.error_reply('TRYAGAIN the note of the holder is at another node')
    end
  end
end
