/* Queries about the locks of a local store, and a function that breaks a lock. */
#include "local/local_lease.h"

#include "base/process.h"

#include <string.h>

/* Ends the call with this status, and releases the map. If the file was lost, the caller must
 * repeat the query. */
static plock_status end_with(plock__local_map *map, plock_status status, plock_ns deadline,
                             plock_interest *interest) {
    if (plock__local_may_retry(map, status, deadline, interest)) status = PLOCK_AGAIN;
    plock__local_release(map);
    return status;
}

static plock_status go_in(plock_local *store, plock__local_map **map, plock_ns deadline,
                          plock_interest *interest, plock_error *error) {
    plock_status status = plock__local_use(store, map, deadline, interest, error);
    if (status) return status;
    status = plock__local_go_in(*map, plock_now(), deadline, interest, error);
    return status ? end_with(*map, status, deadline, interest) : PLOCK_OK;
}

static plock_status come_out(plock__local_map *map, plock_ns deadline, plock_interest *interest,
                             plock_error *error) {
    return end_with(map, plock__local_leave(map, error), deadline, interest);
}

static void describe(plock_local_person *person, plock__local_map *map, plock__local_claim *claim,
                     plock_ns now) {
    const bool kept = plock__state(claim) == PLOCK__KEPT;
    person->waits = plock__state(claim) == PLOCK__WAITING;
    person->mode = claim->mode;
    /* a renewed lease's claim lasts until its process ends or until max_hold, so this function
     * reports at most the ttl (or at_least) */
    const plock_ns end = plock__local_end_of(map, claim), left = end > now ? end - now : 0,
                   most = claim->ttl > claim->at_least ? claim->ttl : claim->at_least;
    person->left = person->waits ? 0 : kept || left < most ? left : most;
    person->fence = person->waits ? 0 : claim->fence;
    person->since = claim->since;
    person->pid = claim->pid;
    person->thread = claim->thread;
    person->label_length = claim->label_length <= sizeof person->label ? claim->label_length : 0;
    memcpy(person->label, claim->label, person->label_length);
}

typedef struct listing {
    plock_local_person *people;
    size_t room, count;
    plock_ns now;
} listing;

static void list_claims(plock__local_map *map, listing *t, uint32_t first) {
    for (uint32_t at = first, steps = 0; plock__walks(map, at, &steps);
         at = plock__claim(map, at)->next) {
        if (t->count < t->room) describe(&t->people[t->count], map, plock__claim(map, at), t->now);
        t->count++;
    }
}

static void list_key(plock__local_map *map, listing *t, const plock__local_name *name) {
    const uint32_t number = plock__local_find(map, name);
    t->now = plock_now();
    if (number == PLOCK__LOCAL_NONE) return;
    plock__local_tidy_whole(map, number,
                            t->now); /* so that no waiter of a dead process is listed */
    const plock__local_key *key = plock__key(map, number);
    if (!key->length) return;
    list_claims(map, t, key->first_holder);
    list_claims(map, t, key->first_waiter);
}

plock_status plock_local_examine(plock_local *store, const char *key, size_t length,
                                 plock_local_person *people, size_t room, size_t *count,
                                 plock_ns deadline, plock_interest *interest, plock_error *error) {
    plock__local_name name;
    plock__local_map *map = NULL;
    listing t = {.people = people, .room = room};
    plock_status status = plock__local_name_key(&name, plock__text(key, length));
    plock__begin_step();
    if (!status) status = go_in(store, &map, deadline, interest, error);
    if (!status) {
        list_key(map, &t, &name);
        status = come_out(map, deadline, interest, error);
    }
    plock__end_step();
    *count = t.count;
    return status;
}

enum { KEYS_AT_ONCE = 256 };

static plock_status next_key(plock_local *store, uint32_t *cursor, char key[PLOCK_LOCAL_KEY_MAX],
                             size_t *length, plock_ns deadline, plock_interest *interest,
                             plock_error *error) {
    plock__local_map *map = NULL;
    bool more = true;
    for (*length = 0; more && !*length;) {
        plock_status status = go_in(store, &map, deadline, interest, error);
        if (status) return status;
        const plock_ns now = plock_now();
        for (unsigned seen = 0; seen < KEYS_AT_ONCE && more && !*length; seen++) {
            const uint32_t number = *cursor;
            more = number < map->header->keys_made && number < map->key_count;
            if (!more) break;
            ++*cursor;
            const plock__local_key *found = plock__key(map, number);
            if (found->length) plock__local_tidy(map, number, now);
            if (!found->length || found->digested || found->first_holder == PLOCK__LOCAL_NONE ||
                found->length > PLOCK_LOCAL_KEY_MAX)
                continue;
            *length = found->length;
            memcpy(key, found->name, found->length);
        }
        status = come_out(map, deadline, interest, error);
        if (status) return status;
    }
    return PLOCK_OK;
}

plock_status plock_local_next_key(plock_local *store, uint32_t *cursor,
                                  char key[PLOCK_LOCAL_KEY_MAX], size_t *length, plock_ns deadline,
                                  plock_interest *interest, plock_error *error) {
    plock__begin_step();
    const plock_status status = next_key(store, cursor, key, length, deadline, interest, error);
    plock__end_step();
    return status;
}

static bool chosen(const int64_t *only, size_t count, int64_t fence) {
    if (!only) return true;
    for (size_t i = 0; i < count; i++)
        if (only[i] == fence) return true;
    return false;
}

/* Ends the chosen holders' claims. Returns true if there were any. */
static bool break_holders(plock__local_map *map, const plock__local_name *name, const int64_t *only,
                          size_t count, plock_ns now) {
    const uint32_t number = plock__local_find(map, name);
    if (number == PLOCK__LOCAL_NONE) return false;
    plock__local_tidy(map, number, now);
    const plock__local_key *key = plock__key(map, number);
    if (!key->length || key->first_holder == PLOCK__LOCAL_NONE) return false;
    bool broken = false;
    plock__local_first_looks(map, key); /* if this process dies during the change, the first waiter
                                         * must repair the file; it may not be watching this
                                         * process, so it is woken before */
    PLOCK__FAULT();
    /* Ending a claim may admit waiters, which become holders. New holders are added at the
     * beginning of the list, so this walk does not reach them. */
    for (uint32_t at = key->first_holder, steps = 0, next; plock__walks(map, at, &steps);
         at = next) {
        const plock__local_claim *held = plock__claim(map, at);
        const bool ends = chosen(only, count, held->fence);
        next = held->next;
        broken = broken || ends;
        if (ends) plock__local_end_claim(map, at, now);
    }
    return broken;
}

plock_status plock_local_break(plock_local *store, const char *key, size_t length,
                               const int64_t *only, size_t count, plock_ns deadline,
                               plock_interest *interest, plock_error *error) {
    plock__local_name name;
    plock__local_map *map = NULL;
    bool held = false;
    plock_status status = plock__local_name_key(&name, plock__text(key, length));
    plock__begin_step();
    if (!status) status = go_in(store, &map, deadline, interest, error);
    if (!status) {
        held = break_holders(map, &name, only, count, plock_now());
        status = come_out(map, deadline, interest, error);
    }
    plock__end_step();
    return status ? status : held ? PLOCK_OK : PLOCK_NOT_OWNER;
}
