-- Comes before each script for a Redis Cluster. While a slot moves, the keys of one lock may be at
-- two nodes. The script runs at the node that serves the key of the lock, and treats the keys at
-- the other node as missing. Only a command that would create such a key fails, because the key
-- would then exist at both nodes. The client tries again.
local server, redis, node = redis, {}

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
  -- of several keys, only some of which are here, newer servers say the latter
  if string.find(reply.err, 'non local key', 1, true) or
     string.find(reply.err, 'rehashing of the slot', 1, true) then
    return elsewhere(name, ...)
  end
  if string.find(reply.err, 'run this command', 1, true) then
    local said = {err = "NOPERM " .. name .. ": this user has no permission to run the command"}
    error(server.REDIS_VERSION and said or '-' .. said.err, 0) -- Redis 6 takes no table
  end
  return server.call(name, ...)
end

-- PUBLISH reaches the listeners at all nodes, but counts only those at this node. When a lock has
-- moved here, its waiters still listen at the earlier node. So the note ':node' names the node at
-- which waiters queue. It also has the server's time (ms) at which the lock came there, or 0 if
-- its first waiter queued there. The first script that runs at another node changes the note. If
-- the user may not call CLUSTER MYID, place returns false, and no lock counts as moved.
local function place(lock)
  node = node or server.pcall('CLUSTER', 'MYID')
  -- include beside
  return type(node) == 'string' and before .. lock .. after .. ':node'
end

-- Must be called when a waiter has queued, for the waiter listens at this node.
function redis.queued(lock)
  local note = place(lock)
  if note then server.pcall('SET', note, node .. ' 0', 'NX', 'PX', 600000) end
end

-- Returns true in the first two seconds of the lock at this node.
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

-- Sends a message. Returns true if its process received it, or can have received it.
-- SPUBLISH (Redis 7) reaches and counts the listeners at this node, and costs other nodes nothing.
-- The hash tag at the end of the name is for it: a process chooses one that its node serves. If
-- another node serves the tag by now, or no process hears it, PUBLISH without it goes to all nodes.
-- Shortly after a lock has moved to this node, PUBLISH does not count its listeners.
function redis.tell(name, message, lock)
  local plain, tag = string.match(name, '^([^{]+)(.*)$')
  if tag ~= '' and server.REDIS_VERSION then
    local heard = server.pcall('SPUBLISH', name, message)
    if type(heard) == 'number' and heard > 0 then return true end
  end
  return redis.call('PUBLISH', plain, message) > 0 or moved(lock)
end
