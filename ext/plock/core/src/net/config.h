/* The fields of plock_config, for the code that connects. */
#ifndef PLOCK__CONFIG_H
#define PLOCK__CONFIG_H

#include "plock/config.h"

typedef enum plock_scheme { PLOCK_TCP, PLOCK_TLS_OVER_TCP, PLOCK_UNIX } plock_scheme;
typedef enum plock_encoding { PLOCK_PLAIN, PLOCK_MARSHAL } plock_encoding;

enum { PLOCK__ENDPOINTS_MAX = 16 }; /* hosts in one URL */

typedef struct plock_endpoint {
    char *host;   /* an IPv6 literal has no brackets */
    char port[6]; /* as text, for getaddrinfo */
} plock_endpoint;

typedef struct plock_endpoints {
    unsigned count;
    plock_endpoint list[PLOCK__ENDPOINTS_MAX];
} plock_endpoints;

/* The sentinels that know which server is the primary. */
typedef struct plock_sentinels {
    char *primary; /* the primary's name, which Sentinel calls the name of the master */
    plock_endpoints places;
    plock_config *config; /* how to connect to the sentinels; it has no host */
    bool own_verify;      /* Was any option given for verifying the sentinels' certificates? */
    /* Is the scheme redis-sentinel:// or rediss-sentinel://? If it is, a path that is only a number
     * is a database, and not the name of a primary. */
    bool of_lettuce;
} plock_sentinels;

struct plock_config {
    unsigned references; /* Protected by the mutex. */
    plock_scheme scheme;
    plock_endpoint server;      /* For TCP. Has no host if there are sentinels or a cluster. */
    char *path;                 /* The path of the Unix socket. */
    plock_sentinels *sentinels; /* NULL if the URL names none. */
    bool is_sentinel;           /* The server must be a sentinel. */
    plock_endpoints *cluster;   /* Some nodes of the cluster. NULL if there is no cluster. */
    char *username, *password, *database; /* NULL if not given. */
    char *ca_file, *ca_path, *cert, *key, *server_name;
    bool unverified;
    struct ssl_ctx_st *tls; /* Made for the first connection, and kept. Protected by the mutex. */
    plock_encoding encoding;
    unsigned pool_size, replicas;
    plock_ns connect_timeout, command_timeout, attempt_timeout, release_timeout;
    plock_ns unavailable_timeout, fence_ttl;
    char *display;
};

/* Checks whether the options fit together. Completes the sentinels' options with those of the
 * servers. Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__config_check(plock_config *config, plock_error *error);

/* Takes another reference, which plock_config_free gives back. */
plock_config *plock__config_retain(plock_config *config);

/* Returns the text that ends the error's message if no server answers in time. The text is a
 * question about TLS, or "" if the connections do not use TLS. */
const char *plock__config_tls_question(const plock_config *config);

/* Returns the scheme of a URL with TLS, or without TLS, for the same kind of store: one server,
 * sentinels or a cluster. */
const char *plock__config_scheme(const plock_config *config, bool tls);

/* --- for config_url.c --- */

enum { PLOCK__CONFIG_TEXT_MAX = 4096 };

/* Sets a field to a copy of the text. */
PLOCK_MUST_USE plock_status plock__config_text(char **field, const char *name, const char *value,
                                               plock_error *error);

/* Sets the field to a copy of `value`, which must be a database number. */
PLOCK_MUST_USE plock_status plock__config_database(char **field, const char *name,
                                                   const char *value, plock_error *error);

/* Is this option allowed in the query of a URL? */
bool plock__config_in_query(const char *name);
PLOCK_MUST_USE plock_status plock__config_option(plock_config *config, const char *name,
                                                 const char *value, plock_error *error);

/* Adds the options for sentinels to the config, with their defaults. Returns PLOCK_OK or
 * PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__config_expect_sentinels(plock_config *config,
                                                           plock_error *error);

/* Sets `display` to the URL without user, password and options. Does nothing while the URL is still
 * being read. Returns PLOCK_OK or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock__config_write_url(plock_config *config);

/* Reads the URL into the config. Changes the text of `url`. */
PLOCK_MUST_USE plock_status plock__config_parse(plock_config *config, char *url,
                                                plock_error *error);

#endif
