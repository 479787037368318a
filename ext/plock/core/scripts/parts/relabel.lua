-- The record with the label of an earlier owner of the same lease. before: what comes before the record in that one's note.
local function relabel(record, note, before)
  local label = string.match(note, before .. '%S+ %S+ %S+ %S+ (%S+) ')
  return label and (string.gsub(record, '^(%S+ %S+ %S+ %S+ )%S+', '%1' .. string.gsub(label, '%%', '%%%%'), 1)) or record
end
