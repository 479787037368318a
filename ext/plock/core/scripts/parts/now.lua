-- The server's time: `t` as TIME returns it, `now` in ms.
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
