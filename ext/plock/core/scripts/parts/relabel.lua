-- Returns `record`, the new owner's record or signature, with the label of the lease's earlier
-- owner. `note` is the companion's text about the earlier owner. The pattern `before` matches the
-- part of the note that precedes the record.
local function relabel(record, note, before)
  local label = string.match(note, before .. '%S+ %S+ %S+ %S+ (%S+) ')
  if not label then return record end
  local escaped = string.gsub(label, '%%', '%%%%')
  return (string.gsub(record, '^(%S+ %S+ %S+ %S+ )%S+', '%1' .. escaped, 1))
end
