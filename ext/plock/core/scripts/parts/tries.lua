-- How many records one call of a script may still handle. The queue may have any length, and Redis
-- serves no other client while a script runs. If the call reaches the limit, the client asks again.
local tries = 64
