/* Reads and writes the URL of a store. No error repeats the URL's text, which may contain a
 * password. */
#include "net/config.h"

#include "base/failure.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Decodes the text in place. Refuses an encoded NUL, which would silently truncate the text. */
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

/* Is this the option in which Lettuce, a client for Java, gives the primary's name? */
static bool is_name_of_primary(const char *option) { return !strcmp(option, "sentinelMasterId"); }

static plock_status set_primary(plock_config *config, const char *name, plock_error *error) {
    if (!config->sentinels) return wrong(error, "sentinelMasterId without sentinels");
    if (!*name || name[strcspn(name, " \t\r\n/@")])
        return wrong(error, "the primary's name is empty or has a blank, a slash or an @");
    return plock__config_text(&config->sentinels->primary, "the store's URL: the primary's name",
                              name, error);
}

static plock_status parse_query(plock_config *config, char *query, plock_error *error) {
    if (strchr(query, '@')) return wrong(error, "an @ among the options" UNESCAPED);
    for (char *item = query, *next; item; item = next) {
        next = strchr(item, '&');
        if (next) *next++ = 0;
        if (!*item) continue;
        char *value = strchr(item, '=');
        if (value) *value++ = 0;
        if (!plock__config_in_query(item) && !is_name_of_primary(item)) {
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
        const plock_status status = is_name_of_primary(item)
                                        ? set_primary(config, value, error)
                                        : plock__config_option(config, item, value, error);
        if (status) return status;
    }
    return PLOCK_OK;
}

/* Parses host, host:port, [v6] or [v6]:port. */
static plock_status parse_host(plock_endpoint *endpoint, char *text, plock_error *error) {
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
        (void)snprintf(endpoint->port, sizeof endpoint->port, "%u", (unsigned)number & 0xffff);
    }
    if (!percent_decode(host)) return wrong(error, "the host has a broken percent escape");
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || *c == '@' || *c == '/' || *c == 127)
            return wrong(error, "the host has a character that no host name has");
    return plock__config_text(&endpoint->host, "the store's URL: host", host, error);
}

/* Parses hosts as in parse_host, with commas between them. */
static plock_status parse_hosts(plock_endpoints *places, const char *port, char *text,
                                plock_error *error) {
    for (char *host = text, *next; host; host = next) {
        next = strchr(host, ',');
        if (next) *next++ = 0;
        if (places->count == PLOCK__ENDPOINTS_MAX)
            return plock__fail(error, PLOCK_BAD_CONFIG, "the store's URL: more than %d hosts",
                               PLOCK__ENDPOINTS_MAX);
        plock_endpoint *endpoint = &places->list[places->count++];
        (void)snprintf(endpoint->port, sizeof endpoint->port, "%s", port);
        const plock_status status = parse_host(endpoint, host, error);
        if (status) return status;
    }
    return PLOCK_OK;
}

/* Reads the primary's name from the path NAME or NAME/DATABASE. If the query has already given the
 * name, the path is only the database. */
static plock_status parse_primary(plock_config *config, char **path, plock_error *error) {
    if (config->sentinels->primary) return PLOCK_OK;
    char *name = *path;
    if (!name || !*name)
        return wrong(error, "the primary's name is missing: it stands behind the sentinels, as in "
                            "redis+sentinel://host:26379/mymaster");
    *path = strchr(name, '/');
    if (*path)
        *(*path)++ = 0;
    else if (config->sentinels->of_lettuce && !name[strspn(name, "0123456789")])
        return wrong(error, "the primary's name is missing beside the database: add "
                            "?sentinelMasterId=NAME");
    if (!percent_decode(name)) return wrong(error, "the primary's name has a broken escape");
    return set_primary(config, name, error);
}

static plock_status parse_address(plock_config *config, char *rest, plock_error *error) {
    if (config->scheme == PLOCK_UNIX) {
        if (*rest != '/') return wrong(error, "unix:// wants an absolute path");
        if (!percent_decode(rest)) return wrong(error, "the path has a broken percent escape");
        return plock__config_text(&config->path, "the store's URL: path", rest, error);
    }
    char *path = strchr(rest, '/');
    if (path) *path++ = 0;
    plock_status status = config->sentinels
                              ? parse_hosts(&config->sentinels->places, "26379", rest, error)
                          : config->cluster ? parse_hosts(config->cluster, "6379", rest, error)
                                            : parse_host(&config->server, rest, error);
    if (!status && path && strchr(path, '@')) return wrong(error, "an @ after the host" UNESCAPED);
    if (!status && config->sentinels) status = parse_primary(config, &path, error);
    if (status || !path || !*path) return status;
    return plock__config_database(&config->database, "the store's URL: what follows the host", path,
                                  error);
}

static const struct scheme {
    const char *text;
    plock_scheme scheme;
    enum { OF_SERVER, OF_SENTINELS, OF_CLUSTER } hosts;
} SCHEMES[] = {{"redis://", PLOCK_TCP, OF_SERVER},
               {"rediss://", PLOCK_TLS_OVER_TCP, OF_SERVER},
               {"unix://", PLOCK_UNIX, OF_SERVER},
               {"redis+sentinel://", PLOCK_TCP, OF_SENTINELS},
               {"rediss+sentinel://", PLOCK_TLS_OVER_TCP, OF_SENTINELS},
               {"redis-sentinel://", PLOCK_TCP, OF_SENTINELS},
               {"rediss-sentinel://", PLOCK_TLS_OVER_TCP, OF_SENTINELS},
               {"redis+cluster://", PLOCK_TCP, OF_CLUSTER},
               {"rediss+cluster://", PLOCK_TLS_OVER_TCP, OF_CLUSTER}};

static const struct scheme *find_scheme(const char *url) {
    for (size_t i = 0; i < sizeof SCHEMES / sizeof *SCHEMES; i++)
        if (!strncmp(url, SCHEMES[i].text, strlen(SCHEMES[i].text))) return &SCHEMES[i];
    return NULL;
}

static plock_status parse_rest(plock_config *config, char *rest, plock_error *error) {
    if (strchr(rest, '#')) return wrong(error, "an unescaped #" UNESCAPED);
    char *query = strchr(rest, '?');
    if (query) *query++ = 0;
    plock_status status = query ? parse_query(config, query, error) : PLOCK_OK;
    if (status) return status;
    /* If there is an @ before the first slash, the user and password come before the @. */
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

plock_status plock__config_parse(plock_config *config, char *url, plock_error *error) {
    if (strlen(url) > PLOCK__CONFIG_TEXT_MAX) return wrong(error, "longer than 4096 bytes");
    const struct scheme *scheme = find_scheme(url);
    if (!scheme)
        return wrong(error, "unknown scheme; known are redis://, rediss://, redis+sentinel://, "
                            "rediss+sentinel://, redis-sentinel://, rediss-sentinel://, "
                            "redis+cluster://, rediss+cluster://, unix://, memcached://, local: "
                            "and memory:");
    config->scheme = scheme->scheme;
    if (scheme->hosts == OF_SENTINELS) {
        const plock_status status = plock__config_expect_sentinels(config, error);
        if (status) return status;
        config->sentinels->of_lettuce = url[strcspn(url, "+-:")] == '-';
    } else if (scheme->hosts == OF_CLUSTER) {
        config->cluster = plock__allocate(sizeof *config->cluster);
        if (!config->cluster) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    }
    return parse_rest(config, url + strlen(scheme->text), error);
}

/* --- the URL that may be printed --- */

const char *plock__config_scheme(const plock_config *config, bool tls) {
    if (config->cluster) return tls ? "rediss+cluster" : "redis+cluster";
    if (config->is_sentinel || config->sentinels) return tls ? "rediss+sentinel" : "redis+sentinel";
    return tls ? "rediss" : "redis";
}

static size_t add_endpoint(const char **parts, const plock_endpoint *endpoint) {
    const bool v6 = strchr(endpoint->host, ':');
    parts[0] = v6 ? "[" : "";
    parts[1] = endpoint->host;
    parts[2] = v6 ? "]:" : ":";
    parts[3] = endpoint->port;
    return 4;
}

plock_status plock__config_write_url(plock_config *config) {
    const char *parts[8 + 5 * PLOCK__ENDPOINTS_MAX] = {0};
    const plock_sentinels *sentinels = config->sentinels;
    const plock_endpoints *places = sentinels ? &sentinels->places : config->cluster;
    if (!config->path && !config->server.host && !(sentinels && sentinels->primary) &&
        !(config->cluster && places->count))
        return PLOCK_OK; /* the parser has not read a host, a path or a primary's name yet */
    size_t length = 0, n = 0;
    parts[n++] =
        config->path ? "unix" : plock__config_scheme(config, config->scheme == PLOCK_TLS_OVER_TCP);
    parts[n++] = "://";
    if (config->path) parts[n++] = config->path;
    if (config->server.host) n += add_endpoint(parts + n, &config->server);
    for (unsigned i = 0; places && i < places->count; i++) {
        if (i) parts[n++] = ",";
        n += add_endpoint(parts + n, &places->list[i]);
    }
    if (sentinels) parts[n++] = "/";
    if (sentinels) parts[n++] = sentinels->primary;
    if (config->database) {
        parts[n++] = config->path ? "?db=" : "/";
        parts[n++] = config->database;
    }
    for (size_t i = 0; i < n; i++) length += strlen(parts[i]);
    char *display = plock__allocate(length + 1);
    if (!display) return PLOCK_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        strcat(display, parts[i]); /* there is room, because the loop above measured all parts */
    for (char *c = display; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?'; /* a path may hold any byte, even a line feed */
    plock__free(config->display);
    config->display = display;
    return PLOCK_OK;
}
