/* The URL of a store, and its options. */
#include "test.h"

#include "base/memory.h"
#include "net/config.h"

#include <string.h>

static plock_config *read_url(const char *url) {
    plock_config *config;
    plock_error error = {PLOCK_OK, ""};
    if (!CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK))
        CHECK_TEXT(error.message, url);
    return config;
}

static void every_form_of_an_address_is_understood(void) {
    static const struct {
        const char *url;
        plock_scheme scheme;
        const char *host, *port, *database, *display;
    } FORMS[] = {
        {"redis://localhost", PLOCK_TCP, "localhost", "6379", NULL, "redis://localhost:6379"},
        {"redis://localhost/", PLOCK_TCP, "localhost", "6379", NULL, "redis://localhost:6379"},
        {"redis://localhost/0", PLOCK_TCP, "localhost", "6379", "0", "redis://localhost:6379/0"},
        {"redis://localhost:1", PLOCK_TCP, "localhost", "1", NULL, "redis://localhost:1"},
        {"redis://localhost:65535/15", PLOCK_TCP, "localhost", "65535", "15",
         "redis://localhost:65535/15"},
        {"redis://127.0.0.1:06380/3", PLOCK_TCP, "127.0.0.1", "6380", "3",
         "redis://127.0.0.1:6380/3"},
        {"redis://cache.example.com?db=4", PLOCK_TCP, "cache.example.com", "6379", "4",
         "redis://cache.example.com:6379/4"},
        {"redis://[::1]", PLOCK_TCP, "::1", "6379", NULL, "redis://[::1]:6379"},
        {"redis://[2001:db8::1]:7000/2", PLOCK_TCP, "2001:db8::1", "7000", "2",
         "redis://[2001:db8::1]:7000/2"},
        {"redis://[fe80::1%251]:7000", PLOCK_TCP, "fe80::1%1", "7000", NULL,
         "redis://[fe80::1%1]:7000"},
        {"rediss://cache.example.com", PLOCK_TLS_OVER_TCP, "cache.example.com", "6379", NULL,
         "rediss://cache.example.com:6379"},
        {"rediss://c%61che:6390/1", PLOCK_TLS_OVER_TCP, "cache", "6390", "1",
         "rediss://cache:6390/1"},
    };
    for (unsigned i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        plock_config *config = read_url(FORMS[i].url);
        if (!config) continue;
        CHECK_INT(config->scheme, FORMS[i].scheme);
        CHECK_TEXT(config->server.host, FORMS[i].host);
        CHECK_TEXT(config->server.port, FORMS[i].port);
        CHECK_TEXT(config->database, FORMS[i].database);
        CHECK_TEXT(plock_config_display(config), FORMS[i].display);
        plock_config_free(config);
    }
}

static void a_unix_socket_has_a_path(void) {
    static const struct {
        const char *url, *path, *database, *password, *display;
    } FORMS[] = {
        {"unix:///run/redis.sock", "/run/redis.sock", NULL, NULL, "unix:///run/redis.sock"},
        {"unix:///run/redis.sock?db=2", "/run/redis.sock", "2", NULL,
         "unix:///run/redis.sock?db=2"},
        {"unix:///run/a%20b%3Fc", "/run/a b?c", NULL, NULL, "unix:///run/a b?c"},
        {"unix:///run/me@here", "/run/me@here", NULL, NULL, "unix:///run/me@here"},
        {"unix://:open%2Fsesame@/run/redis.sock", "/run/redis.sock", NULL, "open/sesame",
         "unix:///run/redis.sock"},
    };
    for (unsigned i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        plock_config *config = read_url(FORMS[i].url);
        if (!config) continue;
        CHECK_INT(config->scheme, PLOCK_UNIX);
        CHECK_TEXT(config->path, FORMS[i].path);
        CHECK_TEXT(config->database, FORMS[i].database);
        CHECK_TEXT(config->password, FORMS[i].password);
        CHECK_TEXT(plock_config_display(config), FORMS[i].display);
        CHECK(config->server.host == NULL);
        plock_config_free(config);
    }
}

static void sentinels_name_a_primary(void) {
    static const struct {
        const char *url, *primary, *database, *display;
        unsigned count;
        plock_scheme scheme;
    } FORMS[] = {
        {"redis+sentinel://a/main", "main", NULL, "redis+sentinel://a:26379/main", 1, PLOCK_TCP},
        {"redis+sentinel://a,b:1,[::1]:2/main/3", "main", "3",
         "redis+sentinel://a:26379,b:1,[::1]:2/main/3", 3, PLOCK_TCP},
        {"rediss+sentinel://ali:sesame@a/my%2Down?sentinel_password=open", "my-own", NULL, NULL, 1,
         PLOCK_TLS_OVER_TCP},
        {"redis-sentinel://a,b/2?sentinelMasterId=main", "main", "2",
         "redis+sentinel://a:26379,b:26379/main/2", 2, PLOCK_TCP},
        {"redis-sentinel://a?sentinelMasterId=main", "main", NULL, "redis+sentinel://a:26379/main",
         1, PLOCK_TCP},
    };
    for (unsigned i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        plock_config *config = read_url(FORMS[i].url);
        if (!config) continue;
        const plock_sentinels *sentinels = config->sentinels;
        CHECK_INT(config->scheme, FORMS[i].scheme);
        CHECK(sentinels != NULL);
        CHECK_INT(sentinels->places.count, FORMS[i].count);
        CHECK_TEXT(sentinels->primary, FORMS[i].primary);
        CHECK_TEXT(config->database, FORMS[i].database);
        CHECK_INT(sentinels->config->scheme, FORMS[i].scheme);
        if (FORMS[i].display) CHECK_TEXT(plock_config_display(config), FORMS[i].display);
        CHECK_LACKS(plock_config_display(config), "sesame");
        plock_config_free(config);
    }
}

static void nodes_of_a_cluster_are_listed(void) {
    static const struct {
        const char *url, *display;
        unsigned count;
        plock_scheme scheme;
    } FORMS[] = {
        {"redis+cluster://a", "redis+cluster://a:6379", 1, PLOCK_TCP},
        {"redis+cluster://a:7000,b,[::1]:7002", "redis+cluster://a:7000,b:6379,[::1]:7002", 3,
         PLOCK_TCP},
        {"rediss+cluster://ali:sesame@a:1/0", "rediss+cluster://a:1/0", 1, PLOCK_TLS_OVER_TCP},
    };
    for (unsigned i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        plock_error error;
        plock_config *config = read_url(FORMS[i].url);
        CHECK(config->cluster != NULL);
        CHECK_INT(config->cluster->count, FORMS[i].count);
        CHECK_INT(config->scheme, FORMS[i].scheme);
        CHECK_TEXT(plock_config_display(config), FORMS[i].display);
        CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
        plock_config_free(config);
    }
}

static void a_cluster_has_one_database(void) {
    plock_error error;
    plock_config *config = read_url("redis+cluster://a/3");
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "only the database 0");
    CHECK_STATUS(plock_config_set(config, "database", "0", &error), PLOCK_OK);
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    plock_config_free(config);
}

static void user_and_password_are_decoded(void) {
    static const struct {
        const char *url, *username, *password;
    } FORMS[] = {
        {"redis://localhost", NULL, NULL},
        {"redis://@localhost", NULL, NULL},
        {"redis://:@localhost", NULL, NULL},
        {"redis://:sesame@localhost", NULL, "sesame"},
        {"redis://ali:sesame@localhost", "ali", "sesame"},
        {"redis://ali%40baba:a%40b%2Fc%3Ad%3Fe%23f%25g%20h@localhost:6380/1", "ali@baba",
         "a@b/c:d?e#f%g h"},
        {"redis://ali:%c3%BC@localhost", "ali", "\xc3\xbc"},
        {"redis://:a+b&c=d;e!f@localhost", NULL, "a+b&c=d;e!f"},
    };
    for (unsigned i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        plock_config *config = read_url(FORMS[i].url);
        if (!config) continue;
        CHECK_TEXT(config->username, FORMS[i].username);
        CHECK_TEXT(config->password, FORMS[i].password);
        CHECK_TEXT(config->server.host, "localhost");
        if (FORMS[i].password) CHECK_LACKS(plock_config_display(config), FORMS[i].password);
        plock_config_free(config);
    }
}

static void what_is_not_said_has_its_default(void) {
    plock_config *config = read_url("redis://localhost");
    CHECK_INT(config->connect_timeout, PLOCK_SECOND / 2);
    CHECK_INT(config->command_timeout, PLOCK_SECOND / 2);
    CHECK_INT(config->attempt_timeout, PLOCK_SECOND / 5);
    CHECK_INT(config->release_timeout, PLOCK_SECOND / 2);
    CHECK_INT(config->unavailable_timeout, PLOCK_SECOND);
    CHECK_INT(config->fence_ttl, 3600 * PLOCK_SECOND);
    CHECK_INT(config->pool_size, 16);
    CHECK(!config->unverified);
    CHECK(!plock_config_marshals(config));
    CHECK(!config->ca_file && !config->ca_path && !config->cert && !config->key &&
          !config->server_name);
    plock_config_free(config);
}

static void the_query_takes_every_option(void) {
    plock_config *config =
        read_url("rediss://"
                 "localhost?connect_timeout=1.5&&command_timeout=2&attempt_timeout=0.05&release_"
                 "timeout=0.25&"
                 "unavailable_timeout=3&fence_ttl=86400&pool_size=3"
                 "&ca_file=%2Fetc%2Fca.pem&ca_path=/etc/"
                 "ca&cert=c.pem&key=k.pem&verify=none&server_name=redis.example.com&db=7&");
    CHECK_INT(config->connect_timeout, 1500 * PLOCK_MILLISECOND);
    CHECK_INT(config->command_timeout, 2 * PLOCK_SECOND);
    CHECK_INT(config->attempt_timeout, 50 * PLOCK_MILLISECOND);
    CHECK_INT(config->release_timeout, 250 * PLOCK_MILLISECOND);
    CHECK_INT(config->unavailable_timeout, 3 * PLOCK_SECOND);
    CHECK_INT(config->fence_ttl, 86400 * PLOCK_SECOND);
    CHECK_INT(config->pool_size, 3);
    CHECK_TEXT(config->ca_file, "/etc/ca.pem");
    CHECK_TEXT(config->ca_path, "/etc/ca");
    CHECK_TEXT(config->cert, "c.pem");
    CHECK_TEXT(config->key, "k.pem");
    CHECK_TEXT(config->server_name, "redis.example.com");
    CHECK_TEXT(config->database, "7");
    CHECK(plock_config_unverified_servers(config));
    CHECK_TEXT(plock_config_display(config), "rediss://localhost:6379/7");
    plock_config_free(config);
}

static void another_database_than_0_is_selected(void) {
    static const struct {
        const char *url;
        bool selected;
    } URLS[] = {{"redis://localhost", false},         {"redis://localhost/0", false},
                {"redis://localhost/7", true},        {"unix:///run/redis.sock?db=1", true},
                {"redis+sentinel://s1/main/2", true}, {"redis+sentinel://s1/main", false}};
    for (size_t i = 0; i < sizeof URLS / sizeof *URLS; i++) {
        plock_config *config = read_url(URLS[i].url);
        CHECK_INT(plock_config_selects(config), URLS[i].selected);
        plock_config_free(config);
    }
}

/* A plain connection verifies nothing in any case. So verify=none weakens nothing, and needs no
 * warning. */
static void only_tls_can_be_unverified(void) {
    plock_config *config = read_url("redis://localhost?verify=none");
    CHECK(!plock_config_unverified_servers(config));
    plock_config_free(config);
    config = read_url("rediss://localhost?verify=peer");
    CHECK(!plock_config_unverified_servers(config));
    plock_config_free(config);
}

static void options_are_set_one_by_one(void) {
    static const struct {
        const char *name, *value;
        bool accepted;
    } OPTIONS[] = {
        {"username", "ali", true},
        {"password", "se:s@me", true},
        {"password", "", true},
        {"database", "0", true},
        {"database", "999999999", true},
        {"db", "5", true},
        {"database", "1000000000", false},
        {"database", "", false},
        {"database", "-1", false},
        {"database", "1x", false},
        {"database", " 1", false},
        {"connect_timeout", "0.001", true},
        {"connect_timeout", "3600", true},
        {"connect_timeout", "1.", true},
        {"connect_timeout", "3600.000000000", true},
        {"connect_timeout", "0.0009999999", false},
        {"connect_timeout", "0", false},
        {"connect_timeout", "-1", false},
        {"connect_timeout", "+1", false},
        {"connect_timeout", "3600.000000001", false},
        {"connect_timeout", "1e3", false},
        {"connect_timeout", "inf", false},
        {"connect_timeout", "nan", false},
        {"connect_timeout", "", false},
        {"connect_timeout", ".", false},
        {"connect_timeout", ".5", false},
        {"connect_timeout", "0x10", false},
        {"connect_timeout", "1,5", false},
        {"connect_timeout", "1 ", false},
        {"connect_timeout", "99999999999999999999999999", false},
        {"connect_timeout", "0.10000000000000000000000000000000000000000000000000001", true},
        {"command_timeout", "1", true},
        {"attempt_timeout", "1", true},
        {"release_timeout", "1", true},
        {"unavailable_timeout", "1", true},
        {"command_timeout", "x", false},
        {"attempt_timeout", "x", false},
        {"release_timeout", "x", false},
        {"unavailable_timeout", "x", false},
        {"fence_ttl", "0", true},
        {"fence_ttl", "0.5", true},
        {"fence_ttl", "31622400", true},
        {"fence_ttl", "31622400.001", false},
        {"fence_ttl", "-1", false},
        {"fence_ttl", "", false},
        {"fence_ttl", "99999999999999999999999999", false},
        {"pool_size", "1", true},
        {"pool_size", "1024", true},
        {"pool_size", "0", false},
        {"pool_size", "1025", false},
        {"pool_size", "-1", false},
        {"pool_size", "", false},
        {"pool_size", "4 ", false},
        {"pool_size", "4x", false},
        {"pool_size", "99999999999999999999999", false},
        {"verify", "peer", true},
        {"verify", "none", true},
        {"verify", "NONE", false},
        {"verify", "", false},
        {"verify", "false", false},
        {"encoding", "plain", true},
        {"encoding", "marshal", true},
        {"encoding", "json", false},
        {"encoding", "", false},
        {"ca_file", "/a", true},
        {"ca_path", "/a", true},
        {"cert", "/a", true},
        {"key", "/a", true},
        {"server_name", "a.b", true},
        {"", "x", false},
        {"timeout", "1", false},
        {"Verify", "peer", false},
    };
    plock_config *config = read_url("redis://localhost");
    for (unsigned i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        plock_error error = {PLOCK_OK, ""};
        const plock_status status =
            plock_config_set(config, OPTIONS[i].name, OPTIONS[i].value, &error);
        if (!CHECK_STATUS(status, OPTIONS[i].accepted ? PLOCK_OK : PLOCK_BAD_CONFIG))
            CHECK_TEXT(OPTIONS[i].name, OPTIONS[i].value);
        if (!OPTIONS[i].accepted)
            CHECK(!strncmp(error.message, OPTIONS[i].name, strlen(OPTIONS[i].name)));
    }
    CHECK_TEXT(config->username, "ali");
    CHECK_TEXT(config->password, "");
    CHECK_TEXT(config->database, "5");
    CHECK_INT(config->connect_timeout, 100 * PLOCK_MILLISECOND);
    CHECK_INT(config->pool_size, 1024);
    CHECK(plock_config_marshals(config));
    plock_config_free(config);
}

static void a_refused_option_changes_nothing(void) {
    plock_config *config = read_url("redis://localhost/3?pool_size=5");
    plock_error error;
    CHECK_STATUS(plock_config_set(config, "database", "x", &error), PLOCK_BAD_CONFIG);
    CHECK_STATUS(plock_config_set(config, "pool_size", "x", &error), PLOCK_BAD_CONFIG);
    CHECK_TEXT(config->database, "3");
    CHECK_INT(config->pool_size, 5);
    plock_config_free(config);
}

static void nothing_is_left_behind(void) {
    const long before = plock__live_allocations();
    plock_config *config =
        read_url("rediss://ali:sesame@localhost/3?ca_file=a&ca_file=b&db=4&server_name=c");
    plock_error error;
    CHECK_STATUS(plock_config_set(config, "password", "another", &error), PLOCK_OK);
    plock_config_free(config);
    plock_config_free(NULL);
    CHECK_INT(plock__live_allocations(), before);
}

int main(void) {
    RUN(every_form_of_an_address_is_understood);
    RUN(a_unix_socket_has_a_path);
    RUN(sentinels_name_a_primary);
    RUN(nodes_of_a_cluster_are_listed);
    RUN(a_cluster_has_one_database);
    RUN(user_and_password_are_decoded);
    RUN(what_is_not_said_has_its_default);
    RUN(the_query_takes_every_option);
    RUN(only_tls_can_be_unverified);
    RUN(another_database_than_0_is_selected);
    RUN(options_are_set_one_by_one);
    RUN(a_refused_option_changes_nothing);
    RUN(nothing_is_left_behind);
    return test_end("config");
}
