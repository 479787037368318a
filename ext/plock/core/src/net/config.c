#include "net/config.h"

#include "base/failure.h"
#include "base/memory.h"
#include "base/process.h"
#include "net/transport.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_MAX = 1024 };

/* --- options --- */

typedef plock_status setter(void *field, const char *name, const char *value, plock_error *error);

plock_status plock__config_text(char **field, const char *name, const char *value,
                                plock_error *error) {
    if (strlen(value) > PLOCK__CONFIG_TEXT_MAX)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: longer than %d bytes", name,
                           PLOCK__CONFIG_TEXT_MAX);
    char *copy = plock__copy(value, strlen(value));
    if (!copy) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    plock__free_secret(*field);
    *field = copy;
    return PLOCK_OK;
}

static plock_status set_text(void *field, const char *name, const char *value, plock_error *error) {
    return plock__config_text(field, name, value, error);
}

plock_status plock__config_database(char **field, const char *name, const char *value,
                                    plock_error *error) {
    const size_t digits = strspn(value, "0123456789");
    if (!digits || value[digits] || digits > 9)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: not a database number", name);
    return plock__config_text(field, name, value, error);
}

static plock_status set_database(void *field, const char *name, const char *value,
                                 plock_error *error) {
    return plock__config_database(field, name, value, error);
}

/* Returns false if the value is not a decimal number of seconds or is far too large. */
static bool read_seconds(const char *value, plock_ns *seconds) {
    enum { WHOLE_MAX = 100000000 };
    /* strtod is not used, because it accepts more than decimal numbers, and its decimal point
     * depends on the locale */
    const char *c = value;
    plock_ns whole = 0, part = 0, unit = PLOCK_SECOND;
    for (; *c >= '0' && *c <= '9' && whole < WHOLE_MAX; c++) whole = whole * 10 + (*c - '0');
    if (c != value && *c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++) part += (unit /= 10) * (*c - '0');
    *seconds = whole * PLOCK_SECOND + part;
    return c != value && !*c;
}

static plock_status set_seconds(void *field, const char *name, const char *value,
                                plock_error *error) {
    plock_ns seconds;
    if (!read_seconds(value, &seconds) || seconds < PLOCK_MILLISECOND ||
        seconds > 3600 * PLOCK_SECOND)
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "%s: not a number of seconds from 0.001 to 3600", name);
    *(plock_ns *)field = seconds;
    return PLOCK_OK;
}

static plock_status set_fence_ttl(void *field, const char *name, const char *value,
                                  plock_error *error) {
    plock_ns seconds;
    if (!read_seconds(value, &seconds) || seconds > PLOCK_FENCE_TTL_MAX)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: not a number of seconds from 0 to %lld",
                           name, (long long)(PLOCK_FENCE_TTL_MAX / PLOCK_SECOND));
    *(plock_ns *)field = seconds;
    return PLOCK_OK;
}

static plock_status set_number(unsigned *field, const char *name, const char *value, long least,
                               long most, plock_error *error) {
    char *end;
    errno = 0;
    const long number = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : -1;
    if (number < least || number > most || errno || *end)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: not a number from %ld to %ld", name, least,
                           most);
    *field = (unsigned)number;
    return PLOCK_OK;
}

static plock_status set_pool_size(void *field, const char *name, const char *value,
                                  plock_error *error) {
    return set_number(field, name, value, 1, POOL_MAX, error);
}

static plock_status set_replicas(void *field, const char *name, const char *value,
                                 plock_error *error) {
    return set_number(field, name, value, 0, PLOCK_REPLICAS_MAX, error);
}

static plock_status set_verify(void *field, const char *name, const char *value,
                               plock_error *error) {
    if (strcmp(value, "peer") && strcmp(value, "none"))
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: neither peer nor none", name);
    *(bool *)field = !strcmp(value, "none");
    return PLOCK_OK;
}

static plock_status set_encoding(void *field, const char *name, const char *value,
                                 plock_error *error) {
    if (strcmp(value, "plain") && strcmp(value, "marshal"))
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: neither plain nor marshal", name);
    *(plock_encoding *)field = strcmp(value, "plain") ? PLOCK_MARSHAL : PLOCK_PLAIN;
    return PLOCK_OK;
}

static plock_status set_tls(void *field, const char *name, const char *value, plock_error *error) {
    if (strcmp(value, "true") && strcmp(value, "false"))
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: neither true nor false", name);
    *(plock_scheme *)field = strcmp(value, "true") ? PLOCK_TCP : PLOCK_TLS_OVER_TCP;
    return PLOCK_OK;
}

/* Flags: the places in which an option is allowed, and whether the option concerns the verification
 * of certificates. */
enum { IN_QUERY = 1, OF_SENTINELS = 2, NOT_OF_SERVERS = 4, OF_VERIFYING = 8 };

static const struct option {
    const char *name;
    setter *set;
    size_t field;
    unsigned allowed;
} OPTIONS[] = {
#define FIELD(name) offsetof(struct plock_config, name)
    {"username", set_text, FIELD(username), OF_SENTINELS},
    {"password", set_text, FIELD(password), OF_SENTINELS},
    {"database", set_database, FIELD(database), 0},
    {"db", set_database, FIELD(database), IN_QUERY},
    {"connect_timeout", set_seconds, FIELD(connect_timeout), IN_QUERY},
    {"command_timeout", set_seconds, FIELD(command_timeout), IN_QUERY},
    {"attempt_timeout", set_seconds, FIELD(attempt_timeout), IN_QUERY},
    {"release_timeout", set_seconds, FIELD(release_timeout), IN_QUERY},
    {"unavailable_timeout", set_seconds, FIELD(unavailable_timeout), IN_QUERY},
    {"fence_ttl", set_fence_ttl, FIELD(fence_ttl), IN_QUERY},
    {"pool_size", set_pool_size, FIELD(pool_size), IN_QUERY},
    {"replicas", set_replicas, FIELD(replicas), IN_QUERY},
    {"ca_file", set_text, FIELD(ca_file), IN_QUERY | OF_SENTINELS | OF_VERIFYING},
    {"ca_path", set_text, FIELD(ca_path), IN_QUERY | OF_SENTINELS | OF_VERIFYING},
    {"cert", set_text, FIELD(cert), IN_QUERY | OF_SENTINELS},
    {"key", set_text, FIELD(key), IN_QUERY | OF_SENTINELS},
    {"verify", set_verify, FIELD(unverified), IN_QUERY | OF_SENTINELS | OF_VERIFYING},
    {"server_name", set_text, FIELD(server_name), IN_QUERY | OF_SENTINELS},
    {"tls", set_tls, FIELD(scheme), OF_SENTINELS | NOT_OF_SERVERS},
    {"encoding", set_encoding, FIELD(encoding), 0},
#undef FIELD
};

static const char SENTINEL[] = "sentinel_";

static bool is_for_sentinels(const char *name) {
    return !strncmp(name, SENTINEL, sizeof SENTINEL - 1);
}

static const struct option *find_option(const char *name) {
    const bool sentinels = is_for_sentinels(name);
    const char *plain = sentinels ? name + sizeof SENTINEL - 1 : name;
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        const unsigned allowed = OPTIONS[i].allowed;
        if (!strcmp(OPTIONS[i].name, plain))
            return (sentinels ? allowed & OF_SENTINELS : !(allowed & NOT_OF_SERVERS)) ? &OPTIONS[i]
                                                                                      : NULL;
    }
    return NULL;
}

bool plock__config_in_query(const char *name) {
    const struct option *option = find_option(name);
    return option && (option->allowed & IN_QUERY || is_for_sentinels(name));
}

plock_status plock__config_option(plock_config *config, const char *name, const char *value,
                                  plock_error *error) {
    const struct option *option = find_option(name);
    if (!option) return plock__fail(error, PLOCK_BAD_CONFIG, "%s: no such option", name);
    plock_config *of = config;
    if (is_for_sentinels(name)) {
        if (!config->sentinels)
            return plock__fail(error, PLOCK_BAD_CONFIG, "%s: the URL names no sentinels", name);
        of = config->sentinels->config;
        if (option->allowed & OF_VERIFYING) config->sentinels->own_verify = true;
    }
    return option->set((char *)of + option->field, name, value, error);
}

plock_status plock_config_set(plock_config *config, const char *name, const char *value,
                              plock_error *error) {
    const plock_status status = plock__config_option(config, name, value, error);
    return status || !plock__config_write_url(config) ? status
                                                      : plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

/* --- lifecycle --- */

static plock_config *new_config(plock_scheme scheme) {
    plock_config *config = plock__allocate(sizeof *config);
    if (!config) return NULL;
    config->references = 1;
    config->scheme = scheme;
    config->connect_timeout = config->command_timeout = config->release_timeout = PLOCK_SECOND / 2;
    config->attempt_timeout = PLOCK_SECOND / 5;
    config->unavailable_timeout = PLOCK_SECOND;
    config->fence_ttl = 3600 * PLOCK_SECOND;
    config->pool_size = 16;
    memcpy(config->server.port, "6379", sizeof "6379");
    return config;
}

plock_status plock__config_expect_sentinels(plock_config *config, plock_error *error) {
    plock_sentinels *sentinels = plock__allocate(sizeof *sentinels);
    if (!sentinels) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    config->sentinels = sentinels;
    sentinels->config = new_config(config->scheme);
    if (!sentinels->config) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    sentinels->config->is_sentinel = true;
    return PLOCK_OK;
}

plock_status plock_config_new(plock_config **out, const char *url, plock_error *error) {
    *out = NULL;
    plock_config *config = new_config(PLOCK_TCP);
    /* a copy that is parsed in place and then wiped, because it contains the password */
    char *scratch = config ? plock__copy(url, strlen(url)) : NULL;
    if (!scratch) {
        plock__free(config);
        return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
    plock_status status = plock__config_parse(config, scratch, error);
    plock__wipe(scratch, strlen(url));
    plock__free(scratch);
    if (!status && plock__config_write_url(config))
        status = plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (status)
        plock_config_free(config);
    else
        *out = config;
    return status;
}

plock_config *plock__config_retain(plock_config *config) {
    plock__enter();
    config->references++;
    plock__leave();
    return config;
}

const char *plock__config_tls_question(const plock_config *config) {
    return config->scheme == PLOCK_TLS_OVER_TCP ? ": do they speak TLS?" : "";
}

const char *plock_config_display(const plock_config *config) { return config->display; }

bool plock_config_sentinel(const plock_config *config, unsigned number, const char **host,
                           const char **port) {
    const plock_sentinels *sentinels = config->sentinels;
    if (!sentinels || number >= sentinels->places.count) return false;
    *host = sentinels->places.list[number].host;
    *port = sentinels->places.list[number].port;
    return true;
}

bool plock_config_selects(const plock_config *config) {
    return config->database && strcmp(config->database, "0");
}

const char *plock_config_primary_name(const plock_config *config) {
    return config->sentinels ? config->sentinels->primary : NULL;
}

bool plock_config_sentinel_tls(const plock_config *config) {
    return config->sentinels && config->sentinels->config->scheme == PLOCK_TLS_OVER_TCP;
}

static plock_status copy_text(char **to, const char *from, plock_error *error) {
    return from ? plock__config_text(to, "an option", from, error) : PLOCK_OK;
}

/* TLS options that are not given for the sentinels are copied from those for the servers. ca_file
 * and ca_path are copied together, and so are the certificate and its key. */
static plock_status inherit_tls(plock_config *to, const plock_config *from, plock_error *error) {
    const bool trusts = to->ca_file || to->ca_path;
    plock_status status = trusts ? PLOCK_OK : copy_text(&to->ca_file, from->ca_file, error);
    if (!status && !trusts) status = copy_text(&to->ca_path, from->ca_path, error);
    if (!status && !to->cert) {
        status = copy_text(&to->key, from->key, error);
        if (!status) status = copy_text(&to->cert, from->cert, error);
    }
    if (!status && !to->server_name) status = copy_text(&to->server_name, from->server_name, error);
    return status;
}

static plock_status inherit(plock_config *config, plock_error *error) {
    const plock_sentinels *sentinels = config->sentinels;
    plock_config *to = sentinels->config;
    to->connect_timeout = config->connect_timeout;
    to->command_timeout = config->command_timeout;
    if (!sentinels->own_verify) to->unverified = config->unverified;
    return to->scheme == PLOCK_TLS_OVER_TCP ? inherit_tls(to, config, error) : PLOCK_OK;
}

plock_status plock__config_check(plock_config *config, plock_error *error) {
    const char *prefix = config->is_sentinel ? SENTINEL : "";
    if (config->username && !config->password)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%susername: given without %spassword", prefix,
                           prefix);
    if (config->key && !config->cert)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%skey: given without %scert", prefix, prefix);
    if (config->cluster && config->database && config->database[strspn(config->database, "0")])
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "database: a Redis Cluster has only the database 0");
    if (!config->sentinels) return PLOCK_OK;
    const plock_status status = plock__config_check(config->sentinels->config, error);
    return status ? status : inherit(config, error);
}

bool plock_config_unverified_servers(const plock_config *config) {
    return config->scheme == PLOCK_TLS_OVER_TCP && config->unverified;
}

bool plock_config_unverified_sentinels(const plock_config *config) {
    return config->sentinels && plock_config_unverified_servers(config->sentinels->config);
}

unsigned plock_config_replicas(const plock_config *config) { return config->replicas; }

bool plock_config_marshals(const plock_config *config) { return config->encoding == PLOCK_MARSHAL; }

static void free_hosts(const plock_endpoints *places) {
    for (unsigned i = 0; places && i < places->count; i++) plock__free(places->list[i].host);
}

void plock_config_free(plock_config *config) {
    if (!config) return;
    if (!plock__drop_reference(&config->references)) return;
    if (config->sentinels) {
        free_hosts(&config->sentinels->places);
        plock__free(config->sentinels->primary);
        plock_config_free(config->sentinels->config);
    }
    plock__free(config->sentinels);
    free_hosts(config->cluster);
    plock__free(config->cluster);
    plock__tls_context_free(config->tls);
    plock__free_secret(config->password);
    char *texts[] = {config->server.host, config->path,    config->username, config->database,
                     config->ca_file,     config->ca_path, config->cert,     config->key,
                     config->server_name, config->display};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) plock__free(texts[i]);
    plock__free(config);
}
