/* The address of a store, and how to connect to it. */
#ifndef PLOCK_CONFIG_H
#define PLOCK_CONFIG_H

#include "plock/clock.h"
#include "plock/status.h"

typedef struct plock_config plock_config;

#define PLOCK_FENCE_TTL_MAX (366 * 86400 * PLOCK_SECOND)

#define PLOCK_REPLICAS_MAX 100

/* Parses a URL that begins with redis://, rediss:// (TLS) or unix://. It may contain a
 * percent-encoded user and password, a database, IPv6 literals in brackets, and options in the
 * query. A URL with redis+sentinel:// or rediss+sentinel:// lists sentinels and then names the
 * primary, as in redis+sentinel://a:26379,b:26379/mymaster/0. A URL with redis+cluster:// or
 * rediss+cluster:// lists some nodes of a cluster, as in redis+cluster://a:6379,b:6379.
 *
 * An error names the wrong part of the URL, and never repeats the text of that part. Returns
 * PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_config_new(plock_config **config, const char *url,
                                             plock_error *error);

/* Sets one option by its name. The value is text, as in the query of a URL. The numbers in this
 * list are the defaults:
 *
 *   username, password   not allowed in a query, because the URL has its own place for them.
 *   database             called "db" in a query.
 *   connect_timeout      0.5   seconds to open one connection: name lookup, TCP, TLS, AUTH.
 *   command_timeout      0.5   seconds for one command.
 *   attempt_timeout      0.2   seconds for the first attempt, even if `wait` is 0.
 *   release_timeout      0.5   the most seconds that a caller waits for a release.
 *   unavailable_timeout  1     seconds until an acquire that cannot reach the server gives up.
 *   fence_ttl            3600  seconds that a fence outlives its lease, 0 to PLOCK_FENCE_TTL_MAX.
 *   pool_size            16    the most connections, 1 to 1024.
 *   replicas             0     replicas that must confirm a lease before it counts, 0 to
 *                              PLOCK_REPLICAS_MAX.
 *   ca_file, ca_path, cert, key   PEM files for TLS.
 *   verify               "peer" or "none".
 *   server_name          the name that the server's certificate must have; "": the host's name.
 *   sentinel_username, sentinel_password, sentinel_ca_file, sentinel_ca_path, sentinel_cert,
 *   sentinel_key, sentinel_verify, sentinel_server_name   the same options for the sentinels. All
 *                        of them are allowed in a query. If a TLS option for the sentinels is
 *                        missing, the servers' option also applies to the sentinels. But if
 *                        sentinel_ca_file or sentinel_ca_path is given, neither ca_file nor ca_path
 *                        applies to them, and the default of sentinel_verify is "peer". If
 *                        sentinel_cert is given, the servers' key does not apply either.
 *   sentinel_tls         "true" or "false"; the default follows the URL's scheme.
 *   encoding             "plain", or "marshal": lock values in the format of Ruby's Marshal.
 *                        Not allowed in a query.
 *
 * Returns PLOCK_OK, PLOCK_BAD_CONFIG or PLOCK_NO_MEMORY. */
PLOCK_MUST_USE plock_status plock_config_set(plock_config *config, const char *option,
                                             const char *value, plock_error *error);

/* Returns the URL without user, password and options, for printing. */
const char *plock_config_display(const plock_config *config);

/* Finds the host and port of the sentinel with this number in the URL, counted from 0. Returns
 * false if there is no such sentinel. */
bool plock_config_sentinel(const plock_config *config, unsigned number, const char **host,
                           const char **port);

/* Returns the name by which the sentinels know the primary, or NULL if the URL names no
 * sentinels. */
const char *plock_config_primary_name(const plock_config *config);

/* Returns true if connections to the sentinels use TLS, and false if the URL names no sentinels. */
bool plock_config_sentinel_tls(const plock_config *config);

/* Return true if connections to the servers, or to the sentinels, use TLS without verifying
 * certificates (verify is "none"). The program should then log one warning. */
bool plock_config_unverified_servers(const plock_config *config);
bool plock_config_unverified_sentinels(const plock_config *config);

/* Returns true if each connection to a server begins with SELECT, because the database is not 0. */
bool plock_config_selects(const plock_config *config);

/* Returns true if the values of locks are stored in the format of Ruby's Marshal. */
bool plock_config_marshals(const plock_config *config);

/* Returns how many replicas must confirm a lease if its acquire gives no number. */
unsigned plock_config_replicas(const plock_config *config);

/* Wipes the secrets. NULL is allowed. */
void plock_config_free(plock_config *config);

#endif
