-- When the server's memory is full, Redis refuses commands that need memory, unless the script has
-- already written. So this write, which changes nothing, comes first. If the script runs as a Redis
-- function, it has the flag allow-oom and does not need this write.
call('ZREM', lock, '')
