#include "redis/reroute.h"

#include "base/process.h"
#include "redis/routes.h"

#include <stdio.h>
#include <string.h>

/* How many tags are tried. With this number, a node with 1 % of the slots fails to find a tag in
 * one of 20,000 cases. */
enum { TAGS = 1000 };

/* The pause after a coordinator could not be made, for lack of memory or of random numbers. */
static const plock_ns RETRY = 100 * PLOCK_MILLISECOND;

static plock_routes *routes_of(const plock_coordinator *coordinator) {
    return coordinator->node->store->routes;
}

/* --- with the mutex held --- */

static plock_text key_of(const plock_wait_queue *queue) {
    return plock__text(queue->key, queue->length);
}

static bool is_at(const plock_coordinator *coordinator, plock_node *node, plock_text key) {
    return plock__store_node(coordinator->node->store, key) == node;
}

/* Returns another node that now serves one of the coordinator's keys. Returns NULL if there is
 * none. */
static plock_node *find_target(const plock_coordinator *coordinator) {
    plock_store *store = coordinator->node->store;
    plock_node *own = coordinator->node;
    for (const plock_wait_queue *queue = coordinator->queues.first; queue; queue = queue->next)
        if (!is_at(coordinator, own, key_of(queue))) return plock__store_node(store, key_of(queue));
    for (const plock_watch *watch = coordinator->watches; watch; watch = watch->next)
        if (!is_at(coordinator, own, watch->subject.key))
            return plock__store_node(store, watch->subject.key);
    return NULL;
}

static plock_waiter *find(const plock_coordinator *coordinator, const plock_message *message) {
    return plock__wait_queue_waiter(plock__wait_queue_find(&coordinator->queues, message->key),
                                    message->value);
}

/* Moves a wait queue. The waiters' places have moved to another node, and may have been lost on the
 * way, so the waiters ask again. If `to` already has a wait queue for the key, moves the waiters
 * into that one, and adds `queue` to *empty. */
static void move_queue(plock_wait_queue *queue, plock_coordinator *to, plock_wait_queue **empty) {
    plock_wait_queue *there = plock__wait_queue_find(&to->queues, key_of(queue));
    plock__wait_queues_remove(queue);
    for (plock_waiter *waiter; there && (waiter = queue->first);) {
        plock__wait_queue_remove(waiter);
        plock__wait_queue_insert(there, waiter);
    }
    if (there) {
        queue->next = *empty;
        *empty = queue;
    } else {
        plock__wait_queues_add(&to->queues, queue);
    }
    if (to->open) plock__wait_queue_shake(there ? there : queue, NULL);
}

/* Moves from `from` to `to` the wait queues and watches that belong to the node of `to`. Adds to
 * *empty the wait queues that the caller must free after releasing the mutex. */
static void move_all(plock_coordinator *from, plock_coordinator *to, plock_wait_queue **empty) {
    for (plock_wait_queue *queue = from->queues.first, *next; queue; queue = next) {
        next = queue->next;
        if (is_at(from, to->node, key_of(queue))) move_queue(queue, to, empty);
    }
    for (plock_watch *watch = from->watches, *next; watch; watch = next) {
        next = watch->next;
        if (is_at(from, to->node, watch->subject.key)) plock__watch_move(watch, to);
    }
    plock__worker_schedule(&to->job);
}

plock_waiter *plock__reroute_find(const plock_coordinator *coordinator,
                                  const plock_message *message, bool *elsewhere) {
    plock_store *store = coordinator->node->store;
    plock_waiter *waiter = find(coordinator, message);
    if (waiter || !store->routes) return waiter;
    *elsewhere = !message->sharded && !is_at(coordinator, coordinator->node, message->key);
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));) {
        const plock_coordinator *other = atomic_load(&node->coordinator);
        waiter = other ? find(other, message) : NULL;
        if (!waiter) continue;
        *elsewhere = true;
        return other->open && !message->sharded ? NULL : waiter;
    }
    return NULL;
}

void plock__reroute_break(const plock_coordinator *coordinator, const plock_message *message) {
    plock_store *store = coordinator->node->store;
    for (plock_node *node = NULL; (node = plock__store_nodes(store, node));) {
        const plock_coordinator *each = atomic_load(&node->coordinator);
        if (each) plock__watch_broken(&each->watches_by_key, message->key, message->value);
    }
}

/* Does the node serve the slot of the channel's tag? */
static bool has_tag(const plock_coordinator *coordinator) {
    const plock_channel *channel = &coordinator->channel;
    return channel->tag_length &&
           is_at(coordinator, coordinator->node, plock__channel_text(channel));
}

/* Chooses as the tag the least number whose slot the node serves. So a replica that takes over the
 * node gets the same tag. If the slot of the present tag has moved, chooses a greater number.
 * Returns true if there is a new tag. A node that serves very few slots may have no tag. */
static bool choose_tag(plock_coordinator *coordinator) {
    plock_channel *channel = &coordinator->channel;
    if (plock__is_no_server(coordinator->node)) return false;
    if (!channel->tag_lost && has_tag(coordinator)) return false;
    channel->tag = channel->tag_lost ? channel->tag + 1 : 0;
    channel->tag_lost = false;
    for (; channel->tag < TAGS; channel->tag++) {
        const int length =
            snprintf(channel->name + PLOCK__CHANNEL_LENGTH, PLOCK__TAG_ROOM, "{%u}", channel->tag);
        channel->tag_length = (size_t)length;
        if (has_tag(coordinator)) return true;
    }
    channel->tag_length = 0;
    return false;
}

void plock__reroute_name(plock_coordinator *coordinator) {
    plock_store *store = coordinator->node->store;
    if (!store->routes) return;
    if (store->named_in != plock__generation())
        memcpy(store->id, coordinator->channel.name, sizeof store->id);
    store->named_in = plock__generation();
    memcpy(coordinator->channel.name, store->id, sizeof store->id);
    (void)choose_tag(coordinator);
    coordinator->routes_seen = atomic_load(&store->routes->version);
}

void plock__coordinator_places(plock_coordinator *coordinator, plock_text key) {
    if (!routes_of(coordinator) || is_at(coordinator, coordinator->node, key)) return;
    coordinator->routes_seen--;
    plock__worker_schedule(&coordinator->job);
}

/* --- in the worker thread --- */

void plock__reroute_tag(plock_coordinator *coordinator) {
    if (!routes_of(coordinator)) return;
    plock__enter();
    const bool chosen = choose_tag(coordinator);
    plock__leave();
    if (chosen) plock__channel_use_tag(&coordinator->channel);
}

/* Returns true if nothing is left to move. Otherwise sets *target to a node to move to. */
static bool settle(plock_coordinator *coordinator, plock_node **target) {
    plock__enter();
    *target = find_target(coordinator);
    if (!*target) coordinator->routes_seen = atomic_load(&routes_of(coordinator)->version);
    plock__leave();
    if (!*target) plock__reroute_tag(coordinator);
    return !*target;
}

plock_ns plock__reroute(plock_coordinator *coordinator, plock_ns now) {
    if (!routes_of(coordinator)) return PLOCK_NEVER;
    plock__enter();
    const bool seen = coordinator->routes_seen == atomic_load(&routes_of(coordinator)->version);
    plock__leave();
    plock_node *target;
    while (!seen && !settle(coordinator, &target)) {
        plock_coordinator *to, *start;
        plock_error ignored;
        /* plock__coordinator_find leaves the mutex held */
        if (plock__coordinator_find(target, &to, &start, &ignored)) return plock_after(now, RETRY);
        plock_wait_queue *empty = NULL;
        move_all(coordinator, to, &empty);
        plock__leave();
        plock__wait_queues_free(empty);
        if (start) plock__coordinator_start(start);
    }
    return PLOCK_NEVER;
}
