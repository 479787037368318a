-- The companion of a lock, with its last fence and its owners. beside.lua comes first.
local companion = before .. lock .. after .. ':fence'
