-- Precedes each script for a Redis Cluster. While a slot moves, the keys of one lock may be on two
-- nodes. The script runs on the node that serves the lock's key, and treats keys on the other node
-- as missing. A command that would create such a key fails, so that the key never exists on both
-- nodes. The client then tries again.
local server, redis, node = redis, {pcall = redis.pcall}

local function elsewhere(name, ...)
  local absent = ({
    EXISTS = 0, DEL = 0, GET = false, PTTL = -2, PEXPIRE = 0, PEXPIREAT = 0, HGET = false, HDEL = 0,
    ZREM = 0, ZCARD = 0, ZCOUNT = 0, ZSCORE = false, ZRANK = false, ZRANGE = {}, ZRANGEBYSCORE = {}
  })[name]
  if absent == nil then return server.call(name, ...) end
  if select('#', ...) == 1 or (name ~= 'EXISTS' and name ~= 'DEL') then return absent end
  local sum = 0
  for _, key in ipairs({...}) do sum = sum + redis.call(name, key) end
  return sum
end

function redis.call(name, ...)
  local reply = server.pcall(name, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  -- If a command has several keys, and only some of them are on this node, older servers reply 'non
  -- local key', and newer servers 'rehashing of the slot'.
  if string.find(reply.err, 'non local key', 1, true) or
     string.find(reply.err, 'rehashing of the slot', 1, true) then
    return elsewhere(name, ...)
  end
  if string.find(reply.err, 'run this command', 1, true) then
    local said = {err = "NOPERM " .. name .. ": this user has no permission to run the command"}
    -- Redis 6 accepts no table as an error, so it gets a text. Only newer servers have
    -- REDIS_VERSION.
    error(server.REDIS_VERSION and said or '-' .. said.err, 0)
  end
  return server.call(name, ...)
end

-- Returns the name of the lock's note, a key that ends in ':node'. Returns false if the user may
-- not call CLUSTER MYID. Without a note, no lock counts as moved.
-- The note is needed because PUBLISH reaches the listeners on all nodes, but counts only those on
-- this node. Just after a lock has moved to this node, its waiters still listen on the node that
-- the lock came from.
-- The note contains the name of the lock's node, and the server's time, in ms, at which the lock
-- moved to that node. The time is 0 if the lock has not moved since its first waiter queued. If
-- a script finds no note, or the name of another node in it, the script writes a new note.
local function place(lock)
  node = node or server.pcall('CLUSTER', 'MYID')
  -- include beside
  return type(node) == 'string' and before .. lock .. after .. ':node'
end

-- Notes that the waiters of the lock listen on this node. A script that adds a waiter to the queue
-- must call this function afterwards.
function redis.queued(lock)
  local note = place(lock)
  if note then server.pcall('SET', note, node .. ' 0', 'NX', 'PX', 600000) end
end

-- Returns true during the first two seconds after the lock has moved to this node, and once if
-- there is no note.
local function moved(lock)
  local note = place(lock)
  if not note then return false end
  local noted, t = server.pcall('GET', note), server.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local at, since = string.match(type(noted) == 'string' and noted or '', '^(%S+) (%d+)$')
  if at == node then return now - since < 2000 end
  server.pcall('SET', note, node .. ' ' .. string.format('%.0f', now), 'PX', 600000)
  return true
end

-- Can this call use SPUBLISH? Not while the lock's slot moves, because Redis 8 then refuses all
-- commands for keys that follow a SPUBLISH in another slot.
local shards
local function may_shard(lock)
  if shards == nil and server.REDIS_VERSION then
    -- include beside
    -- include moving
    shards = not moving
  end
  return shards
end

-- Sends a message to the process that listens on the channel `name`. Returns true if the process
-- has received the message, or may have received it.
-- SPUBLISH (Redis 7) reaches and counts the listeners on this node, and costs other nodes nothing.
-- SPUBLISH needs the hash tag at the end of the name. Each process chooses a tag in a slot of the
-- node on which it listens. If SPUBLISH fails or reaches no process, PUBLISH sends the message to
-- all nodes, without the tag.
-- PUBLISH does not count listeners on other nodes. So if the lock has just moved to this node, the
-- process may have received a message that PUBLISH did not count.
function redis.tell(name, message, lock)
  local plain, tag = string.match(name, '^([^{]+)(.*)$')
  if tag ~= '' and may_shard(lock) then
    local heard = server.pcall('SPUBLISH', name, message)
    if type(heard) == 'number' and heard > 0 then return true end
  end
  return redis.call('PUBLISH', plain, message) > 0 or moved(lock)
end
