-- Returns true if the holder with this fence must lose the lock. `fence` is nil for a holder
-- without a fence. If `fences` is '' or nil, all holders lose the lock. Otherwise `fences` lists
-- fences with a blank before and after each, as in ' 1700000000000000 - '. The '-' stands for all
-- holders without a fence.
local function chosen(fences, fence)
  return not fences or fences == '' or string.find(fences, ' ' .. (fence or '-') .. ' ', 1, true)
end
