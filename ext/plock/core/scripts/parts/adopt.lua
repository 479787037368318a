-- A note with another owner: what comes before his record, which begins with 'host pid thread channel', stays, and so do label and
-- value, which end it.
local function adopt(note, before, place)
  return (string.gsub(note, before .. '%S+ %S+ %S+ %S+ ', '%1 ' .. string.gsub(place, '%%', '%%%%') .. ' ', 1))
end
