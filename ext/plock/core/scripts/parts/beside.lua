-- The texts before and after a lock's key in the names of its companion and queue. A request names
-- only the key of the lock. The scripts make the other names from it, in its cluster slot. If the
-- key has a hash tag after its first character, that stays the tag. Otherwise the whole key becomes
-- the tag. Two keys never get the same names, because a key with such a tag does not begin with a
-- brace. Each name is one concatenation: a string more costs the server 1 % of a pair.
local before, after = 'plock:1:{', '}'
if string.find(lock, '{', 2, true) and string.find(lock, '^[^{]+{[^}]+}') then
  before, after = 'plock:1:', ''
end
