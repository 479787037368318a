/* The index finds entries by their keys, among many other entries. */
#include "test.h"

#include "base/index.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 5000 };

typedef struct named {
    plock__index_entry entry; /* first, so that a pointer to the entry also points to this struct */
    char key[16];
} named;

static plock__index index_of_all;
static named all[MANY];

static plock_text key_of(const named *one) { return plock__text(one->key, strlen(one->key)); }

static void begin(void) {
    memset(&index_of_all, 0, sizeof index_of_all);
    memset(all, 0, sizeof all);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(all[i].key, sizeof all[i].key, "key %d", i / 2); /* each key twice */
        plock__index_add(&index_of_all, &all[i].entry, key_of(&all[i]));
    }
}

/* Returns how many entries have the key. *visited is the number of other entries that were seen. */
static int find(plock_text key, int *visited) {
    int count = 0;
    for (plock__index_entry *entry = plock__index_first(&index_of_all, key); entry;
         entry = plock__index_next(entry)) {
        const plock_text other = key_of((named *)(void *)entry);
        const bool same = key.length == other.length && !memcmp(key.bytes, other.bytes, key.length);
        *(same ? &count : visited) += 1;
    }
    return count;
}

static void all_with_a_key_are_found(void) {
    int visited = 0;
    begin();
    for (int i = 0; i < MANY; i++)
        if (!CHECK(find(key_of(&all[i]), &visited) == 2)) break;
    CHECK_INT(find(plock__text("no key", 6), &visited), 0);
    CHECK_INT(find(plock__text("", 0), &visited), 0);
    CHECK(visited <= MANY / 100); /* few other keys have the same hash */
}

static void removed_ones_are_not(void) {
    int visited = 0;
    begin();
    for (int i = 0; i < MANY; i += 2) plock__index_remove(&all[i].entry);
    /* removing an entry that is in no index has no effect */
    for (int i = 0; i < MANY; i += 2) plock__index_remove(&all[i].entry);
    for (int i = 0; i < MANY; i++)
        if (!CHECK(find(key_of(&all[i]), &visited) == 1)) break;
    for (int i = 1; i < MANY; i += 2) plock__index_remove(&all[i].entry);
    for (int i = 0; i < PLOCK__INDEX_LISTS; i++)
        if (!CHECK(!index_of_all.lists[i])) break;
}

int main(void) {
    CHECK_STATUS(plock_initialize(), PLOCK_OK);
    RUN(all_with_a_key_are_found);
    RUN(removed_ones_are_not);
    return test_end("index");
}
