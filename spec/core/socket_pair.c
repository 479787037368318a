#include "socket_pair.h"

#include "loopback.h"
#include "test.h"

#include "base/memory.h"

#include <stdio.h>
#include <unistd.h>

void socket_pair_begin(socket_pair *pair) {
    char port[LOOPBACK_PORT_ROOM], url[64];
    *pair = (socket_pair){.listener = loopback_listen("127.0.0.1", 8, port)};
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%s", port);
    CHECK_STATUS(plock_config_new(&pair->config, url, &pair->error), PLOCK_OK);
    pair->resolver =
        (plock_resolver){.host = pair->config->server.host, .port = pair->config->server.port};
    pair->transport = plock__socket_transport(pair->config, &pair->resolver);
    const plock_ns deadline = plock_now() + 10 * PLOCK_SECOND;
    plock_status status;
    while ((status = pair->transport->does->connect(pair->transport, deadline, &pair->interest,
                                                    &pair->error)) == PLOCK_AGAIN)
        (void)plock_wait_poll(NULL, &pair->interest);
    CHECK_STATUS(status, PLOCK_OK);
    pair->peer = loopback_accept(pair->listener, true);
}

void socket_pair_end(socket_pair *pair) {
    pair->transport->does->destroy(pair->transport);
    plock_config_free(pair->config);
    CHECK_INT(plock__live_allocations(), 0);
    if (pair->peer >= 0) CHECK(close(pair->peer) == 0);
    CHECK(close(pair->listener) == 0);
}
