/* The floor: the fastest that a lock on one Redis could be. */
#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SAMPLES = 200000, TTL_MS = 10000, ARGS_MAX = 6, SHA_HEX = 40 };

static const char TAKE[] =
    "if redis.call('SET',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 end return 0";
static const char GIVE[] =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";
static const char KEY[] = "bench:floor";
static const char TOKEN[] = "6f1c8a52-0b7e-4d39-9a41-2f5d80c3be17";

typedef struct {
    int argc;
    const char *argv[ARGS_MAX];
    size_t len[ARGS_MAX];
    char sha[SHA_HEX + 1];
} call_t;

static redisContext *redis;
static call_t take, give;

static void fail(const char *why) {
    fprintf(stderr, "floor: %s%s%s\n", why, redis && redis->err ? ": " : "",
            redis && redis->err ? redis->errstr : "");
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void prepare(call_t *call, const char *script, const char *ttl) {
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", script);
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != SHA_HEX)
        fail("SCRIPT LOAD failed");
    memcpy(call->sha, reply->str, SHA_HEX + 1);
    freeReplyObject(reply);

    const char *words[ARGS_MAX] = {"EVALSHA", call->sha, "1", KEY, TOKEN, ttl};
    call->argc = ttl ? ARGS_MAX : ARGS_MAX - 1;
    for (int i = 0; i < call->argc; i++) {
        call->argv[i] = words[i];
        call->len[i] = strlen(words[i]);
    }
}

static void perform(call_t *call) {
    redisReply *reply = redisCommandArgv(redis, call->argc, call->argv, call->len);
    if (!reply || reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        fail("a call was refused");
    freeReplyObject(reply);
}

static void pair(void) {
    perform(&take);
    perform(&give);
}

static int ascending(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t after(double seconds) { return now_ns() + (uint64_t)(seconds * 1e9); }

static void measure(double warm, double seconds) {
    static uint64_t took[MAX_SAMPLES];
    for (uint64_t end = after(warm); now_ns() < end;) pair();

    const uint64_t start = now_ns(), end = after(seconds);
    uint64_t at = start;
    size_t pairs = 0;
    while (at < end && pairs < MAX_SAMPLES) {
        const uint64_t before = at;
        pair();
        at = now_ns();
        took[pairs++] = at - before;
    }
    qsort(took, pairs, sizeof *took, ascending);
    printf("{\"pairs\":%zu,\"seconds\":%.6f,\"p50_us\":%.2f,\"p99_us\":%.2f}\n", pairs,
           (double)(at - start) / 1e9, (double)took[pairs / 2] / 1e3,
           (double)took[pairs * 99 / 100] / 1e3);
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage: floor tcp PORT | floor unix PATH");
    const bool tcp = strcmp(argv[1], "tcp") == 0;
    redis = tcp ? redisConnect("127.0.0.1", atoi(argv[2])) : redisConnectUnix(argv[2]);
    if (!redis || redis->err) fail("cannot connect");

    char ttl[16];
    snprintf(ttl, sizeof ttl, "%d", TTL_MS);
    prepare(&take, TAKE, ttl);
    prepare(&give, GIVE, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("{\"versions\":{\"hiredis\":\"%d.%d.%d\"}}\n", HIREDIS_MAJOR, HIREDIS_MINOR,
           HIREDIS_PATCH);

    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        double warm, seconds;
        long pairs;
        if (sscanf(line, "time %lf %lf", &warm, &seconds) == 2) {
            measure(warm, seconds);
        } else if (sscanf(line, "count %ld", &pairs) == 1) {
            for (long i = 0; i < pairs; i++) pair();
            printf("{\"pairs\":%ld}\n", pairs);
        } else {
            fail("an order it does not know");
        }
    }
    redisFree(redis);
    return 0;
}
