-- Keeps a note where there is none yet, and returns the one that is kept. KEYS: note.
-- ARGV: the note ('': only look), and 'replace', if it replaces another one. '': there is none.
local kept = redis.call('GET', KEYS[1]) or ''
if ARGV[1] == '' or (kept ~= '' and ARGV[2] ~= 'replace') then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
