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
    plock_interest interest; /* the event that an unfinished question waits for */
    /* Valid when the question has ended. Its status is the result of `read`, or a failure. */
    plock_error error;
} plock_question;

/* Sends the question. */
typedef plock_status plock__asker(plock_inquiry *inquiry, plock_question *question);
/* Reads the answer, which may be an error. */
typedef plock_status plock__answer_reader(plock_inquiry *inquiry, plock_question *question,
                                          const plock_value *answer);

/* Must be on the heap, because a child that is forked during the inquiry still uses `pool`: it
 * closes the connections in the pool. */
struct plock_inquiry {
    plock_config *config; /* for the connections */
    /* where plock__inquiry_publish writes, under the mutex; NULL if no caller reads it */
    plock_error *so_far;
    plock__asker *ask; /* NULL: a question ends when its connection is open */
    plock__answer_reader *read;
    bool large; /* answers may be large */
    bool started;
    plock_pool pool;
    plock_ns deadline;
    unsigned count; /* the number of questions in the list */
    unsigned asked; /* the first `asked` questions of the list have been asked */
    plock_question list[PLOCK__ASKED_MAX];
};

/* Requires that the caller has set config, so_far, ask, read and large, and that all other fields
 * are 0. Sets the deadline. If the files for TLS cannot be read, fails before any server is
 * asked. */
PLOCK_MUST_USE plock_status plock__inquiry_start(plock_inquiry *inquiry, plock_error *error);

/* Adds a server, if there is room. The texts must stay valid until the inquiry has ended. */
void plock__inquiry_add(plock_inquiry *inquiry, const char *host, const char *port);

/* Advances the question, unless it has ended. */
void plock__inquiry_step(plock_inquiry *inquiry, plock_question *question);

/* Waits until one of the questions that have been asked can advance, or until the deadline. */
void plock__inquiry_await(const plock_inquiry *inquiry, plock_ns deadline);

/* Returns how many questions have been asked and have not ended. */
unsigned plock__inquiry_under_way(const plock_inquiry *inquiry);

/* Reports why one of the questions has failed: "the WHAT HOST:PORT: MESSAGE". Returns the status of
 * that failure. A question that ended with PLOCK_REFUSED has not failed. If no question has failed,
 * reports "none of the WHATs that were asked answered in time" and returns PLOCK_SILENT.
 *
 * A failure is final if a later attempt would fail as well. The outcome is settled if all questions
 * have ended, or if at least half of them have a final failure. If so, reports the first final
 * failure; otherwise, or if none is final, the first failure. While the outcome is not settled,
 * other servers may still answer, so the function then returns PLOCK_SILENT for a final failure. */
PLOCK_MUST_USE plock_status plock__inquiry_failure(const plock_inquiry *inquiry, const char *what,
                                                   plock_error *error);

/* Publishes the failure for a caller whose deadline passes before the inquiry ends. */
void plock__inquiry_publish(const plock_inquiry *inquiry, const plock_error *error);

/* Closes the connections. Must be called within a step. */
void plock__inquiry_end(plock_inquiry *inquiry);

#endif
