/* The subject of a request: a lock's key, the signatures of owners, and independent copies. */
#include "fake.h"
#include "test.h"

#include "base/memory.h"
#include "redis/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(plock_text text, const char *bytes, size_t length) {
    return text.length == length && !memcmp(text.bytes, bytes, length);
}

static char *make(plock_subject *subject, const char *key, size_t length) {
    /* room for exactly the key, so that the sanitizer notices one byte too many */
    char *room = plock__allocate(length);
    if (!room) abort();
    *subject = (plock_subject){0};
    plock__subject_name(subject, room, plock__text(key, length), 60 * PLOCK_SECOND);
    return room;
}

static void a_key_may_be_long_and_hold_any_byte(void) {
    enum { LENGTH = 5000 };
    static char key[LENGTH];
    plock_subject subject;
    for (int i = 0; i < LENGTH; i++) key[i] = (char)(i * 7);
    for (size_t length = 1; length <= LENGTH; length += 1 + length / 3) {
        char *room = make(&subject, key, length);
        CHECK(is(subject.key, key, length));
        plock__free(room);
    }
}

/* --- owners --- */

static void check_signature(const plock_owner *owner, const char *channel, const char *label) {
    char signature[FAKE_COMMAND_ROOM], word[FAKE_COMMAND_ROOM];
    (void)snprintf(signature, sizeof signature, "%.*s", (int)owner->signature.length,
                   owner->signature.bytes);
    CHECK_TEXT(fake_word(signature, 3, word), channel);
    CHECK_TEXT(fake_word(signature, 4, word), label);
    CHECK_TEXT(fake_word(signature, 5, word), "");
}

static void a_signature_names_channel_and_label_where_there_are(void) {
    char longest[PLOCK_LABEL_MAX + 1];
    plock_owner owner = {0};
    memset(longest, 'x', PLOCK_LABEL_MAX);
    longest[PLOCK_LABEL_MAX] = 0;
    CHECK_STATUS(plock__owner_renew(&owner, PLOCK_PLAIN), PLOCK_OK);
    check_signature(&owner, "-", "-");
    owner.label = plock__text(longest, PLOCK_LABEL_MAX);
    plock__owner_sign(&owner, owner.channel, owner.label);
    check_signature(&owner, "-", longest);
    owner.channel = plock__text("0123456789abcdef", PLOCK__CHANNEL_LENGTH);
    /* the longest possible signature */
    CHECK_STATUS(plock__owner_renew(&owner, PLOCK_MARSHAL), PLOCK_OK);
    check_signature(&owner, "0123456789abcdef", longest);
}

static void a_copy_stands_by_itself(void) {
    static const plock_encoding ENCODINGS[] = {PLOCK_PLAIN, PLOCK_MARSHAL};
    for (unsigned i = 0; i < 2; i++) {
        plock_subject subject, copy = {0};
        char *room = make(&subject, "key", 3), *other_room = plock__allocate(3), value[64],
             signature[FAKE_COMMAND_ROOM];
        CHECK_STATUS(plock__owner_renew(&subject.owner, ENCODINGS[i]), PLOCK_OK);
        const size_t length = subject.owner.value.length, written = subject.owner.signature.length;
        memcpy(value, subject.owner.value.bytes, length);
        memcpy(signature, subject.owner.signature.bytes, written);
        CHECK_STATUS(plock__subject_copy(&copy, other_room, &subject), PLOCK_OK);
        memset(&subject.owner, 'x', sizeof subject.owner);
        memset(room, 'x', 3);
        CHECK(is(copy.key, "key", 3));
        CHECK(is(copy.owner.value, value, length));
        CHECK(is(copy.owner.signature, signature, written));
        plock__free(room);
        plock__free(other_room);
    }
}

static void so_does_that_of_a_brought_owner(void) {
    plock_subject subject, copy = {0};
    char *room = make(&subject, "key", 3), *other_room = plock__allocate(3),
         signature[FAKE_COMMAND_ROOM];
    CHECK_STATUS(plock__owner_bring(&subject.owner, plock__text("me", 2)), PLOCK_OK);
    plock__owner_number(&subject.owner);
    const size_t written = subject.owner.signature.length;
    memcpy(signature, subject.owner.signature.bytes, written);
    check_signature(&subject.owner, "-", "-");
    CHECK_STATUS(plock__subject_copy(&copy, other_room, &subject), PLOCK_OK);
    plock__owner_clear(&subject.owner);
    plock__free(room);
    CHECK(is(copy.owner.value, "me", 2));
    CHECK(is(copy.owner.signature, signature, written));
    plock__owner_clear(&copy.owner);
    plock__free(other_room);
    CHECK_INT(plock__live_allocations(), 0);
}

static void without_memory_there_is_no_copy(void) {
    plock_subject subject, copy = {0};
    char *room = make(&subject, "key", 3), *other_room = plock__allocate(3);
    CHECK_STATUS(plock__owner_bring(&subject.owner, plock__text("me", 2)), PLOCK_OK);
    (void)plock__fail_allocation(1);
    CHECK_STATUS(plock__subject_copy(&copy, other_room, &subject), PLOCK_NO_MEMORY);
    (void)plock__fail_allocation(0);
    plock__owner_clear(&subject.owner);
    plock__owner_clear(&copy.owner);
    plock__free(room);
    plock__free(other_room);
    CHECK_INT(plock__live_allocations(), 0);
}

/* --- requests --- */

static void check_request(const plock_request *request, const char *expected) {
    char words[FAKE_COMMAND_ROOM] = "";
    for (unsigned i = 0; i < request->keys + request->arguments; i++) {
        const size_t used = strlen(words);
        (void)snprintf(words + used, sizeof words - used, "%s%s%.*s", i ? " " : "",
                       i == request->keys ? "| " : "", (int)request->texts[i].length,
                       request->texts[i].bytes);
    }
    CHECK_TEXT(words, expected);
}

static void requests_say_what_the_scripts_expect(void) {
    plock_subject subject;
    plock_request request;
    char *room = make(&subject, "k", 1);
    subject.owner.value = plock__text("me", 2);
    subject.owner.signature = plock__text("h 1 2 c l", 9);
    request = plock__queue_request(&subject, 3 * PLOCK_SECOND, 0, 0);
    check_request(&request, "k | me 3000 h 1 2 c l 63000 0 0");
    request =
        plock__queue_request(&subject, 3 * PLOCK_SECOND, 1700000000000100, 80 * PLOCK_MILLISECOND);
    check_request(&request, "k | me 3000 h 1 2 c l 63000 1700000000000100 80");
    request = plock__release_request(&subject, 0, 0);
    check_request(&request, "k | me");
    request = plock__release_request(&subject, 5 * PLOCK_MILLISECOND, 0);
    check_request(&request, "k | me 5");
    request = plock__release_request(&subject, 0, 7 * PLOCK_SECOND);
    check_request(&request, "k | me 0 7001 67001");
    request = plock__leave_request(&subject, true);
    check_request(&request, "k | me 1 h 1 2 c l");
    subject.owner.signature = plock__text(NULL, 0);
    request = plock__leave_request(&subject, false);
    check_request(&request, "k | me 0");
    plock__free(room);
}

int main(void) {
    RUN(a_key_may_be_long_and_hold_any_byte);
    RUN(a_signature_names_channel_and_label_where_there_are);
    RUN(a_copy_stands_by_itself);
    RUN(so_does_that_of_a_brought_owner);
    RUN(without_memory_there_is_no_copy);
    RUN(requests_say_what_the_scripts_expect);
    return test_end("subject");
}
