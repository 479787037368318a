-- How many processes one call of a script tries to reach. Redis serves no other client while a script runs, so a call does a bounded
-- amount of work however long the queue is; where that is not enough, its caller asks again.
local tries = 64
