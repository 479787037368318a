/* The address of a store, and how to connect to it. */
#ifndef PLOCK_CONFIG_H
#define PLOCK_CONFIG_H

#include "plock/clock.h"
#include "plock/status.h"

typedef struct plock_config plock_config;

/* 366 days. */
#define PLOCK_FENCE_TTL_MAX (366 * 86400 * PLOCK_SECOND)

#define PLOCK_REPLICAS_MAX 100

/* Parses redis://, rediss:// (TLS) or unix:// with percent-encoded user and password, a database,
 * IPv6 literals in brackets and options in the query. Sentinels are named by redis+sentinel:// or
 * rediss+sentinel://, with commas between them and the primary's name behind them:
 * redis+sentinel://a:26379,b:26379/mymaster/0. Nodes of a cluster to start from are named by
 * redis+cluster://a:6379,b:6379 or rediss+cluster://. An error names the part that is wrong and
 * never repeats its text. Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_config_new(plock_config **config, const char *url,
                                             plock_error *error);

/* Sets one option by name; the value is text, as in the query of a URL:
 *
 *   username, password   not in a query: the URL has another place for them
 *   database             called "db" in a query
 *   connect_timeout      0.5   seconds for one connection: name lookup, TCP, TLS, AUTH
 *   command_timeout      0.5   seconds for one command
 *   attempt_timeout      0.2   seconds that the first attempt has, even if the acquire may not wait
 *   release_timeout      0.5   seconds that the caller waits for a release at most
 *   unavailable_timeout  1     seconds until an acquire that cannot reach the server gives up
 *   fence_ttl            3600  seconds that a fence outlives its lease, 0 to PLOCK_FENCE_TTL_MAX
 *   pool_size            16    connections at most, 1 to 1024
 *   replicas             0     replicas that must confirm a lease before it counts, 0 to
 *                              PLOCK_REPLICAS_MAX
 *   ca_file, ca_path, cert, key   PEM files for TLS
 *   verify               "peer" or "none"
 *   server_name          the name to verify; "": the host's
 *   sentinel_username, sentinel_password, sentinel_ca_file, sentinel_ca_path, sentinel_cert,
 *   sentinel_key, sentinel_verify, sentinel_server_name   the same for the sentinels; each one of
 *                        TLS is the servers' if it is not given, but ca_file and ca_path go
 *                        together, and so do cert and key; a query may have each of them
 *   sentinel_tls         "true" or "false": as the scheme of the URL says if not given
 *   encoding             "plain", or "marshal": the lock's value in the format of Ruby's Marshal
 *
 * Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_config_set(plock_config *config, const char *option,
                                             const char *value, plock_error *error);

/* The URL without user, password and options, for printing. */
const char *plock_config_display(const plock_config *config);

/* The sentinel with this number in the URL, counted from 0: its host and its port. Returns false if
 * there is none. */
bool plock_config_sentinel(const plock_config *config, unsigned number, const char **host,
                           const char **port);

/* The name by which the sentinels know the primary. NULL: the URL names no sentinels. */
const char *plock_config_primary_name(const plock_config *config);

/* Are sentinels asked over TLS? Returns false if the URL names none. */
bool plock_config_sentinel_tls(const plock_config *config);

/* Returns true for TLS with verify=none to the servers, to the sentinels, and to either of them.
 * The program should then log one warning. */
bool plock_config_unverified_servers(const plock_config *config);
bool plock_config_unverified_sentinels(const plock_config *config);
bool plock_config_unverified(const plock_config *config);

/* Does each connection to a server begin with SELECT, because the database is not 0? */
bool plock_config_selects(const plock_config *config);

/* Are the values of locks stored in the format of Ruby's Marshal? */
bool plock_config_marshals(const plock_config *config);

/* How many replicas must confirm a lease, if an acquire does not say it. */
unsigned plock_config_replicas(const plock_config *config);

/* Wipes the secrets. NULL is allowed. */
void plock_config_free(plock_config *config);

#endif
