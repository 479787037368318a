-- The name of the lock's companion, the key that stores the last fence and the record of each
-- holder. Requires beside.lua.
local companion = before .. lock .. after .. ':fence'
