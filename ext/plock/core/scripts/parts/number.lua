-- Numbers a lease, and writes its owner into the companion: one string of the fence, the time of
-- the acquire (the server's seconds:microseconds) and the record, which is the signature and the
-- value. The companion lasts for noted_for ms: as long as the lease, and then for the store's
-- fence_ttl.
-- The fence is the server's time in microseconds, or the last fence plus one. So it grows even if
-- the companion expires or is lost. Fences are strings, because they are faster than numbers here.
-- All have 16 digits, so they compare like numbers, also if one begins a longer text.
local function number(companion, signature, value, noted_for, t)
  local seconds, micros = t[1], t[2]
  local fence = seconds .. (#micros == 6 and micros or string.sub('00000' .. micros, -6))
  local noted = fence .. ' ' .. seconds .. ':' .. micros .. ' ' .. signature .. ' ' .. value
  local last = redis.call('SET', companion, noted, 'PX', noted_for, 'GET')
  if last and last >= fence then
    fence = string.format('%.0f', (string.match(last, '^%d+') or fence) + 1)
    redis.call('SET', companion, fence .. string.sub(noted, 17), 'PX', noted_for)
  end
  return fence
end
