/* Owner tokens, and the random numbers from which they are made. */
#include "test.h"

#include "base/random.h"
#include "redis/script.h"
#include "thread_state.h"

#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_token_is_a_uuid_of_version_4(void) {
    enum { TOKENS = 1000 };
    /* h: a hexadecimal digit; v: 8, 9, a or b */
    static const char PATTERN[] = "hhhhhhhh-hhhh-4hhh-vhhh-hhhhhhhhhhhh";
    for (int i = 0; i < TOKENS; i++) {
        char token[PLOCK_TOKEN_LENGTH + 1];
        token[PLOCK_TOKEN_LENGTH] = '!';
        CHECK_STATUS(plock_token(token), PLOCK_OK);
        CHECK(token[PLOCK_TOKEN_LENGTH] == '!');
        bool fits = true;
        for (int at = 0; at < PLOCK_TOKEN_LENGTH; at++) {
            const char wanted = PATTERN[at];
            fits = fits && (wanted == 'h'   ? strchr("0123456789abcdef", token[at]) != NULL
                            : wanted == 'v' ? strchr("89ab", token[at]) != NULL
                                            : token[at] == wanted);
        }
        CHECK(fits);
    }
}

static int compare(const void *a, const void *b) { return memcmp(a, b, PLOCK_TOKEN_LENGTH); }

static unsigned count_repeated(char *tokens, size_t count) {
    unsigned repeated = 0;
    qsort(tokens, count, PLOCK_TOKEN_LENGTH, compare);
    for (size_t i = 1; i < count; i++)
        repeated +=
            !compare(tokens + i * PLOCK_TOKEN_LENGTH, tokens + (i - 1) * PLOCK_TOKEN_LENGTH);
    return repeated;
}

static bool draw(char *tokens, size_t count) {
    bool drawn = true;
    for (size_t i = 0; i < count; i++)
        drawn = !plock_token(tokens + i * PLOCK_TOKEN_LENGTH) && drawn;
    return drawn;
}

static void no_token_comes_twice(void) {
    enum { TOKENS = 100000 };
    char *tokens = malloc((size_t)TOKENS * PLOCK_TOKEN_LENGTH);
    if (!CHECK(tokens != NULL)) return;
    CHECK(draw(tokens, TOKENS));
    CHECK_INT(count_repeated(tokens, TOKENS), 0);
    free(tokens);
}

enum { DRAWN = 100 };

static void *draw_some(void *tokens) {
    CHECK(draw(tokens, DRAWN));
    return NULL;
}

static void threads_draw_different_tokens(void) {
    enum { THREADS = 4 };
    static char tokens[THREADS][DRAWN * PLOCK_TOKEN_LENGTH];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, draw_some, tokens[i]) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_INT(count_repeated(tokens[0], (size_t)THREADS * DRAWN), 0);
}

static void draw_into_pipe(void *ends) {
    char tokens[DRAWN * PLOCK_TOKEN_LENGTH];
    CHECK(draw(tokens, DRAWN));
    CHECK(write(((int *)ends)[1], tokens, sizeof tokens) == (ssize_t)sizeof tokens);
}

/* The parent may have drawn bytes in advance. A forked child has a copy of these bytes, and must
 * not use it. */
static void a_forked_child_draws_others_than_its_parent(void) {
    enum { CHILDREN = 3 };
    static char tokens[(CHILDREN + 1) * DRAWN * PLOCK_TOKEN_LENGTH];
    int ends[2];
    char first[PLOCK_TOKEN_LENGTH];
    if (!CHECK(pipe(ends) == 0)) return;
    CHECK_STATUS(plock_token(first), PLOCK_OK); /* now there are bytes drawn in advance */
    const size_t share = DRAWN * PLOCK_TOKEN_LENGTH;
    for (size_t i = 0; i < CHILDREN; i++) {
        test_in_child(draw_into_pipe, ends);
        CHECK(read(ends[0], tokens + i * share, share) == (ssize_t)share);
    }
    CHECK(draw(tokens + CHILDREN * share, DRAWN));
    CHECK_INT(count_repeated(tokens, (CHILDREN + 1) * DRAWN), 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void random_bytes_of_any_length_differ(void) {
    enum { LONGEST = 64, ROUNDS = 100 };
    unsigned char one[LONGEST], other[LONGEST];
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_STATUS(plock__random(one, sizeof one), PLOCK_OK);
        CHECK_STATUS(plock__random(other, sizeof other), PLOCK_OK);
        CHECK(memcmp(one, other, sizeof one) != 0);
        CHECK_STATUS(plock__random(one, (size_t)(i % LONGEST)), PLOCK_OK);
    }
}

static void a_random_number_keeps_to_its_range(void) {
    enum { ROUNDS = 2000 };
    bool seen[5] = {false};
    bool within = true;
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t number = plock__random_between(3, 7);
        within = within && number >= 3 && number <= 7;
        if (within) seen[number - 3] = true;
    }
    CHECK(within);
    for (int i = 0; i < 5; i++) CHECK(seen[i]);
    CHECK_INT(plock__random_between(5, 5), 5);
    CHECK_INT(plock__random_between(5, 4), 5);
}

static void openssl_keeps_nothing_for_the_thread(void) {
    char token[PLOCK_TOKEN_LENGTH], hex[PLOCK_DIGEST_HEX];
    CHECK(!ERR_peek_error() && thread_state_drop()); /* thread_state_drop finds the peek's state */
    CHECK_STATUS(plock_token(token), PLOCK_OK);
    CHECK_STATUS(plock_digest("message", 7, "secret", 6, hex), PLOCK_OK);
    CHECK(plock__script(PLOCK__ACQUIRE, false) != NULL);
    CHECK(!thread_state_drop());
}

int main(void) {
    thread_state_watch();
    CHECK_STATUS(plock_initialize(), PLOCK_OK); /* as every program does before it forks */
    RUN(openssl_keeps_nothing_for_the_thread);
    RUN(a_token_is_a_uuid_of_version_4);
    RUN(no_token_comes_twice);
    RUN(threads_draw_different_tokens);
    RUN(a_forked_child_draws_others_than_its_parent);
    RUN(random_bytes_of_any_length_differ);
    RUN(a_random_number_keeps_to_its_range);
    return test_end("token");
}
