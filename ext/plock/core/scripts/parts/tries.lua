-- How many records one call of a script may try. Redis serves no other client while a script runs,
-- so the work of a call is bounded, however long the queue is. If that is not enough, the client
-- asks again.
local tries = 64
