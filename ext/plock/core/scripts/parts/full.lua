-- If the server's memory is full, Redis refuses a command that needs memory, unless the script has
-- written before. So this write comes first. It changes nothing. Functions do not need this write,
-- because they have the flag allow-oom.
call('ZREM', lock, '')
