-- The queue of a lock: its waiters.
-- include beside
local queue = beside .. ':queue'
