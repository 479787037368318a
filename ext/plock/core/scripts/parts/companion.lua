-- The companion of a lock: its last fence and its owners.
-- include beside
local companion = beside .. ':fence'
