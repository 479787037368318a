-- If the server's memory is full, Redis refuses a command that needs memory, unless the script has
-- already written. So this write, which changes nothing, comes first. Functions do not need it,
-- because they have the flag allow-oom.
call('ZREM', lock, '')
