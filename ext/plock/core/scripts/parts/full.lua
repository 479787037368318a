-- While its memory is full, Redis refuses a command that needs memory in a script that has not
-- written before. So this write comes first. It changes nothing. (Functions have a flag instead.)
call('ZREM', lock, '')
