-- Sets `before` and `after`, the texts before and after a lock's key in the names of its companion
-- and its queue. A request names only the lock's key. The scripts make the other two names from the
-- key, so that all three are in one cluster slot.
-- If the key contains a hash tag but does not begin with it, the names use that tag. Otherwise the
-- whole key becomes the tag. The two forms never produce the same name, because a key whose own tag
-- is used does not begin with a brace.
-- Each name is made by a single concatenation. One more string would cost the server 1 % of the
-- time of an acquire and its release.
local before, after = 'plock:1:{', '}'
if string.find(lock, '{', 2, true) and string.find(lock, '^[^{]+{[^}]+}') then
  before, after = 'plock:1:', ''
end
