-- The queue of a lock: its waiters. parts/companion.lua explains the name.
local queue = 'plock:1:{' .. lock .. '}:queue'
