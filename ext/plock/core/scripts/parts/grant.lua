-- Makes `value` a holder of a lock with several holders, and writes the lease's fence and record
-- into the companion. Returns the fence.
-- alone: true if there is no other holder. In that case all notes in the companion belong to
-- expired leases, and are deleted.
-- A script that includes this part defines `lock`, `companion`, `value` and `ttl`, and includes
-- now.lua.
local function grant(mode, record, alone)
  local fence = t[1] .. string.sub('00000' .. t[2], -6)
  local last = call('HGET', companion, 'fence')
  if last and last >= fence then fence = string.format('%.0f', last + 1) end
  -- If there is no last fence, there is no companion to delete.
  if alone and last then call('DEL', companion) end
  call('ZADD', lock, now + ttl, value)
  local note = mode .. ' ' .. fence .. ' ' .. t[1] .. ':' .. t[2] .. ' ' .. record
  call('HSET', companion, 'fence', fence, value, note)
  return fence
end
