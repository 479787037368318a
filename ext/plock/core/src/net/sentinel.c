#include "net/sentinel.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "net/inquiry.h"

#include <stdlib.h>
#include <string.h>

/* After the first answer, the other sentinels have this long to answer (sentinel.h). If the server
 * that was named most often is not the known primary, they have longer. Otherwise an isolated
 * sentinel could send this process to a wrong server while the other sentinels are slow. The
 * second half of connect_timeout is for resolving names, asking servers for their roles, and
 * connecting. */
static const plock_ns PATIENCE = 100 * PLOCK_MILLISECOND;

_Static_assert((int)PLOCK__ENDPOINTS_MAX <= (int)PLOCK__ASKED_MAX,
               "all sentinels of a URL can be asked");

/* Must be on the heap, because an inquiry must be on the heap (inquiry.h). */
typedef struct search {
    /* the first field, so that a pointer to the inquiry is a pointer to the search */
    plock_inquiry inquiry;
    const plock_sentinels *sentinels;
    const plock_addresses *known;
    plock_addresses named[PLOCK__ASKED_MAX]; /* the server that each sentinel named; the name may
                                              * not be resolved yet */
} search;

/* --- one sentinel --- */

plock_status plock__sentinel_ask(plock_connection *connection, const char *primary,
                                 plock_error *error) {
    const plock_text words[] = {plock__text_of("SENTINEL"),
                                plock__text_of("get-master-addr-by-name"), plock__text_of(primary)};
    return plock__connection_send(connection, 3, words, error);
}

/* Copies an element of the answer. Returns false if it is not a string, or is too long. */
static bool copy(const plock_value *answer, size_t element, char *to, size_t room) {
    const plock_value *text = plock__element(answer, element, PLOCK__STRING);
    if (!text || text->length == 0 || text->length >= room) return false;
    if (memchr(text->text, 0, text->length)) return false;
    memcpy(to, text->text, text->length);
    to[text->length] = 0;
    return true;
}

static bool is_port(const char *text) {
    const long number = text[strspn(text, "0123456789")] ? 0 : strtol(text, NULL, 10);
    return number > 0 && number <= UINT16_MAX;
}

plock_status plock__sentinel_read(const plock_value *answer, plock_addresses *named,
                                  plock_error *error) {
    if (answer->type == PLOCK__NIL) return PLOCK_REFUSED;
    if (answer->type == PLOCK__ERROR) return plock__server_error(answer, error);
    if (!copy(answer, 0, named->host, sizeof named->host) ||
        !copy(answer, 1, named->port, sizeof named->port) || !is_port(named->port))
        return plock__fail(error, PLOCK_PROTOCOL,
                           "an answer that no sentinel gives to get-master-addr-by-name");
    (void)plock__read_literal(named->host, named->port, named);
    return PLOCK_OK;
}

static search *search_of(plock_inquiry *inquiry) { return (search *)(void *)inquiry; }

static plock_status ask(plock_inquiry *inquiry, plock_question *q) {
    return plock__sentinel_ask(q->connection, search_of(inquiry)->sentinels->primary, &q->error);
}

static plock_status read_name(plock_inquiry *inquiry, plock_question *q,
                              const plock_value *answer) {
    return plock__sentinel_read(answer, &search_of(inquiry)->named[q - inquiry->list], &q->error);
}

/* --- all sentinels --- */

static bool answered(const plock_inquiry *inquiry, unsigned number) {
    const plock_question *q = &inquiry->list[number];
    return q->state == PLOCK__QUESTION_ENDED && !q->error.status;
}

/* Returns how many sentinels have named the same server as this sentinel, including this one. */
static unsigned votes_for(const search *s, unsigned number) {
    unsigned votes = 0;
    for (unsigned i = 0; answered(&s->inquiry, number) && i < s->inquiry.count; i++)
        votes += answered(&s->inquiry, i) && plock__same_server(&s->named[number], &s->named[i]);
    return votes;
}

/* Returns the server that was named most often, or NULL. Sets *votes to how many sentinels have
 * named that server. */
static plock_addresses *most_named(search *s, unsigned *votes) {
    plock_addresses *most = NULL;
    *votes = 0;
    for (unsigned i = 0; i < s->inquiry.count; i++) {
        const unsigned same = votes_for(s, i);
        if (same <= *votes) continue;
        most = &s->named[i];
        *votes = same;
    }
    return most;
}

static plock_status resolve(plock_addresses *named, plock_ns deadline, plock_error *error) {
    plock_addresses resolved = {0};
    if (named->count) return PLOCK_OK;
    const plock_status status =
        plock__resolve_by(deadline, named->host, named->port, &resolved, error);
    named->count = resolved.count;
    memcpy(named->list, resolved.list, sizeof named->list);
    return status;
}

static void resolve_all(search *s) {
    plock_error ignored;
    const plock_ns soon = plock_after(plock_now(), PATIENCE), deadline = s->inquiry.deadline;
    for (unsigned i = 0; i < s->inquiry.count; i++)
        if (answered(&s->inquiry, i))
            (void)resolve(&s->named[i], soon < deadline ? soon : deadline, &ignored);
}

static bool is_another(const search *s, const plock_addresses *named) {
    return *s->known->host && !plock__same_server(s->known, named);
}

static bool most_agree(const search *s, unsigned votes) { return votes * 2 > s->inquiry.count; }

static plock_status not_found(const search *s, plock_error *error) {
    const plock_inquiry *inquiry = &s->inquiry;
    unsigned unknown = 0;
    for (unsigned i = 0; i < inquiry->count; i++)
        unknown += inquiry->list[i].state == PLOCK__QUESTION_ENDED &&
                   inquiry->list[i].error.status == PLOCK_REFUSED;
    if (unknown * 2 > inquiry->count)
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "the sentinels know no primary named %.64s: SENTINEL masters lists the "
                           "names that they know",
                           s->sentinels->primary);
    return plock__inquiry_failure(inquiry, "sentinel", error);
}

/* Publishes the failure so far, for callers whose deadline passes before the search ends. */
static void tell_so_far(const search *s) {
    plock_error error;
    error.status = not_found(s, &error);
    plock__inquiry_publish(&s->inquiry, &error);
}

/* Advances all questions until more than half of the sentinels agree, all have answered, or the
 * time is over. Sets *enough to true if more than half agree. Returns the server that was named
 * most often, or NULL if none was named. */
static plock_addresses *listen_to_all(search *s, bool *enough) {
    plock_inquiry *inquiry = &s->inquiry;
    const plock_ns began_at = plock_now(), deadline = inquiry->deadline;
    const plock_ns half_over_at = began_at + (deadline - began_at) / 2;
    plock_ns patient_until = deadline;
    for (;;) {
        plock__begin_step();
        for (unsigned i = 0; i < inquiry->count; i++)
            plock__inquiry_step(inquiry, &inquiry->list[i]);
        plock__end_step();
        unsigned votes;
        plock_addresses *most = most_named(s, &votes);
        if (!most) tell_so_far(s);
        plock_ns now = plock_now();
        if (most && patient_until == deadline && plock_after(now, PATIENCE) < deadline)
            patient_until = plock_after(now, PATIENCE);
        plock_ns until = patient_until;
        if (most && now >= until && !most_agree(s, votes)) {
            /* a name that looks like a different server may be another name of the known server */
            resolve_all(s);
            most = most_named(s, &votes);
            now = plock_now();
            if (is_another(s, most) && until < half_over_at) until = half_over_at;
        }
        *enough = most_agree(s, votes);
        if (*enough || !plock__inquiry_under_way(inquiry) || now >= until) return most;
        plock__inquiry_await(inquiry, until);
    }
}

/* --- if the sentinels do not agree --- */

/* Connects to the servers. Each connection asks its server for its role. Returns the index of the
 * first server that is a primary, or the count if there is none. Once a server has said that it is
 * a primary, the servers that precede it in the list have PATIENCE to say the same. */
static unsigned first_primary(plock_inquiry *servers) {
    plock_ns patient_until = servers->deadline;
    for (;;) {
        bool waits = false;
        unsigned first = servers->count;
        plock__begin_step();
        for (unsigned i = 0; i < servers->count; i++) {
            plock__inquiry_step(servers, &servers->list[i]);
            if (first < servers->count) continue;
            if (answered(servers, i)) first = i;
            waits = waits || servers->list[i].state != PLOCK__QUESTION_ENDED;
        }
        plock__end_step();
        const plock_ns now = plock_now();
        if (first < servers->count && patient_until > plock_after(now, PATIENCE))
            patient_until = plock_after(now, PATIENCE);
        if (!waits || now >= patient_until) return first;
        plock__inquiry_await(servers, patient_until);
    }
}

/* Chooses between servers that were named by equally many sentinels. Returns the first one that
 * says it is a primary, or NULL. */
static plock_addresses *break_tie(search *s, plock_config *config, unsigned votes) {
    plock_addresses *tied[PLOCK__ASKED_MAX] = {NULL};
    plock_error ignored;
    plock_inquiry *servers = plock__allocate(sizeof *servers);
    if (!servers) return NULL;
    servers->config = config;
    if (!plock__inquiry_start(servers, &ignored)) servers->deadline = s->inquiry.deadline;
    for (unsigned i = 0; servers->started && i < s->inquiry.count; i++) {
        bool known = votes_for(s, i) < votes;
        for (unsigned j = 0; j < servers->count && !known; j++)
            known = plock__same_server(tied[j], &s->named[i]);
        if (known) continue;
        tied[servers->count] = &s->named[i];
        plock__inquiry_add(servers, s->named[i].host, s->named[i].port);
    }
    servers->asked = servers->count;
    const unsigned first = servers->count > 1 ? first_primary(servers) : servers->count;
    plock_addresses *chosen = first < servers->count ? tied[first] : NULL;
    plock__begin_step();
    plock__inquiry_end(servers);
    plock__free(servers);
    plock__end_step();
    return chosen;
}

/* Chooses a server when the sentinels do not agree. They may know one server by several names, so
 * the names are resolved first. If they still do not agree, the servers that were named most often
 * are asked for their roles. If none of them is a primary, the first sentinel of the URL decides
 * between them. */
static plock_addresses *decide(search *s, plock_config *config) {
    unsigned votes;
    resolve_all(s);
    plock_addresses *most = most_named(s, &votes);
    plock_addresses *chosen = most_agree(s, votes) ? NULL : break_tie(s, config, votes);
    return chosen ? chosen : most;
}

/* --- the outcome --- */

static plock_status start(search *s, plock_config *config, const plock_addresses *known,
                          plock_error *error) {
    s->sentinels = config->sentinels;
    s->known = known;
    s->inquiry.config = s->sentinels->config;
    s->inquiry.ask = ask;
    s->inquiry.read = read_name;
    const plock_status status = plock__inquiry_start(&s->inquiry, error);
    const plock_endpoints *places = &s->sentinels->places;
    for (unsigned i = 0; !status && i < places->count; i++)
        plock__inquiry_add(&s->inquiry, places->list[i].host, places->list[i].port);
    s->inquiry.asked = s->inquiry.count;
    return status;
}

plock_status plock__find_primary(plock_config *config, const plock_addresses *known,
                                 plock_addresses *found, plock_error *so_far, plock_error *error) {
    search *s = plock__allocate(sizeof *s);
    if (!s) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    s->inquiry.so_far = so_far;
    plock_status status = start(s, config, known, error);
    if (!status) {
        bool enough;
        plock_addresses *named = listen_to_all(s, &enough);
        if (named && !enough) named = decide(s, config);
        status = named ? resolve(named, s->inquiry.deadline, error) : not_found(s, error);
        if (named) *found = *named;
    }
    plock__begin_step();
    plock__inquiry_end(&s->inquiry);
    plock__free(s);
    plock__end_step();
    return status;
}
