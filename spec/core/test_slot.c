/* Slots. The expected numbers are the answers of Redis 7.0 to CLUSTER KEYSLOT. */
#include "test.h"

#include "base/slot.h"

#include <string.h>

static unsigned slot(const char *key) { return plock__slot(plock__text(key, strlen(key))); }

static bool together(const char *key) {
    return plock__slot_keeps_together(plock__text(key, strlen(key)));
}

static void a_key_has_the_slot_that_redis_gives_it(void) {
    CHECK_INT(slot("123456789"), 12739);
    CHECK_INT(slot("foo"), 12182);
    CHECK_INT(slot(""), 0);
    CHECK_INT(plock__slot(plock__text("a\0b", 3)), 8383);
}

/* Computes the checksum bit by bit, as the remainder of a division by x^16 + x^12 + x^5 + 1. */
static unsigned divided(const char *key, size_t length) {
    unsigned rest = 0;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        const unsigned next = (unsigned char)key[bit / 8] >> (7 - bit % 8) & 1;
        rest = rest << 1 ^ ((rest >> 15 ^ next) & 1) * 0x11021;
    }
    return rest;
}

static void each_byte_counts_at_each_place(void) {
    char key[4];
    for (unsigned byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < sizeof key; at++) {
            memset(key, 'k', sizeof key);
            key[at] = (char)byte;
            CHECK_INT(plock__slot(plock__text(key, sizeof key)), divided(key, sizeof key) % 16384);
        }
    }
}

static void a_hash_tag_alone_decides(void) {
    CHECK_INT(slot("{user1000}.following"), slot("user1000"));
    CHECK_INT(slot("foo{bar}{zap}"), slot("bar"));
    CHECK_INT(slot("foo{{bar}}zap"), slot("{bar"));
    CHECK_INT(slot("foo{bar}"), 5061);
}

static void a_tag_that_is_empty_or_open_is_none(void) {
    CHECK(slot("foo{}{bar}") != slot("bar"));
    CHECK_INT(slot("foo{}{bar}"), 8363);
    CHECK_INT(slot("foo{bar"), 15278);
    CHECK(slot("}foo{") != slot("foo"));
}

/* The names are those that scripts/parts/beside.lua makes. */
static void the_names_beside_a_lock_are_in_its_slot(void) {
    static const struct {
        const char *key, *queue;
        bool together;
    } NAMES[] = {
        {"a", "plock:1:{a}:queue", true},
        {"a{b", "plock:1:{a{b}:queue", true},
        {"{", "plock:1:{{}:queue", true},
        {"a{b}c", "plock:1:a{b}c:queue", true},
        {"a}b{c}", "plock:1:a}b{c}:queue", true},
        {"a{b}{c}", "plock:1:a{b}{c}:queue", true},
        {"a}b", "plock:1:{a}b}:queue", false},
        {"{a}", "plock:1:{{a}}:queue", false},
        {"}", "plock:1:{}}:queue", false},
        {"{}a", "plock:1:{{}a}:queue", false},
        {"a{}b{c}", "plock:1:{a{}b{c}}:queue", false},
    };
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        CHECK_INT(together(NAMES[i].key), NAMES[i].together);
        CHECK_INT(slot(NAMES[i].queue) == slot(NAMES[i].key), NAMES[i].together);
    }
}

int main(void) {
    RUN(a_key_has_the_slot_that_redis_gives_it);
    RUN(each_byte_counts_at_each_place);
    RUN(a_hash_tag_alone_decides);
    RUN(a_tag_that_is_empty_or_open_is_none);
    RUN(the_names_beside_a_lock_are_in_its_slot);
    return test_end("slot");
}
