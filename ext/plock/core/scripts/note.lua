-- Stores a note if there is none yet, and returns the stored one ('' if there is none).
-- KEYS: note. ARGV: the note ('' only reads), and 'replace' if it may replace another note.
local kept = redis.call('GET', KEYS[1]) or ''
if ARGV[1] == '' or (kept ~= '' and ARGV[2] ~= 'replace') then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
