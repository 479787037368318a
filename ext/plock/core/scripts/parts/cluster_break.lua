-- Precedes cluster.lua in the break script for a Redis Cluster. While a slot moves, the companion,
-- which names the holder's channel, may be on the other node. In that case the script cannot notify
-- the holder, and replies that the client must try again. If ARGV[2] is 'anyway', the script breaks
-- the lock without notifying the holder.
if ARGV[2] ~= 'anyway' then
  local lock = KEYS[1]
  -- include names
  -- include moving
  local holder = moving and redis.pcall('GET', lock)
  if type(holder) == 'string' then
    -- include record
    local noted = redis.pcall('GET', companion)
    if type(noted) ~= 'string' or not notes(noted, holder) then
      return redis.error_reply('TRYAGAIN the note of the holder is on another node')
    end
  end
end
