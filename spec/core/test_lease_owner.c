/* An owner that the caller supplies, and may use for several acquires. An undo affects one acquire,
 * and never another lease of the same owner. */
#include "fake.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plock_store *store;
static plock_lease *lease;
static plock_interest interest;

static void begin(void) {
    fake_clock_start();
    store = fake_store("redis://h");
    lease = fake_lease(store);
    CHECK_STATUS(plock_lease_own(lease, "me", 2), PLOCK_OK);
    for (unsigned p = 1; p < FAKE_PEERS; p++) fake_peers[p].obliging = true;
}

static void end(void) { fake_end(lease, store); }

/* Returns the owner's signature in an acquire: "host pid thread.number - -". The next word, the
 * time for which the server remembers the owner, is not included. */
static const char *signature_of(const char *acquire, char signature[FAKE_COMMAND_ROOM]) {
    const char *from = acquire;
    CHECK_HAS(acquire, "EVALSHA acquire 1 k me ");
    for (unsigned words = 0; words < 6; words++) from = strchr(from, ' ') + 1;
    const char *to = from;
    for (unsigned words = 0; words < 5; words++) to += strcspn(to, " ") + (words < 4);
    (void)snprintf(signature, FAKE_COMMAND_ROOM, "%.*s", (int)(to - from), from);
    return signature;
}

/* Returns the undo of an acquire. An undo in the background names the script by its SHA-1. An undo
 * behind an unanswered acquire contains the script's text, because no later call would load the
 * script. */
static const char *undo_of(const char *acquire, const char *call, char command[FAKE_COMMAND_ROOM]) {
    char signature[FAKE_COMMAND_ROOM];
    (void)snprintf(command, FAKE_COMMAND_ROOM, "%s undo 1 k me %.200s", call,
                   signature_of(acquire, signature));
    return command;
}

/* Uses the pool's one connection. The server closes the connection at its next use. */
static void close_while_idle(void) {
    fake_peers[0].answers[0] = FAKE_DONE;
    fake_peers[0].answers[1] = FAKE_CLOSES;
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
}

/* --- acquiring --- */

static void each_acquire_has_a_signature_of_its_own(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    begin();
    fake_peers[0].answers[0] = fake_peers[0].answers[1] = FAKE_REFUSED;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_REFUSED);
    (void)signature_of(fake_peers[0].commands[1], first);
    (void)signature_of(fake_peers[0].commands[2], second);
    CHECK(strcmp(first, second) != 0);
    CHECK(strchr(fake_word(first, 2, word), '.') != NULL);
    /* no channel, because the owner never waits in the queue */
    CHECK_TEXT(fake_word(first, 3, word), "-");
    CHECK_TEXT(fake_word(first, 5, word), "");
    end();
    CHECK_INT(fake_commands_like("EVALSHA undo"), 0);
}

static void what_is_in_doubt_is_undone_and_not_released(void) {
    static const char *const ANSWERS[] = {FAKE_SILENCE, FAKE_CLOSES, "-ERR x\r\n", "?\r\n"};
    static const plock_status STATUSES[] = {PLOCK_SILENT, PLOCK_DISCONNECTED, PLOCK_SERVER,
                                            PLOCK_PROTOCOL};
    for (unsigned i = 0; i < 4; i++) {
        char undo[FAKE_COMMAND_ROOM];
        begin();
        fake_peers[0].answers[0] = ANSWERS[i];
        fake_peers[0].answers[1] = FAKE_DONE;
        CHECK_STATUS(fake_acquire(lease, 0), STATUSES[i]);
        if (STATUSES[i] == PLOCK_SILENT)
            CHECK_TEXT(fake_peers[0].commands[2], undo_of(fake_peers[0].commands[1], "EVAL", undo));
        end();
        CHECK_INT(fake_commands_like(undo_of(fake_peers[0].commands[1], "EVALSHA", undo)), 1);
        CHECK_INT(fake_commands_like("EVALSHA release"), 0);
    }
}

/* An undo in flight must not release the lock that the same owner acquires meanwhile. */
static void an_acquire_after_one_in_doubt_is_not_what_is_undone(void) {
    char undo[FAKE_COMMAND_ROOM], signature[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_SILENT);
    (void)undo_of(fake_peers[0].commands[1], "EVALSHA", undo);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK(plock_lease_valid(lease));
    fake_leave(lease);
    end(); /* end() waits until the worker thread has sent the undo */
    for (unsigned p = 1; p < fake_connections(); p++)
        for (unsigned c = 0; c < fake_peers[p].command_count; c++)
            if (!strncmp(fake_peers[p].commands[c], "EVALSHA acquire", 15))
                CHECK_LACKS(undo, signature_of(fake_peers[p].commands[c], signature));
    CHECK(fake_commands_like(undo) >= 1);
    /* no other acquire is undone */
    CHECK_INT(fake_commands_like("EVALSHA undo"), fake_commands_like(undo));
}

/* The first request may have acquired the lock. Then the server finds the same owner on the key
 * when the second request arrives, and must grant the lease. */
static void asking_again_on_another_connection_says_so(void) {
    char first[FAKE_COMMAND_ROOM], second[FAKE_COMMAND_ROOM];
    begin();
    close_while_idle();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    CHECK_INT(fake_failed_tries, 0);
    (void)signature_of(fake_peers[0].commands[2], first);
    /* the signature is the same, so that one undo covers both requests */
    CHECK_TEXT(signature_of(fake_peers[1].commands[1], second), first);
    CHECK_TEXT(fake_word(fake_peers[1].commands[1], 12, second), "again");
    CHECK_STATUS(fake_release(lease), PLOCK_OK);
    end();
    /* an undo would release the lock that was just acquired */
    CHECK_INT(fake_commands_like("EVALSHA undo"), 0);
}

static void the_next_acquire_asks_as_for_the_first_time(void) {
    char signature[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_SILENT);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    end();
    for (unsigned p = 0; p < fake_connections(); p++)
        for (unsigned c = 0; c < fake_peers[p].command_count; c++)
            if (!strncmp(fake_peers[p].commands[c], "EVALSHA acquire", 15))
                CHECK_LACKS(signature_of(fake_peers[p].commands[c], signature), "again");
}

static void a_brought_owner_has_one_attempt(void) {
    begin();
    fake_peers[0].answers[0] = "-LOADING x\r\n";
    /* an owner that the caller supplied may not wait */
    CHECK_STATUS(fake_acquire(lease, 10 * PLOCK_SECOND), PLOCK_MISUSE);
    CHECK_INT(fake_connections(), 0);
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_LOADING);
    CHECK_INT(fake_failed_tries, 0);
    CHECK_INT(fake_commands_like("EVALSHA acquire"), 1);
    end();
}

static void giving_up_undoes_it(void) {
    char undo[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    plock_lease_cancel(lease);
    CHECK_TEXT(fake_peers[0].commands[2], undo_of(fake_peers[0].commands[1], "EVAL", undo));
    end();
    CHECK_INT(fake_commands_like(undo_of(fake_peers[0].commands[1], "EVALSHA", undo)), 1);
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

static void freeing_in_mid_acquire_undoes_it(void) {
    char undo[FAKE_COMMAND_ROOM];
    begin();
    CHECK_STATUS(plock_lease_acquire(lease, &(plock_acquire_options){.ttl = PLOCK_SECOND}),
                 PLOCK_OK);
    CHECK_STATUS(plock_lease_step(lease, &interest), PLOCK_AGAIN);
    end();
    CHECK(fake_commands_like(undo_of(fake_peers[0].commands[1], "EVALSHA", undo)) >= 1);
    CHECK_INT(fake_commands_like("EVALSHA release"), 0);
}

/* --- releasing --- */

static void what_is_held_is_released_when_freed(void) {
    begin();
    fake_peers[0].obliging = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    end();
    CHECK_INT(fake_commands_like("EVALSHA release 1 k me"), 1);
    CHECK_INT(fake_commands_like("EVALSHA undo"), 0);
}

static void a_release_by_owner_needs_no_acquire(void) {
    static const struct {
        const char *answer;
        plock_status status;
    } ANSWERS[] = {{FAKE_DONE, PLOCK_OK},
                   {FAKE_NOT_OURS, PLOCK_NOT_OWNER},
                   {"-NOPERM x\r\n", PLOCK_NOPERM},
                   {":4\r\n", PLOCK_PROTOCOL}};
    for (unsigned i = 0; i < sizeof ANSWERS / sizeof *ANSWERS; i++) {
        begin();
        fake_peers[0].answers[0] = ANSWERS[i].answer;
        CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
        CHECK_STATUS(fake_finish(lease), ANSWERS[i].status);
        CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA release 1 k me");
        end();
    }
}

/* The first release was executed, but its answer was lost. The second release finds no lease, and
 * this does not count as a loss. */
static void a_release_whose_answer_is_lost_is_a_release(void) {
    begin();
    fake_peers[0].answers[0] = FAKE_CLOSES;
    fake_peers[1].obliging = false;
    fake_peers[1].answers[0] = FAKE_NOT_OURS;
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_INT(fake_commands_like("EVALSHA release 1 k me"), 2);
    end();
}

static void a_release_leaves_time_for_a_second_connection(void) {
    begin();
    const plock_ns before = plock_now();
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK); /* peer 0 does not answer */
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK(plock_now() < before + PLOCK_SECOND / 2);
    CHECK_INT(fake_connections(), 2);
    end();
}

static void a_release_without_an_owner_is_misuse(void) {
    begin();
    plock_lease *other = fake_lease(store);
    CHECK_STATUS(plock_lease_release_owned(other), PLOCK_MISUSE);
    plock_lease_free(other);
    CHECK_STATUS(plock_lease_own(lease, "", 0), PLOCK_MISUSE);
    fake_peers[0].obliging = true;
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_OK);
    /* the lease is held, so plock_lease_release is the right call */
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_MISUSE);
    end();
}

/* --- the owner itself --- */

static void an_owner_may_be_long_and_hold_any_byte(void) {
    enum { LENGTH = 3000 };
    size_t length;
    char *owner = malloc(LENGTH);
    if (!owner) abort();
    for (int i = 0; i < LENGTH; i++) owner[i] = (char)(i * 7);
    begin();
    CHECK_STATUS(plock_lease_own(lease, owner, LENGTH), PLOCK_OK);
    /* the copy for the undo in the background also has the whole owner */
    CHECK_STATUS(fake_acquire(lease, 0), PLOCK_SILENT);
    CHECK(!memcmp(plock_lease_owner(lease, &length), owner, LENGTH));
    CHECK_INT(length, LENGTH);
    end();
    free(owner);
}

static void an_owner_can_be_changed(void) {
    begin();
    CHECK_STATUS(plock_lease_own(lease, "you", 3), PLOCK_OK);
    fake_peers[0].obliging = true;
    CHECK_STATUS(plock_lease_release_owned(lease), PLOCK_OK);
    CHECK_STATUS(fake_finish(lease), PLOCK_OK);
    CHECK_TEXT(fake_peers[0].commands[1], "EVALSHA release 1 k you");
    end();
}

int main(void) {
    RUN(each_acquire_has_a_signature_of_its_own);
    RUN(what_is_in_doubt_is_undone_and_not_released);
    RUN(an_acquire_after_one_in_doubt_is_not_what_is_undone);
    RUN(asking_again_on_another_connection_says_so);
    RUN(the_next_acquire_asks_as_for_the_first_time);
    RUN(a_brought_owner_has_one_attempt);
    RUN(giving_up_undoes_it);
    RUN(freeing_in_mid_acquire_undoes_it);
    RUN(what_is_held_is_released_when_freed);
    RUN(a_release_by_owner_needs_no_acquire);
    RUN(a_release_whose_answer_is_lost_is_a_release);
    RUN(a_release_leaves_time_for_a_second_connection);
    RUN(a_release_without_an_owner_is_misuse);
    RUN(an_owner_may_be_long_and_hold_any_byte);
    RUN(an_owner_can_be_changed);
    return test_end("lease owner");
}
