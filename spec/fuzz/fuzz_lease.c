/* Runs whole operations against a server that sends the input. The lease must not count as held
 * without a grant. Each operation must end in time and leave nothing behind. Input: a byte that
 * selects the operations, then for each connection a length and the bytes that its server sends. */
#include "fuzz.h"

#include "fake.h"

#include "base/memory.h"
#include "runtime/waker.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENT = 1, OWN = 2, DRIBBLE = 4, GREETS = 8, CLOSES = 16, PASSWORD = 32 };
static const plock_ns TTL = 3 * PLOCK_SECOND, WAIT = PLOCK_SECOND, GRACE = 50 * PLOCK_MILLISECOND;

static void play(const uint8_t *data, const uint8_t *end, unsigned choice) {
    for (unsigned p = 0; p < FAKE_PEERS; p++) {
        fake_peer *peer = &fake_peers[p];
        peer->silent_greeting = !(choice & GREETS);
        peer->read_dribbles = choice & DRIBBLE;
        peer->read_chunk = choice & DRIBBLE ? 3 : 0;
        if (choice & CLOSES) peer->read_failure = PLOCK_DISCONNECTED;
        if (data == end) continue;
        size_t length = *data++;
        if (length > (size_t)(end - data)) length = (size_t)(end - data);
        fake_say(peer, (const char *)data, length);
        data += length;
    }
}

/* Returns true if a server has sent this text. A fence, for example, can only come from a
 * server. */
static bool was_said(const uint8_t *data, size_t size, const char *text) {
    const size_t length = strlen(text);
    for (size_t at = 0; at + length <= size; at++)
        if (!memcmp(data + at, text, length)) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const unsigned choice = data[0];
    fake_clock_start();
    plock_store *store = fake_store(choice & PASSWORD ? "redis://:sesame@h/1" : "redis://h");
    plock_lease *lease = fake_lease(store);
    REQUIRE(store && lease);
    play(data + 1, data + size, choice);
    if (choice & OWN) REQUIRE(plock_lease_own(lease, "me", 2) == PLOCK_OK);

    /* if the caller supplies the lease's owner, there is only one attempt */
    const plock_ns began = plock_now(), wait = choice & PATIENT && !(choice & OWN) ? WAIT : 0;
    plock_status status = fake_acquire(lease, wait);
    REQUIRE(plock_now() <= began + (wait > PLOCK_SECOND / 5 ? wait : PLOCK_SECOND / 5) + GRACE);
    REQUIRE((status == PLOCK_OK) == plock_lease_valid(lease));
    REQUIRE(memchr(plock_lease_error(lease)->message, 0, PLOCK_MESSAGE_MAX));
    REQUIRE(!strstr(plock_lease_error(lease)->message, "sesame") || was_said(data, size, "sesame"));
    if (status == PLOCK_OK) {
        char fence[24];
        (void)snprintf(fence, sizeof fence, "%lld", (long long)plock_lease_fence(lease));
        REQUIRE(was_said(data, size, fence));
        REQUIRE(plock_lease_extend(lease, TTL) == PLOCK_OK);
        status = fake_finish(lease);
        if (status == PLOCK_NOT_OWNER)
            REQUIRE(!plock_lease_valid(lease));
        else
            REQUIRE(fake_release(lease) != PLOCK_MISUSE);
        REQUIRE(!plock_lease_valid(lease));
    }
    plock_lease_free(lease);
    fake_clock_stop();
    plock_drain(plock_now()); /* ends all background operations at once */
    plock_store_close(store);
    plock__forget_wakers();
    REQUIRE(plock__live_allocations() == 0);
    return 0;
}
