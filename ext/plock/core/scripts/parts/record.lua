-- What a record says. It is 'host pid thread channel label value': five words, and then the value, which may hold any bytes, blanks too.
-- So a value is read from its place in the record, and never recognized by the end of one.

-- The channel and the value of a record; nil: it is not a record.
local function read_record(record)
  return string.match(record, '^%S+ %S+ %S+ (%S+) %S+ (.+)$')
end

-- The record in what a companion notes, 'fence seconds:microseconds record'; nil: there is none.
local function noted_record(noted)
  return noted and string.match(noted, '^%d+ %S+ (.+)$')
end

-- Does the companion note that this value holds the lock?
local function notes(noted, value)
  local record = noted_record(noted)
  return record and select(2, read_record(record)) == value
end
