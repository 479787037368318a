-- The note with the place of its owner, 'host pid thread channel'. before: what comes before the record in it.
local function placed(note, before, place)
  return (string.gsub(note, before .. '%S+ %S+ %S+ %S+ ', '%1 ' .. string.gsub(place, '%%', '%%%%') .. ' ', 1))
end
