-- The name of the lock's queue, the key that stores its waiters. Requires beside.lua.
local queue = before .. lock .. after .. ':queue'
