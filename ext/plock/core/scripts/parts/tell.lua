-- How a waiter or a holder is told something: by a message on its process's channel, which its record names.

-- include record

-- What stands where a turn is reserved for this value: as long as the value, so that whatever reads values can read it, and
-- like none, for no token has colons.
local function baton(value)
  return (string.gsub(value, '-', ':'))
end

-- What stands where a lock, or a place, is to stay taken after its release: a renewal that comes late does not know it.
local function kept(value)
  return (string.gsub(value, '-', '.'))
end

-- Is it one of these two?
local function stands_for(holder)
  return string.find(holder, '%x([:.])%x%x%x%x%1%x%x%x%x%1%x')
end

-- Tells the owner of this record, and returns its value if its process heard the message.
local function tell(record, kind, lock)
  local channel, value = read_record(record)
  return channel and redis.call('PUBLISH', 'plock:1:wake:' .. channel, kind .. ' ' .. value .. ' ' .. lock) > 0 and value
end
