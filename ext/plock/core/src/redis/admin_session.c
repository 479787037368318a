#include "plock/admin_session.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "net/dial.h"
#include "redis/routes.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(PLOCK_QUESTION_WORDS == PLOCK__WORDS_MAX, "a question is one command");

struct plock_admin_session {
    plock_node *node;
    plock_connection *connection;
    plock_resolver sentinel; /* its host is NULL if the session does not ask a sentinel */
    plock_load *load; /* the load of the cluster's map that the session waits for; NULL: none */
    enum { SILENT, CONNECTING, ASKING, LISTENING } state;
    plock_ns deadline;
    unsigned count;
    plock_text words[PLOCK__WORDS_MAX];
    plock_error error;
    size_t parts;
    plock_part *answer; /* the parts, followed by their texts; NULL: none */
};

plock_status plock_admin_session_new(plock_admin_session **out, plock_store *store) {
    plock_admin_session *admin_session = *out = plock__allocate(sizeof *admin_session);
    if (!admin_session) return PLOCK_NO_MEMORY;
    admin_session->node = plock__node_retain(&store->node);
    return PLOCK_OK;
}

plock_status plock_admin_session_to_sentinel(plock_admin_session **out, plock_store *store,
                                             unsigned number) {
    const char *host, *port;
    *out = NULL;
    if (!plock_config_sentinel(store->config, number, &host, &port)) return PLOCK_MISUSE;
    const plock_status status = plock_admin_session_new(out, store);
    if (!status) (*out)->sentinel = (plock_resolver){.host = host, .port = port};
    return status;
}

plock_status plock_admin_session_to_node(plock_admin_session **out, plock_store *store,
                                         const char *host, const char *port) {
    plock_node_name name;
    *out = NULL;
    const bool fits =
        store->routes && plock__name_node(&name, plock__text_of(host), strtol(port, NULL, 10));
    plock_node *node = fits ? plock__routes_node(store, &name) : NULL;
    if (!node) return fits ? PLOCK_NO_MEMORY : PLOCK_MISUSE;
    const plock_status status = plock_admin_session_new(out, store);
    /* the session's reference to the store also keeps this node alive */
    if (!status) (*out)->node = node;
    return status;
}

/* Closes the connection, because a late answer would be taken for the answer to the next question.
 */
static void hang_up(plock_admin_session *admin_session) {
    if (admin_session->connection)
        plock__pool_give(&admin_session->node->pool, admin_session->connection, false);
    admin_session->connection = NULL;
    admin_session->state = SILENT;
    plock__routes_abandon(&admin_session->load);
    if (admin_session->sentinel.host) plock__resolver_clear(&admin_session->sentinel);
}

void plock_admin_session_free(plock_admin_session *admin_session) {
    if (!admin_session) return;
    plock__begin_step();
    hang_up(admin_session);
    plock__node_release(admin_session->node);
    plock__free(admin_session->answer);
    plock__free(admin_session);
    plock__end_step();
}

/* --- asking --- */

static void begin(plock_admin_session *admin_session, unsigned count, const plock_word *words) {
    if (admin_session->state != SILENT ||
        (admin_session->connection && !plock__connection_at_rest(admin_session->connection)))
        hang_up(admin_session);
    admin_session->count = count;
    for (unsigned i = 0; i < count; i++)
        admin_session->words[i] = plock__text(words[i].text, words[i].length);
    admin_session->parts = 0;
    admin_session->state = admin_session->connection ? ASKING : CONNECTING;
    admin_session->deadline =
        plock_after(plock_now(), admin_session->node->config->connect_timeout);
}

plock_status plock_admin_session_ask(plock_admin_session *admin_session, unsigned count,
                                     const plock_word *words) {
    if (count == 0 || count > PLOCK_QUESTION_WORDS) return PLOCK_MISUSE;
    plock__begin_step();
    begin(admin_session, count, words);
    plock__end_step();
    return PLOCK_OK;
}

/* --- the answer --- */

/* Copies the answer, because its text is valid only until the connection is used again. */
static plock_status keep(plock_admin_session *admin_session, const plock_value *value) {
    const plock_value *after = plock__value_after(value);
    size_t bytes = 0;
    for (const plock_value *one = value; one < after; one++)
        if (one->text) bytes += one->length;
    plock__free(admin_session->answer);
    const size_t room = (size_t)(after - value) * sizeof *admin_session->answer + bytes;
    admin_session->answer = plock__allocate(room);
    if (!admin_session->answer) return plock__fail_plainly(&admin_session->error, PLOCK_NO_MEMORY);
    char *to = (char *)(admin_session->answer + (after - value));
    for (; value < after; value++) {
        plock_part *part = &admin_session->answer[admin_session->parts++];
        *part = (plock_part){.length = value->length, .number = value->integer};
        switch (value->type) {
        case PLOCK__NIL: part->kind = PLOCK_PART_NOTHING; break;
        case PLOCK__INTEGER: part->kind = PLOCK_PART_NUMBER; break;
        case PLOCK__ARRAY: part->kind = PLOCK_PART_LIST; break;
        case PLOCK__STRING:
        case PLOCK__DONE:
        case PLOCK__ERROR: /* an error within a list */
            part->kind = PLOCK_PART_TEXT;
            part->text = to;
            if (value->text) memcpy(to, value->text, value->length);
            to += value->length;
        }
    }
    return PLOCK_OK;
}

/* --- steps --- */

/* Makes the connection. A node of a cluster may be asked for the map, which needs a large buffer.
 */
static plock_status connect_to(plock_admin_session *admin_session, plock_error *error) {
    plock_node *node = admin_session->node;
    const plock_status status =
        admin_session->sentinel.host
            ? plock__dial_beside(&admin_session->connection, node->config->sentinels->config,
                                 &admin_session->sentinel, &node->pool, error)
            : plock__node_connect_beside(node, &admin_session->connection, error);
    return !status && node->store->routes && plock__connection_enlarge(admin_session->connection)
               ? plock__fail_plainly(error, PLOCK_NO_MEMORY)
               : status;
}

/* A session with a cluster asks the first primary, once that primary is known. */
static plock_status find_primary(plock_admin_session *admin_session, plock_interest *interest,
                                 plock_error *error) {
    plock_store *store = admin_session->node->store;
    const plock_status status = plock__routes_await(store, &admin_session->load, interest, error);
    if (status) return status;
    plock_node *node = plock__routes_primary(store, 0);
    if (!node) return plock__fail_plainly(error, PLOCK_CLUSTERDOWN);
    /* the session's reference to the store also keeps this node alive */
    admin_session->node = node;
    return PLOCK_OK;
}

static plock_status open_connection(plock_admin_session *admin_session, plock_interest *interest) {
    plock_error *error = &admin_session->error;
    plock_status status = PLOCK_OK;
    if (plock__is_no_server(admin_session->node))
        status = find_primary(admin_session, interest, error);
    if (!status && !admin_session->connection) status = connect_to(admin_session, error);
    if (!status)
        status = plock__connection_open(admin_session->connection, admin_session->deadline,
                                        interest, error);
    if (!status) admin_session->state = ASKING;
    return status;
}

static plock_status ask(plock_admin_session *admin_session) {
    admin_session->state = LISTENING;
    admin_session->deadline =
        plock_after(plock_now(), admin_session->node->config->command_timeout);
    return plock__connection_send(admin_session->connection, admin_session->count,
                                  admin_session->words, &admin_session->error);
}

static plock_status listen_for_answer(plock_admin_session *admin_session,
                                      plock_interest *interest) {
    const plock_value *value;
    const plock_status status = plock__connection_receive(admin_session->connection, &value,
                                                          interest, &admin_session->error);
    if (status) return status;
    admin_session->state = SILENT;
    if (value->type == PLOCK__ERROR) return plock__server_error(value, &admin_session->error);
    return keep(admin_session, value);
}

static plock_status advance(plock_admin_session *admin_session, plock_interest *interest) {
    *interest = (plock_interest){.fd = -1, .deadline = admin_session->deadline};
    admin_session->error.status = PLOCK_OK;
    plock_status status = admin_session->state == SILENT
                              ? plock__fail_plainly(&admin_session->error, PLOCK_MISUSE)
                              : PLOCK_OK;
    if (!status && admin_session->state == CONNECTING)
        status = open_connection(admin_session, interest);
    if (!status && admin_session->state == ASKING) status = ask(admin_session);
    if (!status) status = listen_for_answer(admin_session, interest);
    if (status == PLOCK_AGAIN) {
        if (interest->deadline > admin_session->deadline)
            interest->deadline = admin_session->deadline;
        if (plock_now() < admin_session->deadline) return PLOCK_AGAIN;
        status = admin_session->connection
                     ? plock__connection_silent(admin_session->connection, &admin_session->error)
                     : plock__fail_plainly(&admin_session->error, PLOCK_SILENT);
    }
    if (status && admin_session->state != SILENT) hang_up(admin_session);
    return status;
}

static plock_status step(void *admin_session, plock_interest *interest) {
    plock__begin_step();
    const plock_status status = advance(admin_session, interest);
    plock__end_step();
    return status;
}

static void cancel(void *admin_session) {
    plock__begin_step();
    hang_up(admin_session);
    plock__end_step();
}

static void hurry(void *of, plock_ns deadline) {
    plock_admin_session *admin_session = of;
    if (deadline < admin_session->deadline) admin_session->deadline = deadline;
}

plock_operation plock_admin_session_operation(plock_admin_session *admin_session) {
    return (plock_operation){.of = admin_session, .step = step, .cancel = cancel, .hurry = hurry};
}

const plock_error *plock_admin_session_error(const plock_admin_session *admin_session) {
    return &admin_session->error;
}

size_t plock_admin_session_parts(const plock_admin_session *admin_session) {
    return admin_session->parts;
}

plock_part plock_admin_session_part(const plock_admin_session *admin_session, size_t part) {
    return part < admin_session->parts ? admin_session->answer[part]
                                       : (plock_part){.kind = PLOCK_PART_NOTHING};
}
