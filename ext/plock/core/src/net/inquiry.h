/* Asks several servers the same question, each over a connection of its own. The thread that asks
 * may block. */
#ifndef PLOCK__INQUIRY_H
#define PLOCK__INQUIRY_H

#include "net/connection.h"
#include "net/pool.h"
#include "net/resolver.h"

typedef struct plock_inquiry plock_inquiry;

enum { PLOCK__ASKED_MAX = 16 };

/* The question to one server. */
typedef struct plock_question {
    enum { PLOCK__QUESTION_OPENS, PLOCK__QUESTION_LISTENS, PLOCK__QUESTION_ENDED } state;
    plock_resolver resolver;
    plock_connection *connection;
    plock_interest interest; /* unless it has ended */
    plock_error error;       /* if it has ended; the status is what `read` returned, or a failure */
} plock_question;

/* Sends the question. */
typedef plock_status plock__asker(plock_inquiry *inquiry, plock_question *question);
/* Reads the answer, which may be an error. */
typedef plock_status plock__answer_reader(plock_inquiry *inquiry, plock_question *question,
                                          const plock_value *answer);

/* Lives on the heap: a child that is forked meanwhile finds the connections through the pool, and
 * closes them. */
struct plock_inquiry {
    plock_config *config; /* for the connections */
    plock_error *so_far;  /* what is known before the end, under the lock; NULL: it is not read */
    plock__asker *ask;    /* NULL: nothing is asked once a connection is open */
    plock__answer_reader *read;
    bool large; /* answers may be large */
    bool started;
    plock_pool pool;
    plock_ns deadline;
    unsigned count; /* of those in the list */
    unsigned asked; /* how many of them have been asked, the first ones */
    plock_question list[PLOCK__ASKED_MAX];
};

/* The caller has set config, ask, read and large; all else is 0. Sets the deadline. Fails before it
 * asks any server if the files for TLS cannot be read. */
PLOCK_MUST_USE plock_status plock__inquiry_start(plock_inquiry *inquiry, plock_error *error);

/* Adds a server, if there is room. The texts last as long as the inquiry. */
void plock__inquiry_add(plock_inquiry *inquiry, const char *host, const char *port);

/* A step of one question that has not ended. */
void plock__inquiry_step(plock_inquiry *inquiry, plock_question *question);

/* Waits for any of the servers that have been asked, until the deadline. */
void plock__inquiry_await(const plock_inquiry *inquiry, plock_ns now, plock_ns deadline);

/* Returns how many of those that have been asked have not ended. */
unsigned plock__inquiry_under_way(const plock_inquiry *inquiry);

/* Writes which question has failed, the first one: "the WHAT HOST:PORT: MESSAGE". A failure that no
 * later attempt can cure goes first if all have ended, or if half of all have failed that way.
 * PLOCK_REFUSED is no failure. Returns the status of that failure, or PLOCK_SILENT if no later
 * attempt can cure it, but too few have ended. Without a failure it writes and returns
 * PLOCK_SILENT: "none of the WHATs that were asked answered in time". */
PLOCK_MUST_USE plock_status plock__inquiry_failure(const plock_inquiry *inquiry, const char *what,
                                                   plock_error *error);

/* Publishes what a caller is told whose time ends before the inquiry does. */
void plock__inquiry_publish(const plock_inquiry *inquiry, const plock_error *error);

/* Closes the connections. Within a step. */
void plock__inquiry_end(plock_inquiry *inquiry);

#endif
