-- The beginning of the names of a lock's companion and queue. A request names only the key of the
-- lock. The scripts make the other names from it, in its cluster slot. If the key has a hash tag
-- after its first character, that stays the tag. Otherwise the whole key becomes the tag. Two keys
-- never get the same names, because a key with such a tag does not begin with a brace.
local beside = string.find(lock, '{', 2, true) and string.find(lock, '^[^{]+{[^}]+}') and lock
beside = 'plock:1:' .. (beside or '{' .. lock .. '}')
