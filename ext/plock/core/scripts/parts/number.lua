-- Gives a lease its fence, and writes the fence and the lease's owner into the companion. Returns
-- the fence.
-- The companion is one string: the fence, the time of the acquire (the server's
-- seconds:microseconds) and the record, which is the signature and the value. It lasts for
-- noted_for ms, which is the sum of the lease's TTL and the store's fence_ttl.
-- The fence is the server's time in microseconds. If the last fence is not smaller than that, the
-- new fence is the last fence plus 1. So fences grow even if the companion expires or is lost.
-- Fences are strings, because strings are faster than numbers here. All fences have 16 digits, so
-- they compare like numbers, even if other text follows the digits.
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
