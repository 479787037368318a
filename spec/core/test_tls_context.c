/* The files for TLS are read once for each config, by the first connection that finds them. All
 * later connections share the result. */
#include "certificates.h"
#include "fake.h"
#include "test.h"
#include "thread_state.h"
#include "tls_pair.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8 };

static certificates files;
/* a second name for the authority's file, which tests create and remove */
static char folder_file[80];
static tls_pair pair;
static plock_config *config;
static pthread_barrier_t together;

static void begin(void) {
    char url[200];
    plock_error error;
    (void)snprintf(url, sizeof url, "rediss://127.0.0.1?ca_file=%s", folder_file);
    CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK);
}

static void end(void) {
    plock_config_free(config);
    (void)unlink(folder_file);
    fake_settle();
}

static void files_come(void) { CHECK(link(files.ca, folder_file) == 0); }

static void files_go(void) { CHECK(unlink(folder_file) == 0); }

static plock_status read_files(SSL_CTX **context) {
    plock_error error;
    return plock__tls_context(context, config, &error);
}

static void all_connections_share_one(void) {
    SSL_CTX *one, *other;
    begin();
    files_come();
    CHECK_STATUS(read_files(&one), PLOCK_OK);
    files_go();
    CHECK_STATUS(read_files(&other), PLOCK_OK);
    CHECK(one && one == other);
    end();
}

static void what_is_missing_at_first_may_come_later(void) {
    SSL_CTX *context;
    begin();
    CHECK_STATUS(read_files(&context), PLOCK_BAD_CONFIG);
    CHECK(!context);
    files_come();
    CHECK_STATUS(read_files(&context), PLOCK_OK);
    end();
}

static void *read_with_others(void *read) {
    (void)pthread_barrier_wait(&together);
    CHECK_STATUS(read_files(read), PLOCK_OK);
    return NULL;
}

static void threads_that_read_together_get_the_same(void) {
    pthread_t threads[THREADS];
    SSL_CTX *contexts[THREADS];
    begin();
    files_come();
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_with_others, &contexts[i]) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(contexts[i] == contexts[0]);
    CHECK(pthread_barrier_destroy(&together) == 0);
    end();
}

static void connect_again(void *unused) {
    (void)unused;
    CHECK_STATUS(tls_pair_renew(&pair), PLOCK_OK);
    CHECK_STATUS(tls_pair_connect(&pair), PLOCK_OK);
}

static void a_child_needs_no_files(void) {
    char options[160];
    files_come();
    (void)snprintf(options, sizeof options, "ca_file=%s", folder_file);
    tls_pair_start(&pair, files.addressed, NULL, "127.0.0.1", options);
    files_go();
    test_in_child(connect_again, NULL);
    connect_again(NULL);
    tls_pair_stop(&pair);
}

int main(void) {
    thread_state_watch();
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    if (!certificates_make(&files)) return test_end("TLS context");
    (void)snprintf(folder_file, sizeof folder_file, "%s/once.pem", files.folder);
    RUN(all_connections_share_one);
    RUN(what_is_missing_at_first_may_come_later);
    RUN(threads_that_read_together_get_the_same);
    RUN(a_child_needs_no_files);
    certificates_remove(&files);
    return test_end("TLS context");
}
