-- Numbers a lease, and notes whose it is. The companion keeps fence, time of acquisition (server's seconds:microseconds) and owner
-- in one string, for so many ms: as long as the lease, and then as long as the store's fence_ttl says. The fence is the server's time in
-- microseconds, or one more than the last: so it grows whatever expires or is lost. It is made of strings, for they are quicker than
-- arithmetic here; of 16 digits both, they compare like numbers.
local function number(companion, record, noted_for, t)
  local fence = t[1] .. string.sub('00000' .. t[2], -6)
  local noted = ' ' .. t[1] .. ':' .. t[2] .. ' ' .. record
  local last = redis.call('SET', companion, fence .. noted, 'PX', noted_for, 'GET')
  if last and string.sub(last, 1, 16) >= fence then
    fence = string.format('%.0f', (string.match(last, '^%d+') or fence) + 1)
    redis.call('SET', companion, fence .. noted, 'PX', noted_for)
  end
  return fence
end
