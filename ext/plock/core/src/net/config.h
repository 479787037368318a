/* The fields of plock_config, for the code that connects. */
#ifndef PLOCK__CONFIG_H
#define PLOCK__CONFIG_H

#include "plock/config.h"

typedef enum plock_scheme { PLOCK_TCP, PLOCK_TLS_OVER_TCP, PLOCK_UNIX } plock_scheme;
typedef enum plock_encoding { PLOCK_PLAIN, PLOCK_MARSHAL } plock_encoding;

struct plock_config {
    plock_scheme scheme;
    char *host;                           /* for TCP; an IPv6 literal has no brackets */
    char port[6];                         /* as text, for getaddrinfo */
    char *path;                           /* of the Unix socket */
    char *username, *password, *database; /* NULL: not given */
    char *ca_file, *ca_path, *cert, *key, *server_name;
    bool unverified;
    plock_encoding encoding;
    unsigned pool_size;
    plock_ns connect_timeout, command_timeout, attempt_timeout, release_timeout;
    plock_ns unavailable_timeout, fence_ttl;
    char *display;
};

/* Checks whether the options fit together. Returns PLOCK_OK or PLOCK_BAD_CONFIG. */
PLOCK_MUST_USE plock_status plock__config_check(const plock_config *config, plock_error *error);

#endif
