-- The number of records that one call of a script may try. Redis serves no other client while a
-- script runs, so this limit bounds the call's work, however long the queue is. If the limit is too
-- small for the queue, the client asks again.
local tries = 64
