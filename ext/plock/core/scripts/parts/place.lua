-- Returns the note with the owner's new `place` ('host pid thread channel') in its record. The
-- pattern `before` captures the part of the note that precedes the record.
local function placed(note, before, place)
  local escaped = string.gsub(place, '%%', '%%%%')
  return (string.gsub(note, before .. '%S+ %S+ %S+ %S+ ', '%1 ' .. escaped .. ' ', 1))
end
