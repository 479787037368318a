-- Reads records. A record is 'host pid thread channel label value'. The value may contain any
-- bytes, even blanks, so it is all of the text after the fifth word.

-- Returns the channel and the value of a record, or nil if the text is not a record.
local function read_record(record)
  return string.match(record, '^%S+ %S+ %S+ (%S+) %S+ (.+)$')
end

-- Returns the record in a companion's text, 'fence seconds:microseconds record'. Returns nil if the
-- text is missing or contains no record.
local function noted_record(noted)
  return noted and string.match(noted, '^%d+ %S+ (.+)$')
end

-- Returns true if the companion's text names this value as the holder.
local function notes(noted, value)
  local record = noted_record(noted)
  return record and select(2, read_record(record)) == value
end
