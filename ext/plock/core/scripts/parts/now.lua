-- Reads the server's time: `t` is the reply to TIME, and `now` is the time in ms.
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
