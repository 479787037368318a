-- The companion of a lock: its last fence and its owners. A request names only the key of the lock.
-- The scripts make the other names from it, with the key in braces, so all are in one cluster slot.
local companion = 'plock:1:{' .. lock .. '}:fence'
