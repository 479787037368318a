-- How many records one call of a script may still handle. Redis serves no other client while a
-- script runs, so the call's work needs a limit, because the queue may have any length. If the call
-- reaches the limit, the client asks again.
local tries = 64
