-- Sets `before` and `after`, the texts before and after a lock's key in the names of its companion
-- and its queue. A request names only the lock's key. The scripts make the other two names from the
-- key, so that all three are in one cluster slot. If the key has a hash tag after its first
-- character, the names use that tag. Otherwise the whole key becomes the tag. Two keys never have
-- the same names, because a key with such a tag does not begin with a brace.
-- Each name is one concatenation, because another string would cost the server 1 % of the time of
-- an acquire and its release.
local before, after = 'plock:1:{', '}'
if string.find(lock, '{', 2, true) and string.find(lock, '^[^{]+{[^}]+}') then
  before, after = 'plock:1:', ''
end
