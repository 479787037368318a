/* Where a store is and how it is to be spoken to. */
#ifndef PLOCK_CONFIG_H
#define PLOCK_CONFIG_H

#include "plock/clock.h"
#include "plock/status.h"

typedef struct plock_config plock_config;

/* 366 days. */
#define PLOCK_FENCE_TTL_MAX (366 * 86400 * PLOCK_SECOND)

/* Reads redis://, rediss:// (TLS) or unix:// with user and password percent-decoded, a database,
 * IPv6 literals in brackets and options in the query. Where it is wrong, error names the part and
 * never repeats its text. Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_config_new(plock_config **config, const char *url,
                                             plock_error *error);

/* Sets one option by name; the value is text, as in the query of a URL:
 *
 *   username, password, database      who we are, and where (not in a query: they have their place
 * in the URL; "db" is) connect_timeout 0.5               seconds for one connection: name, TCP,
 * TLS, AUTH command_timeout 0.5               seconds for one command attempt_timeout 0.2 seconds
 * that the first attempt of a call always has, whatever its patience release_timeout 0.5 seconds
 * that giving a lease back may take the caller unavailable_timeout 1             seconds after
 * which an acquire gives up that cannot reach the server at all fence_ttl 3600 seconds, 0 to
 * PLOCK_FENCE_TTL_MAX, that a key's fence is kept after its lease pool_size 16 connections at most,
 * 1 to 1024 ca_file, ca_path, cert, key       PEM files for TLS; verify: "peer" or "none";
 * server_name: the name to verify encoding                          "plain", or "marshal": the
 * lock's value as Ruby's Marshal writes it
 *
 * Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_config_set(plock_config *config, const char *option,
                                             const char *value, plock_error *error);

/* The URL without user, password and options, to be printed. */
const char *plock_config_display(const plock_config *config);

/* True for rediss:// with verify=none: whoever opens such a store should say so once. */
bool plock_config_unverified(const plock_config *config);

/* Does the lock's value stand in the store as Ruby's Marshal writes it? */
bool plock_config_marshals(const plock_config *config);

/* Secrets are wiped. NULL is allowed. */
void plock_config_free(plock_config *config);

#endif
