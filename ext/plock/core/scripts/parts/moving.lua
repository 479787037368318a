-- Is the slot of the lock moving? A command for two keys then fails unless its node has both. The
-- second key never exists. names.lua comes first.
local moving = type(redis.pcall('EXISTS', lock, companion .. ':')) == 'table'
