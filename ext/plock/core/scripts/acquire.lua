-- Takes the lock where it is free, and numbers the lease.
-- KEYS: lock, companion. ARGV: value, ttl ms, owner ('host pid thread value'), and 'again' if
-- an earlier request of this owner may have got it already.
-- Held: the fence, a string of 16 digits. Refused: {0, ms until the lock can be free}.
-- The companion keeps fence, time of acquisition (server's seconds:microseconds) and owner in one string, for 24 h. The
-- fence is the server's time in microseconds, or one more than the last: so it grows whatever expires or is lost. It is made
-- of strings, for they are quicker than arithmetic here; of 16 digits both, they compare like numbers.
local call = redis.call
if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if not ARGV[4] or call('GET', KEYS[1]) ~= ARGV[1] then
    return {0, call('PTTL', KEYS[1])}
  end
  call('PEXPIRE', KEYS[1], ARGV[2])
end
local t = call('TIME')
local fence = t[1] .. string.sub('00000' .. t[2], -6)
local record = ' ' .. t[1] .. ':' .. t[2] .. ' ' .. ARGV[3]
local last = call('SET', KEYS[2], fence .. record, 'PX', '86400000', 'GET')
if last and string.sub(last, 1, 16) >= fence then
  fence = string.format('%.0f', (string.match(last, '^%d+') or fence) + 1)
  call('SET', KEYS[2], fence .. record, 'PX', '86400000')
end
return fence
