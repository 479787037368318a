-- Returns true if the holder with this fence (nil: it has none) loses the lock. `fences` are texts
-- between blanks: ' 1700000000000000 - '; '-' means the holders without a fence. nil or '': all
-- holders.
local function chosen(fences, fence)
  return not fences or fences == '' or string.find(fences, ' ' .. (fence or '-') .. ' ', 1, true)
end
