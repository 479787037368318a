-- `moving` is true while the lock's slot moves. During a move, a command for two keys fails if one
-- of them is not on the node. The second key here never exists, so this command fails during each
-- move, and succeeds otherwise. Requires beside.lua.
local moving = type(redis.pcall('EXISTS', lock, before .. lock .. after .. ':')) == 'table'
