-- The queue of a lock, with its waiters. beside.lua comes first.
local queue = before .. lock .. after .. ':queue'
