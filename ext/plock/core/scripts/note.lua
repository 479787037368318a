-- Reads or stores a note about the whole store, such as the fingerprint of its secret.
-- KEYS[1]: the note's key.
-- ARGV[1]: the note to store, or '' to read only.
-- ARGV[2], optional: 'replace' if the new note may replace an earlier one.
-- Reply: the note that is stored now, or '' if there is none.
local kept = redis.call('GET', KEYS[1]) or ''
if ARGV[1] == '' or (kept ~= '' and ARGV[2] ~= 'replace') then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
