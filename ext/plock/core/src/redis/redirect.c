#include "redis/redirect.h"

#include "base/failure.h"
#include "base/process.h"
#include "redis/call.h"
#include "redis/routes.h"

#include <stdlib.h>
#include <string.h>

/* Nodes that disagree may each name the other. After this many hops, the call pauses. */
enum { HOPS_MAX = 5 };

/* While the cluster does not serve a key, the pauses grow from FIRST_PAUSE to LAST_PAUSE. */
static const plock_ns FIRST_PAUSE = 5 * PLOCK_MILLISECOND, LAST_PAUSE = 40 * PLOCK_MILLISECOND;

/* --- the answers --- */

plock_redirection plock__redirection(const plock_value *answer) {
    plock_redirection read = {.slot = PLOCK__SLOTS};
    char text[PLOCK__HOST_MAX + 32];
    if (answer->type != PLOCK__ERROR || answer->length >= sizeof text) return read;
    memcpy(text, answer->text, answer->length);
    text[answer->length] = 0;
    char *slot = strchr(text, ' '), *place = slot ? strchr(slot + 1, ' ') : NULL;
    char *port = place ? strrchr(place + 1, ':') : NULL, *end;
    if (!port) return read;
    *slot++ = *place++ = *port++ = 0;
    const unsigned long number = strtoul(slot, &end, 10);
    if (*slot < '0' || *slot > '9' || *end || number >= PLOCK__SLOTS) return read;
    const long port_number = *port >= '0' && *port <= '9' ? strtol(port, &end, 10) : 0;
    /* plock__name_node needs a host, so "?" stands for a missing one, and is cleared below */
    const bool hostless = !*place || !strcmp(place, "?");
    const plock_text host = hostless ? plock__text_of("?") : plock__text_of(place);
    if (!port_number || *end || !plock__name_node(&read.to, host, port_number)) return read;
    if (hostless) *read.to.host = 0;
    read.asks = !strcmp(text, "ASK");
    read.slot = (unsigned)number;
    return read;
}

plock_status plock__redirect_ask(plock_connection *connection, plock_error *error) {
    static const plock_text ASKING[] = {{"ASKING", 6}};
    return plock__connection_send(connection, 1, ASKING, error);
}

/* --- routing --- */

static bool is_note(const plock_call *call) { return call->request.script == PLOCK__NOTE; }

static plock_text key_of(const plock_call *call, unsigned key) {
    return call->request.list ? call->request.list[key] : call->request.texts[key];
}

/* Checks that one node can serve the request. Its keys, with their companions and queues, must be
 * in one slot. */
static plock_status check_keys(const plock_call *call, plock_error *error) {
    for (unsigned i = 0; i < call->request.keys; i++) {
        if (!is_note(call) && !plock__slot_keeps_together(key_of(call, i)))
            return plock__fail(error, PLOCK_CROSSSLOT,
                               "a key that begins with a brace, or has a } but no hash tag, would "
                               "be in another slot than what stands beside it: use a key without "
                               "braces");
        if (i && plock__slot(key_of(call, i)) != plock__slot(key_of(call, 0)))
            return plock__fail_plainly(error, PLOCK_CROSSSLOT);
    }
    return PLOCK_OK;
}

static void go_to(plock_call *call, plock_node *node) {
    call->node = node;
    call->state = plock__is_no_server(node) ? PLOCK__ROUTING : PLOCK__TAKING;
    call->functions = atomic_load_explicit(&node->functions, memory_order_relaxed);
    call->loads = false;
    call->loading_failed = PLOCK_OK;
}

static void route(plock_call *call) {
    call->asking = false;
    go_to(call, plock__route(call->node->store, &call->request));
}

void plock__redirect_begin(plock_call *call) {
    plock_error ignored;
    call->redirection.slot = PLOCK__SLOTS;
    route(call);
    /* a call that fails the check becomes ROUTING, so that its first step reports the failure */
    if (check_keys(call, &ignored)) call->state = PLOCK__ROUTING;
}

void plock__redirect_renew(plock_call *call) {
    if (!call->load) call->load = plock__routes_renew(call->node->store);
    if (call->load) call->state = PLOCK__ROUTING;
}

static void pause(plock_call *call) {
    plock_ns span = FIRST_PAUSE << (call->pauses < 8 ? call->pauses : 8);
    if (span > LAST_PAUSE) span = LAST_PAUSE;
    call->pauses++;
    call->hops = 0;
    call->resume_at = plock_after(plock_now(), span);
    call->state = PLOCK__PAUSING;
    plock__routes_distrust(call->node);
}

plock_status plock__redirect_step(plock_call *call, plock_interest *interest, plock_error *error) {
    plock_store *store = call->node->store;
    if (call->state == PLOCK__PAUSING) {
        interest->deadline = call->resume_at;
        if (plock_now() < call->resume_at) return PLOCK_AGAIN;
        interest->deadline = call->deadline;
        route(call);
    }
    plock_status status = check_keys(call, error);
    if (status || call->state != PLOCK__ROUTING) return status;
    status = plock__routes_await(store, &call->load, interest, error);
    if (status) return status;
    route(call);
    if (call->state == PLOCK__TAKING) return PLOCK_OK;
    return plock__fail(error, PLOCK_CLUSTERDOWN, "no node of the cluster serves the key's slot");
}

/* --- following an answer to another node --- */

/* Makes the call begin again. The server has not executed the request, so the call is treated as if
 * it had sent nothing. */
static void begin_again(plock_call *call) {
    plock__call_let_go(call, !call->connection || call->connection->awaited == 0);
    call->left_at = 0;
    call->halves = false; /* the call's time has already been halved */
    call->reused = false;
}

static plock_node *target(const plock_call *call) {
    plock_redirection to = call->redirection;
    if (to.slot == PLOCK__SLOTS) return NULL;
    if (!*to.to.host) memcpy(to.to.host, call->node->name.host, sizeof to.to.host);
    return plock__routes_node(call->node->store, &to.to);
}

/* Returns the node that the answer names, or NULL if the store cannot add it. If the answer is
 * MOVED, also notes the slot's new node. */
static plock_node *heed(plock_call *call) {
    const plock_redirection to = call->redirection;
    plock_node *node = target(call);
    call->crowded = !node && plock__routes_full(call->node->store);
    if (!node || to.asks) return node;
    plock__routes_move(node->store, to.slot, node);
    plock__routes_doubt(node->store);
    return node;
}

bool plock__redirect_follow(plock_call *call, plock_status status) {
    const bool unserved = status == PLOCK_CLUSTERDOWN && call->request.keys < 2;
    if (status != PLOCK_MOVED && !unserved) return false;
    const bool asks = call->redirection.asks;
    plock_node *node = status == PLOCK_MOVED ? heed(call) : NULL;
    call->redirection.slot = PLOCK__SLOTS;
    const plock_ns now = plock_now();
    if (now >= call->deadline) return false;
    /* a break must succeed even if its slot never finishes moving, so its last attempt may do
     * without notifying the holder */
    const plock_ns reserve = call->node->config->command_timeout / 2;
    if (unserved && call->deadline - now <= reserve) plock__break_anyway(&call->request);
    begin_again(call);
    if (!node || call->hops++ == HOPS_MAX) {
        pause(call);
        return true;
    }
    go_to(call, node);
    call->asking = asks;
    return true;
}

plock_status plock__redirect_failed(const plock_call *call, plock_status status,
                                    plock_error *error) {
    /* a request for several keys gets TRYAGAIN if their slot is moving and some of the keys are on
     * another node */
    if (status == PLOCK_CLUSTERDOWN && call->request.keys > 1)
        status = plock__fail_plainly(error, PLOCK_CROSSSLOT);
    if (call->crowded && (status == PLOCK_MOVED || status == PLOCK_CLUSTERDOWN))
        status = plock__fail(error, PLOCK_CLUSTERDOWN,
                             "the key is on a node for which the store has no room: it has met %d. "
                             "Open another store",
                             PLOCK__NODES_MAX);
    if (status == PLOCK_MOVED)
        status = plock__fail(error, PLOCK_CLUSTERDOWN, "the key is just moving to another node");
    /* a connection may fail to open because the address belongs to another server by now */
    const bool refused = call->state == PLOCK__OPENING;
    if (refused || plock_status_unreachable(status) || status == PLOCK_CLUSTERDOWN ||
        status == PLOCK_LOADING || status == PLOCK_MASTERDOWN || status == PLOCK_READONLY)
        plock__routes_distrust(call->node);
    return status;
}
