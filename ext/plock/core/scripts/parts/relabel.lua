-- Returns the record, or the signature, with the label from the note of the lease's earlier owner.
-- The pattern `before` matches the part of the note before the record.
local function relabel(record, note, before)
  local label = string.match(note, before .. '%S+ %S+ %S+ %S+ (%S+) ')
  if not label then return record end
  local escaped = string.gsub(label, '%%', '%%%%')
  return (string.gsub(record, '^(%S+ %S+ %S+ %S+ )%S+', '%1' .. escaped, 1))
end
