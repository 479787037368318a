#include "redis/call.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "redis/confirm.h"
#include "redis/routes.h"

#include <stdio.h>
#include <string.h>

void plock__call_begin(plock_call *call, plock_node *node, const plock_request *request,
                       plock_ns deadline) {
    *call = (plock_call){.state = PLOCK__TAKING,
                         .node = node,
                         .request = *request,
                         .functions = atomic_load_explicit(&node->functions, memory_order_relaxed),
                         .deadline = deadline,
                         .generation = plock__generation()};
    if (node->store->routes) plock__redirect_begin(call);
}

static plock_ns sooner(plock_ns deadline, plock_ns now, plock_ns span) {
    const plock_ns other = plock_after(now, span);
    return other < deadline ? other : deadline;
}

static plock_status name_the_server(plock_call *call, plock_status status, plock_error *error) {
    if (error->status != status) (void)plock__fail_plainly(error, status);
    const plock_error cause = *error;
    return plock__node_fail(call->node, plock__call_reached(call), status, cause.message, error);
}

const plock_connection *plock__call_reached(const plock_call *call) {
    const plock_connection *connection = call->connection;
    const bool reached = connection && (call->state > PLOCK__OPENING || connection->greeting);
    return reached ? connection : NULL;
}

void plock__call_let_go(plock_call *call, bool usable) {
    plock__pool_leave(&call->node->pool, &call->turn);
    if (call->connection) plock__pool_give(&call->node->pool, call->connection, usable);
    call->connection = NULL;
    plock__free(call->granted);
    call->granted = NULL;
    plock__routes_abandon(&call->load);
    call->state = PLOCK__CALL_NONE;
}

enum how { BY_NAME, BY_TEXT, BY_FUNCTION };

static const plock_script *script_of(const plock_connection *connection, plock_script_id id) {
    return plock__script(id, connection->config->cluster);
}

static plock_status send_script(plock_connection *connection, const plock_request *request,
                                enum how how, plock_error *error) {
    static const char *const COMMANDS[] = {
        [BY_NAME] = "EVALSHA", [BY_TEXT] = "EVAL", [BY_FUNCTION] = "FCALL"};
    const plock_script *script = script_of(connection, request->script);
    if (!script) return plock__fail_plainly(error, PLOCK_CRYPTO);
    plock_text words[PLOCK__LIST_MAX];
    const plock_text *texts = request->list ? request->list : request->texts;
    char keys[4];
    unsigned count = 0;
    words[count++] = plock__text_of(COMMANDS[how]);
    words[count++] = how == BY_NAME   ? plock__text(script->sha1, PLOCK__SHA1_HEX)
                     : how == BY_TEXT ? plock__text(script->text, script->length)
                                      : plock__text_of(script->function);
    words[count++] =
        request->list ? plock__text(keys, (size_t)snprintf(keys, sizeof keys, "%u", request->keys))
                      : plock__text(&"01"[request->keys], 1);
    for (unsigned i = 0; i < request->keys + request->arguments; i++) words[count++] = texts[i];
    return plock__connection_send(connection, count, words, error);
}

plock_status plock__call_send(const plock_node *node, plock_connection *connection,
                              const plock_request *request, plock_error *error) {
    const bool functions = atomic_load_explicit(&node->functions, memory_order_relaxed);
    return send_script(connection, request, functions ? BY_FUNCTION : BY_NAME, error);
}

static plock_status load(const plock_call *call, plock_error *error) {
    plock_connection *connection = call->connection;
    const plock_script *script = script_of(connection, call->request.script);
    if (!script) return plock__fail_plainly(error, PLOCK_CRYPTO);
    const plock_text functions[] = {plock__text_of("FUNCTION"), plock__text_of("LOAD"),
                                    plock__text_of("REPLACE"),
                                    plock__script_library(connection->config->cluster)};
    const plock_text one[] = {plock__text_of("SCRIPT"), plock__text_of("LOAD"),
                              plock__text(script->text, script->length)};
    return call->functions ? plock__connection_send(connection, 4, functions, error)
                           : plock__connection_send(connection, 3, one, error);
}

/* --- the steps; each advances the state, or returns why it cannot --- */

/* A request for a held lease or a reserved turn goes before an acquire. Otherwise the lease or the
 * turn could expire, and other callers would have to wait for the lock. */
static bool is_urgent(const plock_request *request) {
    if (request->irreplaceable) return true;
    switch (request->script) {
    case PLOCK__RELEASE:
    case PLOCK__RELEASE_ALL:
    case PLOCK__UNDO:
    case PLOCK__LEAVE:
    case PLOCK__EXTEND:
    case PLOCK__SHARED_RELEASE:
    case PLOCK__SHARED_LEAVE:
    case PLOCK__SHARED_EXTEND:
    case PLOCK__SHARED_DOWNGRADE: return true;
    default: return false;
    }
}

static bool acquires(const plock_request *request) {
    return request->script == PLOCK__ACQUIRE || request->script == PLOCK__SHARED_ACQUIRE ||
           request->script == PLOCK__ACQUIRE_ALL;
}

/* Has the process moved to another server since the connection was made? If the earlier primary
 * answers again, it may not know that another primary has its keys now. Returns false for a call
 * that sends ASKING: that call has the right node, although the slot's route differs. */
static bool left_behind(const plock_call *call) {
    const plock_node *node = call->node;
    if (node->store->routes)
        return call->request.keys > 0 && !call->asking &&
               plock__route(node->store, &call->request) != node;
    if (!node->config->sentinels) return false;
    plock__enter();
    const bool left = plock__node_left(node, call->connection);
    plock__leave();
    return left;
}

static plock_status fail_left_behind(plock_error *error) {
    return plock__fail(error, PLOCK_DISCONNECTED, "another server serves the key now");
}

static plock_status take_connection(plock_call *call, plock_interest *interest,
                                    plock_error *error) {
    if (!call->turn.waits) {
        call->turn.urgent = is_urgent(&call->request);
        call->turn.careful = call->request.irreplaceable;
        call->turn.keys = call->request.list ? call->request.list : call->request.texts;
        call->turn.key_count = acquires(&call->request) ? call->request.keys : 0;
    }
    plock_pool *pool = &call->node->pool;
    plock_status status = plock__pool_take(pool, &call->connection, &call->turn, interest);
    if (status) return status;
    if (call->halves) {
        const plock_ns now = plock_now();
        call->deadline = now + (call->deadline - now) / 2;
    }
    call->reused = call->connection;
    if (!call->reused) {
        status = plock__node_connect(call->node, &call->connection, error);
        if (status) return status;
        call->open_deadline =
            sooner(call->deadline, plock_now(), call->node->config->connect_timeout);
    }
    call->state = call->reused ? PLOCK__ASKING : PLOCK__OPENING;
    return PLOCK_OK;
}

/* Returns the deadline of the current state. While connecting there are two, and the earlier one
 * counts: plock__retry_hurry shortens only call->deadline. */
static plock_ns current_deadline(const plock_call *call) {
    return call->state == PLOCK__OPENING && call->open_deadline < call->deadline
               ? call->open_deadline
               : call->deadline;
}

static plock_status open_connection(plock_call *call, plock_interest *interest,
                                    plock_error *error) {
    const plock_status status =
        plock__connection_open(call->connection, current_deadline(call), interest, error);
    if (status) return status;
    if (left_behind(call)) {
        /* no request was sent; `reused` lets the caller try again at once, as it does after a
         * closed idle connection */
        call->reused = true;
        return fail_left_behind(error);
    }
    call->state = PLOCK__ASKING;
    return PLOCK_OK;
}

static plock_status ask(plock_call *call, plock_error *error) {
    call->left_at = plock_now();
    call->deadline = sooner(call->deadline, call->left_at, call->node->config->command_timeout);
    call->state = PLOCK__LISTENING;
    if (call->leaves) call->leaves(call->context, call->left_at);
    const plock_status status =
        call->asking ? plock__redirect_ask(call->connection, error) : PLOCK_OK;
    if (status) return status;
    return send_script(call->connection, &call->request, call->functions ? BY_FUNCTION : BY_NAME,
                       error);
}

/* The server does not know the script, so this sends the script together with the request. */
static plock_status ask_again(plock_call *call, plock_error *error) {
    call->loads = true;
    const plock_status status = load(call, error);
    return status ? status : ask(call, error);
}

/* Does the server refuse the command itself? Either this user may not call the command, or the
 * server does not know it. */
static bool refuses(const plock_error *said, const char *command) {
    return (said->status == PLOCK_NOPERM || said->status == PLOCK_SERVER) &&
           strcasestr(said->message, command);
}

/* The server's message names only the line of the script that has the forbidden command. This
 * function adds the names of the commands in that line. */
static void name_the_command(const plock_call *call, plock_error *error) {
    const plock_script *script = script_of(call->connection, call->request.script);
    char commands[PLOCK__COMMANDS_MAX] = "";
    if (script) plock__script_commands(script, error->message, commands);
    const plock_error said = *error;
    if (*commands)
        (void)plock__fail(error, said.status, "%s: %s (%.120s)", plock_status_text(said.status),
                          commands, said.message);
}

static plock_status read_answer(plock_call *call, const plock_value **value,
                                plock_interest *interest, plock_error *error) {
    for (;;) {
        plock_status status = plock__connection_receive(call->connection, value, interest, error);
        if (status) return status;
        plock__node_reached(call->node, call->left_at);
        /* A reply that is not the last one answers the LOAD. If that reply is an error and the
         * script is still unknown, the call ends with that error. */
        const bool last = call->connection->awaited == 0;
        if ((*value)->type != PLOCK__ERROR) {
            if (last) plock__node_knows(call->node, call->request.script, true);
            if (last && call->functions)
                atomic_store_explicit(&call->node->functions, true, memory_order_relaxed);
            if (last) return PLOCK_OK;
            continue;
        }
        plock_error said;
        status = plock__server_error(*value, &said);
        if (status == PLOCK_NOSCRIPT && call->loading_failed)
            return error->status = call->loading_failed;
        if (last && !call->functions && refuses(&said, "evalsha")) {
            /* the user may not call scripts; from Redis 7 on, functions can be called instead */
            call->functions = true;
            status = ask(call, error);
            if (status) return status;
            continue;
        }
        if (call->functions && refuses(&said, "fcall"))
            return plock__fail(error, PLOCK_NOPERM, "%s: EVALSHA (or FCALL, from Redis 7 on)",
                               plock_status_text(PLOCK_NOPERM));
        if (status == PLOCK_NOPERM) name_the_command(call, &said);
        if (status == PLOCK_MOVED) call->redirection = plock__redirection(*value);
        *error = said;
        if (!last) {
            call->loading_failed = status;
            continue;
        }
        if (status == PLOCK_NOSCRIPT) plock__node_knows(call->node, call->request.script, false);
        if (status == PLOCK_NOSCRIPT && !call->loads) status = ask_again(call, error);
        if (status) return status;
    }
}

static plock_status read_out(plock_call *call, const plock_value **value, plock_interest *interest,
                             plock_error *error) {
    if (call->state == PLOCK__CONFIRMING) return plock__confirm_hear(call, value, interest, error);
    plock_status status = read_answer(call, value, interest, error);
    if (status || !call->request.replicas || !plock__grants(call->request.script, *value))
        return status;
    status = plock__confirm_ask(call, *value, error);
    if (!status && plock__connection_expects(call->connection, interest)) return PLOCK_AGAIN;
    return status ? status : plock__confirm_hear(call, value, interest, error);
}

/* A grant from a server that the process has left does not count, because the new primary may have
 * granted the key to another caller. */
static plock_status hear(plock_call *call, const plock_value **value, plock_interest *interest,
                         plock_error *error) {
    const plock_status status = read_out(call, value, interest, error);
    const bool grants = !status && plock__grants(call->request.script, *value);
    return grants && left_behind(call) ? fail_left_behind(error) : status;
}

/* All connections are in use. If the server has been silent for a while, the message adds that. */
static plock_status saturated(const plock_call *call, plock_error *error) {
    const plock_ns quiet = plock_now() - atomic_load(&call->node->reached_at);
    if (quiet < call->node->config->command_timeout)
        return plock__fail_plainly(error, PLOCK_SATURATED);
    return plock__fail(error, PLOCK_SATURATED,
                       "%s, and the server has answered nothing that was asked in the last %g s",
                       plock_status_text(PLOCK_SATURATED),
                       (double)call->node->config->command_timeout / (double)PLOCK_SECOND);
}

static plock_status overdue(plock_call *call, plock_error *error) {
    if (call->state == PLOCK__TAKING) return saturated(call, error);
    if (call->state == PLOCK__PAUSING) return plock__fail_plainly(error, PLOCK_CLUSTERDOWN);
    if (call->state == PLOCK__ROUTING)
        return plock__routes_unknown_yet(call->node->config, call->load, error);
    /* If connecting had failed, the transport would have reported it. So the transport is
     * connected, but the server, or its TLS, did not answer. */
    if (call->state != PLOCK__CONFIRMING) return plock__connection_silent(call->connection, error);
    return plock__fail(error, PLOCK_UNREPLICATED,
                       "fewer than %u replicas confirmed the lease in time",
                       call->request.replicas);
}

/* Can the connection be used again after a call with this status? */
static bool is_free_after(const plock_call *call, plock_status status) {
    return plock_status_keeps_connection(status) && !call->unfit &&
           (!call->connection || call->connection->awaited == 0);
}

static plock_status advance(plock_call *call, const plock_value **value, plock_interest *interest,
                            plock_error *error) {
    *interest = (plock_interest){.fd = -1, .deadline = call->deadline};
    error->status = PLOCK_OK;
    plock_status status = PLOCK_OK;
    if (call->state < PLOCK__TAKING) status = plock__redirect_step(call, interest, error);
    if (!status && call->state == PLOCK__TAKING) status = take_connection(call, interest, error);
    if (!status && call->state == PLOCK__OPENING) status = open_connection(call, interest, error);
    if (!status && call->state == PLOCK__ASKING) {
        status = ask(call, error);
        /* The answer cannot have arrived yet, so a read would only cost a system call. */
        if (!status && plock__connection_expects(call->connection, interest)) status = PLOCK_AGAIN;
    }
    return status ? status : hear(call, value, interest, error);
}

plock_status plock__call_step(plock_call *call, const plock_value **value, plock_interest *interest,
                              plock_error *error) {
    plock_status status;
    do {
        status = advance(call, value, interest, error);
    } while (status && status != PLOCK_AGAIN && call->node->store->routes &&
             plock__redirect_follow(call, status));
    if (status == PLOCK_OK) {
        error->status = PLOCK_OK; /* forget that the script was unknown */
        *error->message = 0;
        if (plock__shows_primary(&call->request, *value))
            plock__node_served(call->node, call->connection);
        return PLOCK_OK;
    }
    if (status == PLOCK_AGAIN) {
        const plock_ns deadline = current_deadline(call);
        if (interest->deadline > deadline) interest->deadline = deadline;
        if (plock_now() < deadline) return PLOCK_AGAIN;
        status = overdue(call, error);
    }
    if (call->node->store->routes) status = plock__redirect_failed(call, status, error);
    status = name_the_server(call, status, error);
    /* If the server went away, fell silent or became a replica, the other idle connections are also
     * useless. */
    const bool gone = status == PLOCK_DISCONNECTED || status == PLOCK_SILENT;
    const bool elsewhere = status == PLOCK_READONLY || call->unfit;
    if (elsewhere) plock__node_moved(call->node);
    if (elsewhere || (gone && call->reused)) plock__pool_distrust(&call->node->pool);
    /* after PLOCK_SILENT, the caller cancels the call, and may send an undo */
    if (status != PLOCK_SILENT) plock__call_let_go(call, is_free_after(call, status));
    return status;
}

void plock__call_finish(plock_call *call) { plock__call_let_go(call, true); }

void plock__call_cancel(plock_call *call, const plock_request *undo) {
    if (call->state == PLOCK__CALL_NONE) return;
    plock_connection *connection = call->connection;
    /* A call that is CONFIRMING sends no undo, because the server would not execute an undo behind
     * WAIT after the connection is closed. */
    if (undo && call->state == PLOCK__LISTENING && connection &&
        call->generation == plock__generation() && plock__connection_flushed(connection)) {
        plock_error ignored;
        /* Nothing reads the reply to the undo, so nothing would notice that the server does not
         * know the script. So the undo has the whole text (EVAL), or calls a function. If sending
         * fails, the release on another connection does the work. */
        const bool sent = !call->asking || !plock__redirect_ask(connection, &ignored);
        if (sent)
            (void)send_script(connection, undo, call->functions ? BY_FUNCTION : BY_TEXT, &ignored);
    }
    plock__call_let_go(call, false);
}

bool plock__call_unanswered(const plock_call *call) { return call->state >= PLOCK__LISTENING; }

bool plock__call_left(const plock_call *call) { return call->left_at != 0; }
