-- Sends messages to waiters and holders. A record names the channel of the owner's process.

-- include record

-- The baton that stands in the key while a turn is reserved for this value. It has the value's
-- length, so that any reader of values can read it. It equals no value, because tokens have no
-- colons.
local function baton(value)
  return (string.gsub(value, '-', ':'))
end

-- The value that keeps a lock or a place taken after its release. A late renewal does not match it.
local function kept(value)
  return (string.gsub(value, '-', '.'))
end

-- Returns true for a baton or a kept value.
local function stands_for(holder)
  return string.find(holder, '%x([:.])%x%x%x%x%1%x%x%x%x%1%x')
end

-- Sends a message to the owner of a record. Returns its value if its process received the message.
-- A cluster has its own way (cluster.lua).
local function tell(record, kind, lock)
  local channel, value = read_record(record)
  if not channel then return nil end
  local message = kind .. ' ' .. value .. ' ' .. lock
  local name, heard = 'plock:1:wake:' .. channel
  if redis.tell then heard = redis.tell(name, message, lock)
  else heard = redis.call('PUBLISH', name, message) > 0 end
  return heard and value
end
