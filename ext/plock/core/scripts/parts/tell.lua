-- Sends messages to waiters and holders. A record names the channel of its owner's process.

-- include record

-- Returns the baton of a value. The lock's key contains the baton while the turn is reserved for
-- the value's waiter. The baton has the same format as the value (plain or Ruby's Marshal), so any
-- program that reads values can read the baton. It differs from all values, because tokens have no
-- colons.
local function baton(value)
  return (string.gsub(value, '-', ':'))
end

-- Returns the text that replaces a value after the release, if the lock (or the value's place among
-- the holders) must stay taken. A renewal that arrives late does not match this text, so it does
-- nothing.
local function kept(value)
  return (string.gsub(value, '-', '.'))
end

-- Returns true if the text is one that baton() or kept() returns.
local function stands_for(holder)
  return string.find(holder, '%x([:.])%x%x%x%x%1%x%x%x%x%1%x')
end

-- Sends a message to the owner of a record. Returns the record's value if the owner's process
-- received the message. On a cluster, redis.tell (cluster.lua) sends it.
local function tell(record, kind, lock)
  local channel, value = read_record(record)
  if not channel then return nil end
  local message = kind .. ' ' .. value .. ' ' .. lock
  local name, heard = 'plock:1:wake:' .. channel
  if redis.tell then heard = redis.tell(name, message, lock)
  else heard = redis.call('PUBLISH', name, message) > 0 end
  return heard and value
end
