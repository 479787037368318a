/* SHA-256 against the examples of FIPS 180-4, HMAC-SHA256 against RFC 4231, and cases that no
 * published vector covers. */
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void check_digest(const void *message, size_t length, const void *secret,
                         size_t secret_length, const char *expected) {
    char hex[PLOCK_DIGEST_HEX + 1];
    memset(hex, '!', sizeof hex);
    CHECK_STATUS(plock_digest(message, length, secret, secret_length, hex), PLOCK_OK);
    CHECK(hex[PLOCK_DIGEST_HEX] == '!'); /* no terminating zero is written */
    hex[PLOCK_DIGEST_HEX] = 0;
    CHECK_TEXT(hex, expected);
}

static void check_plain(const char *message, const char *expected) {
    check_digest(message, strlen(message), NULL, 0, expected);
}

static void check_keyed(const char *message, const char *secret, const char *expected) {
    check_digest(message, strlen(message), secret, strlen(secret), expected);
}

static void plain_digests_are_those_of_fips_180(void) {
    check_plain("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_plain("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_plain("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_plain("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqkl"
                "mnopqrlmnopqrsmnopqrstnopqrstu",
                "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void a_million_letters_are_digested(void) {
    enum { MILLION = 1000000 };
    char *letters = malloc(MILLION);
    if (!CHECK(letters != NULL)) return;
    memset(letters, 'a', MILLION);
    check_digest(letters, MILLION, NULL, 0,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

/* The secret is one byte repeated, as in most examples of the RFC. */
static void check_repeated(int secret_byte, size_t secret_length, const void *message,
                           size_t length, const char *expected) {
    char secret[256];
    memset(secret, secret_byte, secret_length);
    check_digest(message, length, secret, secret_length, expected);
}

static void keyed_digests_are_those_of_rfc_4231(void) {
    static const char LONGER_THAN_BLOCK[] =
        "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char BOTH_LONGER[] =
        "This is a test using a larger than block-size key and a larger than block-size data. "
        "The key needs to be hashed before being used by the HMAC algorithm.";
    char counted[25], data[50];
    check_repeated(0x0b, 20, "Hi There", 8,
                   "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_keyed("what do ya want for nothing?", "Jefe",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(data, 0xdd, sizeof data);
    check_repeated(0xaa, 20, data, sizeof data,
                   "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    for (char i = 0; i < (char)sizeof counted; i++) counted[(int)i] = (char)(i + 1);
    memset(data, 0xcd, sizeof data);
    check_digest(data, sizeof data, counted, sizeof counted,
                 "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    check_repeated(0xaa, 131, LONGER_THAN_BLOCK, strlen(LONGER_THAN_BLOCK),
                   "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    check_repeated(0xaa, 131, BOTH_LONGER, strlen(BOTH_LONGER),
                   "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void a_secret_as_long_as_a_block_and_one_byte_longer(void) {
    check_repeated('k', 64, "x", 1,
                   "f91c4c403625fb06910ef93999265bbd2d62baeaec6ff36455498cc124fe3e66");
    check_repeated('k', 65, "x", 1,
                   "75092ca3ee2b307470c227697b42b3e65376aa3bae98fb5a1f7b7536daa9588a");
}

static void nothing_can_be_digested_and_a_secret_can_be_empty(void) {
    check_keyed("abc", "", "fd7adb152c05ef80dccf50a1fa4c05d5a3ec6da95575fc312ae7c5d091836351");
    check_keyed("", "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    check_keyed("", "k", "8bb990c40a7d61cb97597a942125025be50ac8beb74436e3735b98893a7f6620");
}

static void bytes_of_value_zero_count(void) {
    check_digest("c\0d", 3, NULL, 0,
                 "b6f9c4dc605e6ff306d0ec1650ca46797dfd774f615da2a5765d5bd415551086");
    check_digest("c\0d", 3, "a\0b", 3,
                 "8c18c35eec555433aca6c25beff4ab0085afc6084012a0d923fb48f4251062fa");
}

/* Each thread uses one hash context for all calls. Its state after a call must not affect the next
 * call. */
static void one_secret_leaves_nothing_for_the_next(void) {
    for (int i = 0; i < 3; i++) {
        check_keyed("what do ya want for nothing?", "Jefe",
                    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        check_keyed("abc", "", "fd7adb152c05ef80dccf50a1fa4c05d5a3ec6da95575fc312ae7c5d091836351");
        check_plain("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}

static void *digest_many(void *argument) {
    enum { ROUNDS = 200 };
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) nothing_can_be_digested_and_a_secret_can_be_empty();
    return NULL;
}

static void threads_digest_side_by_side(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, digest_many, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void digest_in_child(void *context) {
    (void)context;
    one_secret_leaves_nothing_for_the_next();
}

static void a_forked_child_digests_the_same(void) { test_in_child(digest_in_child, NULL); }

int main(void) {
    RUN(plain_digests_are_those_of_fips_180);
    RUN(a_million_letters_are_digested);
    RUN(keyed_digests_are_those_of_rfc_4231);
    RUN(a_secret_as_long_as_a_block_and_one_byte_longer);
    RUN(nothing_can_be_digested_and_a_secret_can_be_empty);
    RUN(bytes_of_value_zero_count);
    RUN(one_secret_leaves_nothing_for_the_next);
    RUN(threads_digest_side_by_side);
    RUN(a_forked_child_digests_the_same);
    return test_end("digest");
}
