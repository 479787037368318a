-- True while the lock's slot moves. In that time, a command for two keys fails if the node lacks
-- one of them. The node always lacks the second key, which never exists. Requires names.lua.
local moving = type(redis.pcall('EXISTS', lock, companion .. ':')) == 'table'
