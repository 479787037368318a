#include "net/judge.h"

#include "base/failure.h"

#include <stdio.h>
#include <string.h>

static bool says(const plock_value *value, const char *text) {
    return value->type == PLOCK__STRING && value->length == strlen(text) &&
           !memcmp(value->text, text, value->length);
}

/* The answer to HELLO is a list of names and values. A server that names no mode is accepted. */
plock_status plock__judge_server(const plock_config *config, const plock_value *answer,
                                 plock_error *error) {
    for (size_t i = 0; answer->type == PLOCK__ARRAY && i + 1 < answer->length; i += 2) {
        const plock_value *name = plock__element(answer, i, PLOCK__STRING);
        const plock_value *mode =
            name && says(name, "mode") ? plock__element(answer, i + 1, PLOCK__STRING) : NULL;
        if (mode && config->is_sentinel && !says(mode, "sentinel"))
            return plock__fail(error, PLOCK_BAD_CONFIG,
                               "this is a Redis server and no sentinel: the scheme of its URL is "
                               "redis:// or rediss://");
        if (mode && says(mode, "cluster") && !config->cluster)
            return plock__fail_plainly(error, PLOCK_CLUSTER);
        if (mode && says(mode, "standalone") && config->cluster)
            return plock__fail(error, PLOCK_BAD_CONFIG,
                               "this is a Redis server that stands alone, and no node of a "
                               "cluster: the scheme of its URL is redis:// or rediss://");
        if (mode && says(mode, "sentinel") && !config->is_sentinel)
            return plock__fail_plainly(error, PLOCK_SENTINEL);
    }
    return PLOCK_OK;
}

plock_status plock__judge_role(const plock_value *answer, plock_error *error) {
    const plock_value *role = plock__element(answer, 0, PLOCK__STRING);
    if (role && says(role, "master")) return PLOCK_OK;
    return plock__fail(error, PLOCK_READONLY,
                       "the server that the sentinels name is no primary at the moment");
}

static bool has(const plock_value *value, const char *words) {
    char text[PLOCK_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%.*s", (int)value->length, value->text);
    return strstr(text, words);
}

/* The first message is from Redis before version 6, the second from later versions. */
bool plock__judge_no_password(const plock_value *value) {
    return has(value, "Client sent AUTH, but no password is set") ||
           has(value, "called without any password configured");
}
