/* A store's options for its sentinels. */
#include "test.h"

#include "net/config.h"

#include <stdio.h>

static plock_config *read_url(const char *url) {
    plock_config *config;
    plock_error error = {PLOCK_OK, ""};
    if (!CHECK_STATUS(plock_config_new(&config, url, &error), PLOCK_OK))
        CHECK_TEXT(error.message, url);
    return config;
}

static void sentinels_have_options_of_their_own(void) {
    plock_error error;
    plock_config *config =
        read_url("rediss+sentinel://ali:sesame@a/main?sentinel_username=bob&sentinel_password=b%26b"
                 "&ca_file=/ca&connect_timeout=3");
    CHECK_STATUS(plock_config_set(config, "sentinel_tls", "false", &error), PLOCK_OK);
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    const plock_config *own = config->sentinels->config;
    CHECK_TEXT(plock_config_primary_name(config), "main");
    CHECK_TEXT(config->username, "ali");
    CHECK_TEXT(own->username, "bob");
    CHECK_TEXT(own->password, "b&b");
    CHECK_INT(own->scheme, PLOCK_TCP);
    CHECK(!plock_config_sentinel_tls(config));
    CHECK(own->ca_file == NULL);
    CHECK_INT(own->connect_timeout, 3 * PLOCK_SECOND);
    CHECK_STATUS(plock_config_set(config, "sentinel_tls", "true", &error), PLOCK_OK);
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    CHECK_TEXT(own->ca_file, "/ca");
    CHECK(plock_config_sentinel_tls(config));
    CHECK(!plock_config_unverified_sentinels(config));
    CHECK_STATUS(plock_config_set(config, "sentinel_verify", "none", &error), PLOCK_OK);
    CHECK(plock_config_unverified_sentinels(config));
    CHECK(!plock_config_unverified_servers(config));
    plock_config_free(config);
    config = read_url("rediss+sentinel://a/main?verify=none&sentinel_verify=peer");
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    CHECK(plock_config_unverified_servers(config));
    CHECK(!plock_config_unverified_sentinels(config));
    CHECK(!config->sentinels->config->unverified);
    plock_config_free(config);
    /* if a URL names certificate authorities for the sentinels, the sentinels are verified */
    config = read_url("rediss+sentinel://a/main?verify=none&sentinel_ca_file=/ca");
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    CHECK(!config->sentinels->config->unverified);
    plock_config_free(config);
    config = read_url("rediss+sentinel://a/main?sentinel_verify=none&sentinel_ca_file=/ca");
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    CHECK(config->sentinels->config->unverified);
    plock_config_free(config);
    config = read_url("redis+sentinel://a/main?verify=none&sentinel_tls=true");
    CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
    CHECK(plock_config_unverified_sentinels(config));
    plock_config_free(config);
    config = read_url("redis://a");
    CHECK(!plock_config_primary_name(config));
    CHECK(!plock_config_sentinel_tls(config));
    CHECK_STATUS(plock_config_set(config, "sentinel_password", "x", &error), PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, "names no sentinels");
    CHECK_STATUS(plock_config_set(config, "tls", "true", &error), PLOCK_BAD_CONFIG);
    plock_config_free(config);
}

/* The sentinels inherit each TLS option that is not given, whichever others are given. There are
 * two exceptions, explained below. */
static void sentinels_inherit_what_is_not_given(void) {
    static const struct {
        const char *more, *ca_file, *ca_path, *cert, *key, *name;
    } FORMS[] = {
        {"", "/ca", "/cas", "/cert", "/key", "redis.example"},
        {"sentinel_verify=none", "/ca", "/cas", "/cert", "/key", "redis.example"},
        {"sentinel_server_name=s", "/ca", "/cas", "/cert", "/key", "s"},
        {"sentinel_server_name=", "/ca", "/cas", "/cert", "/key", ""},
        /* sentinels with authorities of their own inherit none from the store */
        {"sentinel_ca_file=/s", "/s", NULL, "/cert", "/key", "redis.example"},
        {"sentinel_ca_path=/s", NULL, "/s", "/cert", "/key", "redis.example"},
        /* The key may be in the certificate's file. The store's key would not fit this
         * certificate. */
        {"sentinel_cert=/s", "/ca", "/cas", "/s", NULL, "redis.example"},
        {"sentinel_cert=/s&sentinel_key=/k", "/ca", "/cas", "/s", "/k", "redis.example"},
    };
    for (unsigned i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        char url[256];
        plock_error error;
        (void)snprintf(url, sizeof url,
                       "rediss+sentinel://a/main?ca_file=/ca&ca_path=/cas&cert=/cert&key=/key"
                       "&server_name=redis.example&%s",
                       FORMS[i].more);
        plock_config *config = read_url(url);
        CHECK_STATUS(plock__config_check(config, &error), PLOCK_OK);
        const plock_config *own = config->sentinels->config;
        CHECK_TEXT(own->ca_file, FORMS[i].ca_file);
        CHECK_TEXT(own->ca_path, FORMS[i].ca_path);
        CHECK_TEXT(own->cert, FORMS[i].cert);
        CHECK_TEXT(own->key, FORMS[i].key);
        CHECK_TEXT(own->server_name, FORMS[i].name);
        plock_config_free(config);
    }
}

int main(void) {
    RUN(sentinels_have_options_of_their_own);
    RUN(sentinels_inherit_what_is_not_given);
    return test_end("config sentinels");
}
