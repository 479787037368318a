-- Reads records. A record is 'host pid thread channel label value': five words, and then the value,
-- which may contain any bytes, even blanks. So a value is found by its position, and never by
-- comparing the end of the record.

-- Returns the channel and the value of a record, or nil if the text is not a record.
local function read_record(record)
  return string.match(record, '^%S+ %S+ %S+ (%S+) %S+ (.+)$')
end

-- Returns the record in a companion, 'fence seconds:microseconds record', or nil if there is none.
local function noted_record(noted)
  return noted and string.match(noted, '^%d+ %S+ (.+)$')
end

-- Returns true if the companion names this value as the holder.
local function notes(noted, value)
  local record = noted_record(noted)
  return record and select(2, read_record(record)) == value
end
