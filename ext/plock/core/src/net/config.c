#include "net/config.h"

#include "base/failure.h"
#include "base/memory.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 4096, POOL_MAX = 1024 };

/* --- the URL that may be printed --- */

static plock_status make_display(plock_config *config) {
    const char *parts[8] = {0};
    const bool v6 = config->host && strchr(config->host, ':');
    if (!config->path && !config->host) return PLOCK_OK; /* the URL is still being read */
    size_t length = 0, n = 0;
    parts[n++] = config->scheme == PLOCK_UNIX  ? "unix://"
                 : config->scheme == PLOCK_TCP ? "redis://"
                                               : "rediss://";
    if (v6) parts[n++] = "[";
    parts[n++] = config->path ? config->path : config->host;
    if (config->host) {
        parts[n++] = v6 ? "]:" : ":";
        parts[n++] = config->port;
    }
    if (config->database) {
        parts[n++] = config->path ? "?db=" : "/";
        parts[n++] = config->database;
    }
    for (size_t i = 0; i < n; i++) length += strlen(parts[i]);
    char *display = plock__allocate(length + 1);
    if (!display) return PLOCK_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        strcat(display, parts[i]); /* the loop above measured all parts */
    for (char *c = display; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?'; /* a path may hold any byte, even a line feed */
    plock__free(config->display);
    config->display = display;
    return PLOCK_OK;
}

/* --- options --- */

typedef plock_status setter(void *field, const char *name, const char *value, plock_error *error);

static plock_status set_text(void *field, const char *name, const char *value, plock_error *error) {
    if (strlen(value) > TEXT_MAX)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: longer than %d bytes", name, TEXT_MAX);
    char *copy = plock__copy(value, strlen(value));
    if (!copy) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    char **text = field;
    plock__free_secret(*text);
    *text = copy;
    return PLOCK_OK;
}

static plock_status set_database(void *field, const char *name, const char *value,
                                 plock_error *error) {
    const size_t digits = strspn(value, "0123456789");
    if (!digits || value[digits] || digits > 9)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: not a database number", name);
    return set_text(field, name, value, error);
}

/* Returns false if the value is not a decimal number of seconds or is far too large. */
static bool read_seconds(const char *value, plock_ns *seconds) {
    enum { WHOLE_MAX = 100000000 };
    /* strtod accepts more than decimal numbers, and its decimal point depends on the locale */
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

static plock_status set_pool_size(void *field, const char *name, const char *value,
                                  plock_error *error) {
    char *end;
    errno = 0;
    const long size = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : 0;
    if (size < 1 || size > POOL_MAX || errno || *end)
        return plock__fail(error, PLOCK_BAD_CONFIG, "%s: not a number from 1 to %d", name,
                           POOL_MAX);
    *(unsigned *)field = (unsigned)size;
    return PLOCK_OK;
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

static const struct option {
    const char *name;
    setter *set;
    size_t field;
    bool in_query;
} OPTIONS[] = {
#define FIELD(name) offsetof(struct plock_config, name)
    {"username", set_text, FIELD(username), false},
    {"password", set_text, FIELD(password), false},
    {"database", set_database, FIELD(database), false},
    {"db", set_database, FIELD(database), true},
    {"connect_timeout", set_seconds, FIELD(connect_timeout), true},
    {"command_timeout", set_seconds, FIELD(command_timeout), true},
    {"attempt_timeout", set_seconds, FIELD(attempt_timeout), true},
    {"release_timeout", set_seconds, FIELD(release_timeout), true},
    {"unavailable_timeout", set_seconds, FIELD(unavailable_timeout), true},
    {"fence_ttl", set_fence_ttl, FIELD(fence_ttl), true},
    {"pool_size", set_pool_size, FIELD(pool_size), true},
    {"ca_file", set_text, FIELD(ca_file), true},
    {"ca_path", set_text, FIELD(ca_path), true},
    {"cert", set_text, FIELD(cert), true},
    {"key", set_text, FIELD(key), true},
    {"verify", set_verify, FIELD(unverified), true},
    {"server_name", set_text, FIELD(server_name), true},
    {"encoding", set_encoding, FIELD(encoding), false},
#undef FIELD
};

static const struct option *find_option(const char *name) {
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++)
        if (!strcmp(OPTIONS[i].name, name)) return &OPTIONS[i];
    return NULL;
}

plock_status plock_config_set(plock_config *config, const char *name, const char *value,
                              plock_error *error) {
    const struct option *option = find_option(name);
    if (!option) return plock__fail(error, PLOCK_BAD_CONFIG, "%s: no such option", name);
    const plock_status status = option->set((char *)config + option->field, name, value, error);
    return status || !make_display(config) ? status : plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

/* --- the URL --- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Decodes in place. Refuses an encoded NUL, which would silently cut the text short. */
static bool percent_decode(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        const int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || high * 16 + low == 0) return false;
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = 0;
    return true;
}

static plock_status wrong(plock_error *error, const char *what) {
    return plock__fail(error, PLOCK_BAD_CONFIG, "the store's URL: %s", what);
}

#define UNESCAPED                                                                                  \
    " (in a password @ is written %40, / is %2F, : is %3A, ? is %3F, # is %23, % is %25)"

static plock_status set_decoded(plock_config *config, const char *name, char *value,
                                plock_error *error) {
    if (!percent_decode(value))
        return plock__fail(error, PLOCK_BAD_CONFIG,
                           "the store's URL: %s has a broken percent escape", name);
    return plock_config_set(config, name, value, error);
}

static plock_status parse_user(plock_config *config, char *text, plock_error *error) {
    if (text[strcspn(text, "[]")])
        return wrong(error,
                     "the user or password has an unescaped bracket ([ is written %5B, ] is %5D)");
    char *password = strchr(text, ':');
    if (password) *password++ = 0;
    if (password && strchr(password, ':'))
        return wrong(error, "the password has an unescaped character" UNESCAPED);
    plock_status status = *text ? set_decoded(config, "username", text, error) : PLOCK_OK;
    if (!status && password && *password) status = set_decoded(config, "password", password, error);
    return status;
}

static plock_status parse_query(plock_config *config, char *query, plock_error *error) {
    if (strchr(query, '@')) return wrong(error, "an @ among the options" UNESCAPED);
    for (char *item = query, *next; item; item = next) {
        next = strchr(item, '&');
        if (next) *next++ = 0;
        if (!*item) continue;
        char *value = strchr(item, '=');
        if (value) *value++ = 0;
        const struct option *option = find_option(item);
        if (!option || !option->in_query) {
            const bool printable = item[strspn(item, "abcdefghijklmnopqrstuvwxyz_")] == 0;
            return plock__fail(error, PLOCK_BAD_CONFIG, "the store's URL: unknown option %.32s",
                               printable ? item : "(not printed)");
        }
        if (!value)
            return plock__fail(error, PLOCK_BAD_CONFIG, "the store's URL: option %s has no value",
                               item);
        if (!percent_decode(value))
            return plock__fail(error, PLOCK_BAD_CONFIG,
                               "the store's URL: option %s has a broken percent escape", item);
        const plock_status status = option->set((char *)config + option->field, item, value, error);
        if (status) return status;
    }
    return PLOCK_OK;
}

/* host, host:port, [v6], [v6]:port */
static plock_status parse_host(plock_config *config, char *text, plock_error *error) {
    char *port = NULL, *host = text;
    if (*text == '[') {
        char *end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':'))
            return wrong(error, "an IPv6 address without its closing bracket");
        *end = 0;
        host = text + 1;
        if (end[1]) port = end + 2;
        if (!*host || host[strspn(host, "0123456789abcdefABCDEF:.%")])
            return wrong(error, "what stands in brackets is no IPv6 address");
    } else if ((port = strchr(text, ':'))) {
        *port++ = 0;
        if (strchr(port, ':'))
            return wrong(error, "more than one colon after the host (an IPv6 address stands in "
                                "brackets; is a password unescaped?)" UNESCAPED);
    }
    if (!*host) return wrong(error, "the host is missing");
    if (port) {
        const size_t digits = strspn(port, "0123456789");
        const long number = digits && digits <= 5 && !port[digits] ? strtol(port, NULL, 10) : 0;
        if (number < 1 || number > 65535)
            return wrong(error,
                         "the port is not a number from 1 to 65535 (is a password unescaped?)");
        (void)snprintf(config->port, sizeof config->port, "%u", (unsigned)number & 0xffff);
    }
    if (!percent_decode(host)) return wrong(error, "the host has a broken percent escape");
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || *c == '@' || *c == '/' || *c == 127)
            return wrong(error, "the host has a character that no host name has");
    return set_text(&config->host, "the store's URL: host", host, error);
}

static plock_status parse_address(plock_config *config, char *rest, plock_error *error) {
    if (config->scheme == PLOCK_UNIX) {
        if (*rest != '/') return wrong(error, "unix:// wants an absolute path");
        if (!percent_decode(rest)) return wrong(error, "the path has a broken percent escape");
        return set_text(&config->path, "the store's URL: path", rest, error);
    }
    char *database = strchr(rest, '/');
    if (database) *database++ = 0;
    plock_status status = parse_host(config, rest, error);
    if (!status && database && *database) {
        if (strchr(database, '@')) return wrong(error, "an @ after the host" UNESCAPED);
        status = set_database(&config->database, "the store's URL: what follows the host", database,
                              error);
    }
    return status;
}

static plock_status parse(plock_config *config, char *url, plock_error *error) {
    static const struct {
        const char *text;
        plock_scheme scheme;
    } SCHEMES[] = {
        {"redis://", PLOCK_TCP}, {"rediss://", PLOCK_TLS_OVER_TCP}, {"unix://", PLOCK_UNIX}};
    char *rest = NULL;
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++)
        if (!strncmp(url, SCHEMES[i].text, strlen(SCHEMES[i].text))) {
            config->scheme = SCHEMES[i].scheme;
            rest = url + strlen(SCHEMES[i].text);
        }
    if (!rest)
        return wrong(error,
                     "unknown scheme; known are redis://, rediss://, unix://, local: and memory:");
    if (strchr(rest, '#')) return wrong(error, "an unescaped #" UNESCAPED);
    char *query = strchr(rest, '?');
    if (query) *query++ = 0;
    plock_status status = query ? parse_query(config, query, error) : PLOCK_OK;
    if (status) return status;
    /* If there is an @ before the first slash, user and password stand before it. */
    char *at = rest + strcspn(rest, "@/");
    if (*at == '@') {
        *at++ = 0;
        status = parse_user(config, rest, error);
        if (status) return status;
        if (strchr(at, '@') && config->scheme != PLOCK_UNIX)
            return wrong(error, "more than one @" UNESCAPED);
        rest = at;
    }
    return parse_address(config, rest, error);
}

/* --- life --- */

plock_status plock_config_new(plock_config **out, const char *url, plock_error *error) {
    *out = NULL;
    plock_config *config = plock__allocate(sizeof *config);
    /* a copy that is parsed in place and then wiped, because it has the password */
    char *scratch = config ? plock__copy(url, strlen(url)) : NULL;
    if (!scratch) {
        plock__free(config);
        return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
    const size_t length = strlen(url);
    config->connect_timeout = config->command_timeout = config->release_timeout = PLOCK_SECOND / 2;
    config->attempt_timeout = PLOCK_SECOND / 5;
    config->unavailable_timeout = PLOCK_SECOND;
    config->fence_ttl = 3600 * PLOCK_SECOND;
    config->pool_size = 16;
    memcpy(config->port, "6379", sizeof "6379");
    plock_status status =
        length > TEXT_MAX ? wrong(error, "longer than 4096 bytes") : parse(config, scratch, error);
    plock__wipe(scratch, length);
    plock__free(scratch);
    if (!status && make_display(config)) status = plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (status)
        plock_config_free(config);
    else
        *out = config;
    return status;
}

const char *plock_config_display(const plock_config *config) { return config->display; }

plock_status plock__config_check(const plock_config *config, plock_error *error) {
    if (config->username && !config->password)
        return plock__fail(error, PLOCK_BAD_CONFIG, "username: given without password");
    if (config->key && !config->cert)
        return plock__fail(error, PLOCK_BAD_CONFIG, "key: given without cert");
    return PLOCK_OK;
}

bool plock_config_unverified(const plock_config *config) {
    return config->scheme == PLOCK_TLS_OVER_TCP && config->unverified;
}

bool plock_config_marshals(const plock_config *config) { return config->encoding == PLOCK_MARSHAL; }

void plock_config_free(plock_config *config) {
    if (!config) return;
    plock__free_secret(config->password);
    char *texts[] = {config->host,        config->path,    config->username, config->database,
                     config->ca_file,     config->ca_path, config->cert,     config->key,
                     config->server_name, config->display};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) plock__free(texts[i]);
    plock__free(config);
}
