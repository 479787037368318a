#include "net/slot_map.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "net/inquiry.h"

#include <stdio.h>
#include <string.h>

/* How long to wait for a node's answer before the next node is also asked. */
static const plock_ns STAGGER = 50 * PLOCK_MILLISECOND;

bool plock__name_node(plock_node_name *name, plock_text host, long port) {
    if (!host.length || host.length >= sizeof name->host || port < 1 || port > UINT16_MAX)
        return false;
    for (size_t i = 0; i < host.length; i++)
        if (host.bytes[i] <= ' ' || host.bytes[i] > '~') return false;
    *name = (plock_node_name){0};
    memcpy(name->host, host.bytes, host.length);
    (void)snprintf(name->port, sizeof name->port, "%u", (unsigned)port & 0xffff);
    return true;
}

bool plock__same_node(const plock_node_name *one, const plock_node_name *other) {
    return !strcmp(one->host, other->host) && !strcmp(one->port, other->port);
}

/* --- the answer to CLUSTER SLOTS --- */

/* Returns the index of the node in the map, plus 1. Returns 0 if the map has no room. */
static uint16_t number_of(plock_slot_map *map, const plock_node_name *name) {
    for (unsigned i = 0; i < map->count; i++)
        if (plock__same_node(&map->nodes[i], name)) return (uint16_t)(i + 1);
    if (map->count == PLOCK__MAPPED_NODES_MAX) return 0;
    map->nodes[map->count++] = *name;
    return (uint16_t)map->count;
}

/* A node that does not know its own address, or must not tell it, names no host. Its host is then
 * the one to which the question was sent. */
static bool is_unknown(const plock_value *host) {
    return host->type == PLOCK__NIL || host->length == 0 ||
           (host->length == 1 && *host->text == '?');
}

/* Reads {first slot, last slot, {host, port, …} of the primary, replicas …}. */
static bool read_range(plock_slot_map *map, const plock_value *range,
                       const plock_node_name *asked) {
    const plock_value *first = range + 1, *last = range + 2, *node = range + 3;
    if (range->type != PLOCK__ARRAY || range->length < 3 || first->type != PLOCK__INTEGER ||
        last->type != PLOCK__INTEGER || node->type != PLOCK__ARRAY || node->length < 2)
        return false;
    const plock_value *host = node + 1, *port = node + 2;
    if (first->integer < 0 || first->integer > last->integer || last->integer >= PLOCK__SLOTS ||
        (host->type != PLOCK__STRING && host->type != PLOCK__NIL) || port->type != PLOCK__INTEGER ||
        port->integer < 1 || port->integer > UINT16_MAX)
        return false;
    const plock_text named =
        is_unknown(host) ? plock__text_of(asked->host) : plock__text(host->text, host->length);
    plock_node_name name;
    const uint16_t number =
        plock__name_node(&name, named, (long)port->integer) ? number_of(map, &name) : 0;
    for (int64_t slot = first->integer; number && slot <= last->integer; slot++)
        map->owners[slot] = number;
    return number;
}

static plock_status read_map(plock_slot_map *map, const plock_value *answer,
                             const plock_node_name *asked, plock_error *error) {
    if (answer->type == PLOCK__ERROR) return plock__server_error(answer, error);
    if (answer->type == PLOCK__ARRAY && answer->length == 0)
        return plock__fail(error, PLOCK_CLUSTERDOWN, "it knows of no slot that is served");
    memset(map, 0, sizeof *map);
    bool whole = answer->type == PLOCK__ARRAY;
    const plock_value *range = answer + 1;
    for (size_t i = 0; whole && i < answer->length; i++, range = plock__value_after(range))
        whole = read_range(map, range, asked);
    return whole ? PLOCK_OK
                 : plock__fail(error, PLOCK_PROTOCOL,
                               "an answer that no cluster gives to CLUSTER SLOTS");
}

/* --- asking for the map --- */

_Static_assert((int)PLOCK__MAP_ASKED_MAX <= (int)PLOCK__ASKED_MAX,
               "all nodes of a load can be asked");

/* Must be on the heap, because an inquiry must be on the heap (inquiry.h). */
typedef struct search {
    /* the first field, so that a pointer to the inquiry is a pointer to the search */
    plock_inquiry inquiry;
    const plock_node_name *nodes;
    plock_slot_map *map;
    plock_ns next_at; /* when the next node is asked */
} search;

static plock_status ask(plock_inquiry *inquiry, plock_question *q) {
    static const plock_text WORDS[] = {{"CLUSTER", 7}, {"SLOTS", 5}};
    (void)inquiry;
    return plock__connection_send(q->connection, 2, WORDS, &q->error);
}

static plock_status read_answer(plock_inquiry *inquiry, plock_question *q,
                                const plock_value *answer) {
    const search *s = (const search *)(const void *)inquiry;
    return read_map(s->map, answer, &s->nodes[q - inquiry->list], &q->error);
}

/* Returns true if one of the nodes has answered with the map. */
static bool step_all(search *s) {
    plock_inquiry *inquiry = &s->inquiry;
    const plock_ns now = plock_now();
    const bool asks = inquiry->asked < inquiry->count &&
                      (now >= s->next_at || !plock__inquiry_under_way(inquiry));
    if (asks) inquiry->asked++;
    if (asks) s->next_at = plock_after(now, STAGGER);
    for (unsigned i = 0; i < inquiry->asked; i++) {
        plock_question *q = &inquiry->list[i];
        plock__inquiry_step(inquiry, q);
        if (q->state == PLOCK__QUESTION_ENDED && !q->error.status) return true;
    }
    return false;
}

static bool ask_all(search *s) {
    const plock_inquiry *inquiry = &s->inquiry;
    for (;;) {
        plock__begin_step();
        const bool told = step_all(s);
        plock__end_step();
        if (told) return true;
        const bool more = inquiry->asked < inquiry->count;
        const unsigned under_way = plock__inquiry_under_way(inquiry);
        const plock_ns now = plock_now();
        if ((!more && !under_way) || now >= inquiry->deadline) return false;
        plock_error so_far;
        so_far.status = plock__inquiry_failure(inquiry, "node", &so_far);
        plock__inquiry_publish(inquiry, &so_far);
        const bool sooner = more && s->next_at < inquiry->deadline;
        if (under_way) plock__inquiry_await(inquiry, sooner ? s->next_at : inquiry->deadline);
    }
}

plock_status plock__ask_for_slots(plock_config *config, const plock_node_name *nodes,
                                  unsigned count, plock_slot_map *map, plock_error *so_far,
                                  plock_error *error) {
    search *s = plock__allocate(sizeof *s);
    if (!s) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    s->inquiry.config = config;
    s->inquiry.so_far = so_far;
    s->inquiry.ask = ask;
    s->inquiry.read = read_answer;
    s->inquiry.large = true;
    s->nodes = nodes;
    s->map = map;
    plock_status status = plock__inquiry_start(&s->inquiry, error);
    for (unsigned i = 0; !status && i < count; i++)
        plock__inquiry_add(&s->inquiry, nodes[i].host, nodes[i].port);
    if (!status && !ask_all(s)) status = plock__inquiry_failure(&s->inquiry, "node", error);
    plock__begin_step();
    plock__inquiry_end(&s->inquiry);
    plock__free(s);
    plock__end_step();
    return status;
}
