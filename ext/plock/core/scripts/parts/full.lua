-- If the server's memory is full, Redis allows commands that need memory only in a script that has
-- already written. So this write, which changes nothing, comes first. If the script runs as a Redis
-- function, it has the flag allow-oom and does not need this write.
call('ZREM', lock, '')
