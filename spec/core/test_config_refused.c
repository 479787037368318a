/* URLs that are refused. The error names the wrong part, and never repeats text that may be a
 * secret. */
#include "test.h"

#include "net/config.h"

#include <stdlib.h>
#include <string.h>

#define CANARY "hunter2secret"

static void check_refused(const char *url, const char *part) {
    plock_config *config = (plock_config *)(void *)&config;
    plock_error error = {PLOCK_OK, ""};
    plock_status status = plock_config_new(&config, url, &error);
    if (!status)
        status = plock__config_check(config, &error);
    else
        CHECK(config == NULL);
    plock_config_free(config);
    if (!CHECK_STATUS(status, PLOCK_BAD_CONFIG)) {
        CHECK_TEXT(url, "refused");
        return;
    }
    CHECK_STATUS(error.status, PLOCK_BAD_CONFIG);
    CHECK_HAS(error.message, part);
    CHECK_LACKS(error.message, CANARY);
    CHECK_LACKS(error.message, "hunter");
    CHECK(strlen(error.message) < sizeof error.message - 1); /* the message is not truncated */
}

static void the_part_that_is_wrong_is_named(void) {
    static const struct {
        const char *url, *part;
    } REFUSED[] = {
        {"", "scheme"},
        {"localhost:6379", "scheme"},
        {"http://localhost", "scheme"},
        {"Redis://localhost", "scheme"},
        {"redis:localhost", "scheme"},
        {" redis://localhost", "scheme"},
        {"redis://", "host"},
        {"redis:///0", "host"},
        {"redis://:6379", "host"},
        {"redis://?db=1", "host"},
        {"redis://a b", "host"},
        {"redis://a%00b", "host"},
        {"redis://a%zzb", "host"},
        {"redis://a%2", "host"},
        {"redis://a%2Fb", "host"},
        {"redis://a%0Ab", "host"},
        {"redis://localhost:", "port"},
        {"redis://localhost:0", "port"},
        {"redis://localhost:65536", "port"},
        {"redis://localhost:-1", "port"},
        {"redis://localhost:+80", "port"},
        {"redis://localhost:8o", "port"},
        {"redis://localhost:099999", "port"},
        {"redis://localhost:99999999999999999999", "port"},
        {"redis://::1", "IPv6"},
        {"redis://2001:db8::1:6379", "IPv6"},
        {"redis://[::1", "bracket"},
        {"redis://[::1]6379", "bracket"},
        {"redis://[]", "IPv6"},
        {"redis://[localhost]", "IPv6"},
        {"redis://[::1]:", "port"},
        {"redis+sentinel://", "host"},
        {"redis+sentinel://a", "primary's name is missing"},
        {"redis+sentinel://a/", "primary's name is missing"},
        {"redis+sentinel://a,/main", "host"},
        {"redis+sentinel://a,b:0/main", "port"},
        {"redis+sentinel://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a/main", "more than 16"},
        {"redis+cluster://", "host"},
        {"redis+cluster://a,,b", "host"},
        {"redis+cluster://a:0", "port"},
        {"redis+cluster://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "more than 16 hosts"},
        {"redis+cluster://a/x", "follows"},
        {"redis+cluster://a?sentinel_password=x", "names no sentinels"},
        {"redis+sentinel://a/ma%0Ain", "name"},
        {"redis+sentinel://a/ma%zzin", "name"},
        {"redis+sentinel://a/main/x", "follows"},
        {"redis://a?sentinelMasterId=main", "without sentinels"},
        {"redis://a?sentinel_password=x", "names no sentinels"},
        {"redis+sentinel://a/main?sentinel_pool_size=3", "unknown option"},
        {"redis://localhost/x", "follows"},
        {"redis://localhost/1/2", "follows"},
        {"redis://localhost/-1", "follows"},
        {"redis://localhost/1000000000", "follows"},
        {"redis://localhost#1", "#"},
        {"redis://ali@localhost", "password"},
        {"redis://ali:@localhost", "password"},
        {"redis://:%zz@localhost", "password"},
        {"redis://:%00@localhost", "password"},
        {"redis://%g:x@localhost", "username"},
        {"redis://localhost?db", "db"},
        {"redis://localhost?db=", "db"},
        {"redis://localhost?db=x", "db"},
        {"redis://localhost?nonsense=1", "nonsense"},
        {"redis://localhost?password=1", "password"},
        {"redis://localhost?username=1", "username"},
        {"redis://localhost?encoding=marshal", "encoding"},
        {"redis://localhost?connect_timeout=fast", "connect_timeout"},
        {"redis://localhost?verify=maybe", "verify"},
        {"redis://localhost?ca_file=%0", "ca_file"},
        {"redis://localhost?pool_size=0", "pool_size"},
        {"unix://", "path"},
        {"unix://run/redis.sock", "path"},
        {"unix://localhost:6379", "path"},
        {"unix:///run/%00", "path"},
        {"unix:///run/%x", "path"},
    };
    for (unsigned i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
        check_refused(REFUSED[i].url, REFUSED[i].part);
}

/* The most common mistake is an unescaped character in a password. The password seems to end there,
 * and its rest is read as another part of the URL. */
static void an_unescaped_password_is_never_printed(void) {
    static const char *const URLS[] = {
        "redis://:" CANARY "@" CANARY "@localhost",
        "redis://:a@" CANARY "@localhost:6379/0",
        "redis://ali:a@" CANARY "/b@localhost",
        "redis://:a/" CANARY "@localhost",
        "redis://:a/" CANARY,
        "redis://:" CANARY "/b@localhost:6379",
        "redis://ali:" CANARY "/b@localhost",
        "redis://:1/" CANARY "@localhost",
        "redis://ali:6379/" CANARY "@localhost",
        "redis://:a:" CANARY "@localhost",
        "redis://:" CANARY ":b@localhost",
        "redis://ali:" CANARY,
        "redis://" CANARY ":x",
        "redis://" CANARY "@localhost",
        "redis://:a#" CANARY "@localhost",
        "redis://:" CANARY "#b@localhost",
        "redis://:a?" CANARY "@localhost",
        "redis://:" CANARY "?b@localhost",
        "redis://:a?db=" CANARY "@localhost",
        "redis://:a?x&" CANARY "@localhost",
        "redis://:%" CANARY "@localhost",
        "redis://:" CANARY "%@localhost",
        "redis://:" CANARY "%2@localhost",
        "redis://" CANARY "%zz:a@localhost",
        "redis://:" CANARY "@",
        "redis://:" CANARY "@:6379",
        "redis://:" CANARY "@localhost:99999",
        "redis://:" CANARY "@localhost/x",
        "redis://:" CANARY "@localhost?verify=none&x=1",
        "redis://:" CANARY "@[::1",
        "redis://[" CANARY "]",
        "redis://" CANARY " x",
        "redis://localhost/" CANARY,
        "redis://localhost?db=" CANARY,
        "redis://localhost?verify=" CANARY,
        "redis://localhost?pool_size=" CANARY,
        "redis://localhost?connect_timeout=" CANARY,
        "redis://localhost?ca_file=" CANARY "%",
        "unix://:" CANARY "@run/redis.sock",
        "unix://:" CANARY "/run/redis.sock",
        "unix://" CANARY,
        "ftp://:" CANARY "@localhost",
        CANARY,
        "redis:/" CANARY "@localhost",
    };
    for (unsigned i = 0; i < sizeof URLS / sizeof *URLS; i++) check_refused(URLS[i], ":");
}

static void a_refused_option_does_not_print_its_value(void) {
    static const char *const NAMES[] = {"database",
                                        "db",
                                        "connect_timeout",
                                        "command_timeout",
                                        "attempt_timeout",
                                        "release_timeout",
                                        "unavailable_timeout",
                                        "fence_ttl",
                                        "pool_size",
                                        "verify",
                                        "encoding"};
    plock_config *config;
    plock_error error;
    CHECK_STATUS(plock_config_new(&config, "redis://localhost", &error), PLOCK_OK);
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        CHECK_STATUS(plock_config_set(config, NAMES[i], CANARY, &error), PLOCK_BAD_CONFIG);
        CHECK_HAS(error.message, NAMES[i]);
        CHECK_LACKS(error.message, CANARY);
    }
    plock_config_free(config);
}

static void the_printed_form_has_no_secret(void) {
    static const char *const URLS[] = {
        "redis://:" CANARY "@localhost",
        "redis://" CANARY ":" CANARY "@localhost:6380/1",
        "rediss://:" CANARY "@[::1]/1",
        "unix://:" CANARY "@/run/redis.sock?db=1",
        "rediss://:" CANARY "@localhost?key=" CANARY "&cert=" CANARY,
    };
    for (unsigned i = 0; i < sizeof URLS / sizeof *URLS; i++) {
        plock_config *config;
        plock_error error;
        if (!CHECK_STATUS(plock_config_new(&config, URLS[i], &error), PLOCK_OK)) continue;
        CHECK_LACKS(plock_config_display(config), CANARY);
        CHECK_STATUS(plock_config_set(config, "password", CANARY, &error), PLOCK_OK);
        CHECK_LACKS(plock_config_display(config), CANARY);
        plock_config_free(config);
    }
}

/* A value that is too long is refused, secret or not. It is never silently truncated. */
static void too_long_values_are_refused(void) {
    enum { LENGTH = 5000 };
    char *url = malloc(LENGTH + 1);
    plock_config *config;
    plock_error error;
    if (!CHECK(url != NULL)) return;
    memset(url, 'a', LENGTH);
    url[LENGTH] = 0;
    memcpy(url, "redis://:" CANARY, strlen("redis://:" CANARY));
    check_refused(url, "longer");
    CHECK_STATUS(plock_config_new(&config, "redis://localhost", &error), PLOCK_OK);
    CHECK_STATUS(plock_config_set(config, "password", url, &error), PLOCK_BAD_CONFIG);
    CHECK_LACKS(error.message, CANARY);
    CHECK(config->password == NULL);
    plock_config_free(config);
    free(url);
}

int main(void) {
    RUN(the_part_that_is_wrong_is_named);
    RUN(an_unescaped_password_is_never_printed);
    RUN(a_refused_option_does_not_print_its_value);
    RUN(the_printed_form_has_no_secret);
    RUN(too_long_values_are_refused);
    return test_end("config refused");
}
