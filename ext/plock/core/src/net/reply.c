#include "net/reply.h"

#include "base/failure.h"
#include "base/memory.h"

#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <stdio.h>
#include <string.h>

struct plock_reader {
    redisReader *hiredis;
    size_t fed;          /* bytes that were fed since the last whole reply */
    const char *refused; /* why a value was refused; NULL if none was */
    bool whole;          /* the values are a whole reply, which the caller has received */
    size_t count, text_used;
    size_t values_max, bytes_max;
    char *text; /* the texts of the values; stored after `values` */
    plock_value values[];
};

/* --- the callbacks of hiredis ---
 *
 * hiredis calls one of these for each value, parents before children. If a callback returns NULL,
 * hiredis stops reading. */

static const char NOT_RESP2[] = "a type that RESP2 does not have";

/* hiredis numbers the types of RESP3 after those of RESP2. A server must not send them to a client
 * on RESP2. */
static bool beyond_resp2(int type) { return type > REDIS_REPLY_ERROR; }

static plock_value *add(const redisReadTask *task, plock_type type) {
    plock_reader *reader = task->privdata;
    unsigned depth = 0;
    for (const redisReadTask *parent = task->parent; parent; parent = parent->parent) depth++;
    if (beyond_resp2(task->type))
        reader->refused = NOT_RESP2;
    else if (depth > PLOCK__REPLY_DEPTH_MAX)
        reader->refused = "arrays nested too deeply";
    else if (reader->count == reader->values_max)
        reader->refused = "too many values";
    if (reader->refused) return NULL;
    plock_value *value = &reader->values[reader->count++];
    *value = (plock_value){.type = type};
    return value;
}

static void *add_text(const redisReadTask *task, char *text, size_t length) {
    plock_reader *reader = task->privdata;
    plock_value *value = add(task, task->type == REDIS_REPLY_ERROR    ? PLOCK__ERROR
                                   : task->type == REDIS_REPLY_STATUS ? PLOCK__DONE
                                                                      : PLOCK__STRING);
    if (!value) return NULL;
    if (length > reader->bytes_max - reader->text_used) {
        reader->refused = "too many bytes";
        return NULL;
    }
    value->text = memcpy(reader->text + reader->text_used, text, length);
    value->length = length;
    reader->text_used += length;
    return value;
}

static void *add_integer(const redisReadTask *task, long long integer) {
    plock_value *value = add(task, PLOCK__INTEGER);
    if (value) value->integer = integer;
    return value;
}

static void *add_nil(const redisReadTask *task) { return add(task, PLOCK__NIL); }

#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif

static void *add_array(const redisReadTask *task, array_length length) {
    plock_reader *reader = task->privdata;
    if ((size_t)length > reader->values_max) { /* a negative int is huge as a size_t */
        reader->refused = "an array longer than any answer of ours";
        return NULL;
    }
    plock_value *value = add(task, PLOCK__ARRAY);
    if (value) value->length = (size_t)length;
    return value;
}

static void free_nothing(void *object) { (void)object; /* the values belong to the reader */ }

#if HIREDIS_MAJOR >= 1
/* add() refuses these two, because RESP2 has no such types. */
static void *refuse_double(const redisReadTask *task, double number, char *text, size_t length) {
    (void)number, (void)text, (void)length;
    return add_nil(task);
}

static void *refuse_bool(const redisReadTask *task, int truth) {
    (void)truth;
    return add_nil(task);
}
#endif

static redisReplyObjectFunctions functions = {
    /* not const: hiredis takes a non-const pointer */
    .createString = add_text,      .createArray = add_array,   .createInteger = add_integer,
    .createNil = add_nil,          .freeObject = free_nothing,
#if HIREDIS_MAJOR >= 1
    .createDouble = refuse_double, .createBool = refuse_bool,
#endif
};

/* --- the reader --- */

plock_reader *plock__reader_new(bool large) {
    const size_t values_max = large ? PLOCK__LARGE_REPLY_VALUES_MAX : PLOCK__REPLY_VALUES_MAX,
                 bytes_max = large ? PLOCK__LARGE_REPLY_BYTES_MAX : PLOCK__REPLY_BYTES_MAX;
    plock_reader *reader =
        plock__allocate(sizeof *reader + values_max * sizeof(plock_value) + bytes_max);
    if (!reader) return NULL;
    reader->values_max = values_max;
    reader->bytes_max = bytes_max;
    reader->text = (char *)(reader->values + values_max);
    reader->hiredis = redisReaderCreateWithFunctions(&functions);
    if (!reader->hiredis) {
        plock__free(reader);
        return NULL;
    }
    reader->hiredis->privdata = reader;
    /* 0 keeps hiredis from replacing its buffer with a smaller one. Version 0.14 of hiredis would
     * abort if memory ran out at that point. plock__reader_feed limits the size of the buffer
     * instead. */
    reader->hiredis->maxbuf = 0;
    return reader;
}

void plock__reader_free(plock_reader *reader) {
    if (!reader) return;
    redisReaderFree(reader->hiredis);
    plock__free(reader);
}

plock_status plock__reader_feed(plock_reader *reader, const char *bytes, size_t length,
                                plock_error *error) {
    reader->fed += length;
    if (reader->fed > reader->bytes_max)
        return plock__fail(error, PLOCK_PROTOCOL, "an answer of more than %zu bytes",
                           reader->bytes_max);
    if (redisReaderFeed(reader->hiredis, bytes, length) == REDIS_OK) return PLOCK_OK;
    return plock__fail_plainly(error, PLOCK_NO_MEMORY);
}

#if HIREDIS_MAJOR >= 1
#define TASK(hiredis) (hiredis)->task[(hiredis)->ridx]
#else
#define TASK(hiredis) (&(hiredis)->rstack[(hiredis)->ridx])
#endif

/* Is the bulk string that is arriving longer than a reply may be? hiredis reports a bulk string
 * only when all of it has arrived, so this function reads the length from the buffer of hiredis.
 * Once hiredis has read the '$', it knows the type of the value, and the length is next in the
 * buffer. */
static bool announces_too_much(const plock_reader *reader) {
    const redisReader *hiredis = reader->hiredis;
    if (hiredis->ridx < 0 || TASK(hiredis)->type != REDIS_REPLY_STRING) return false;
    size_t announced = 0;
    for (size_t i = hiredis->pos;
         i < hiredis->len && hiredis->buf[i] >= '0' && hiredis->buf[i] <= '9'; i++) {
        announced = announced * 10 + (size_t)(hiredis->buf[i] - '0');
        if (announced > reader->bytes_max) return true;
    }
    return false;
}

plock_status plock__reader_next(plock_reader *reader, const plock_value **values,
                                plock_error *error) {
    if (reader->whole) {
        reader->count = reader->text_used = 0;
        reader->whole = false;
    }
    void *object = NULL;
    redisReader *hiredis = reader->hiredis;
    const bool failed = redisReaderGetReply(hiredis, &object) != REDIS_OK;
    /* refuse a type of RESP3 at once, because hiredis may report the value only when it is
     * complete */
    if (!failed && !object && hiredis->ridx >= 0 && beyond_resp2(TASK(hiredis)->type))
        reader->refused = NOT_RESP2;
    if (reader->refused)
        return plock__fail(error, PLOCK_PROTOCOL, "an answer that is none of ours: %s",
                           reader->refused);
    if (failed && hiredis->err == REDIS_ERR_OOM) return plock__fail_plainly(error, PLOCK_NO_MEMORY);
    if (failed)
        return plock__fail(error, PLOCK_PROTOCOL, "an answer that is not the protocol of Redis: %s",
                           hiredis->errstr);
    if (!object) {
        if (announces_too_much(reader))
            return plock__fail(error, PLOCK_PROTOCOL,
                               "an answer that announces more than %zu bytes", reader->bytes_max);
        return PLOCK_AGAIN;
    }
    reader->fed = hiredis->len - hiredis->pos;
    reader->whole = true;
    *values = reader->values;
    return PLOCK_OK;
}

bool plock__reader_empty(const plock_reader *reader) { return reader->fed == 0; }

const plock_value *plock__element(const plock_value *array, size_t i, plock_type type) {
    if (array->type != PLOCK__ARRAY || i >= array->length) return NULL;
    /* the elements of a nested array would shift all values after it */
    for (size_t before = 0; before <= i; before++)
        if (array[1 + before].type == PLOCK__ARRAY) return NULL;
    return array[1 + i].type == type ? &array[1 + i] : NULL;
}

const plock_value *plock__value_after(const plock_value *value) {
    for (size_t left = 1; left > 0; left--, value++)
        if (value->type == PLOCK__ARRAY) left += value->length;
    return value;
}

plock_value *plock__value_copy(const plock_value *value) {
    const size_t count = value->type == PLOCK__ARRAY ? 1 + value->length : 1;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (value[i].text) bytes += value[i].length;
    plock_value *copy = plock__allocate(count * sizeof *copy + bytes);
    if (!copy) return NULL;
    char *text = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        copy[i] = value[i];
        if (!value[i].text) continue;
        copy[i].text = memcpy(text, value[i].text, value[i].length);
        text += value[i].length;
    }
    return copy;
}

/* --- errors of the server --- */

/* Recognizes errors of a cluster node, which may be anywhere in the text of a script's error. A
 * script that fails because the cluster is down has written nothing, because the cluster was
 * already down when the script began. */
static plock_status inside_script(const char *text) {
    if (strstr(text, "access a non local key") || strstr(text, "during rehashing of the slot"))
        return PLOCK_MIGRATING;
    return strstr(text, "while the cluster is down") ? PLOCK_CLUSTERDOWN : PLOCK_SERVER;
}

plock_status plock__server_error(const plock_value *value, plock_error *error) {
    static const struct {
        const char *word;
        plock_status status;
    } WORDS[] = {
        {"LOADING", PLOCK_LOADING},
        {"READONLY", PLOCK_READONLY},
        {"MASTERDOWN", PLOCK_MASTERDOWN},
        {"NOAUTH", PLOCK_NOAUTH},
        {"WRONGPASS", PLOCK_WRONGPASS},
        {"NOPERM", PLOCK_NOPERM},
        {"OOM", PLOCK_OOM},
        {"MOVED", PLOCK_MOVED},
        {"ASK", PLOCK_MOVED},
        {"CROSSSLOT", PLOCK_CROSSSLOT},
        {"CLUSTERDOWN", PLOCK_CLUSTERDOWN},
        {"TRYAGAIN", PLOCK_CLUSTERDOWN},
        {"NOSCRIPT", PLOCK_NOSCRIPT},
        {"ERR Function not found", PLOCK_NOSCRIPT},
        {"BUSY", PLOCK_BUSY},
        {"DENIED", PLOCK_NOAUTH},
        {"MISCONF", PLOCK_MISCONF},
        {"NOREPLICAS", PLOCK_MISCONF},
        /* Redis begins all of these messages with ERR. The first four mean that no password is set,
         * or that the password is wrong (before version 6). The next two mean that a script called
         * a command that the user may not run (since version 7). */
        {"ERR AUTH ", PLOCK_WRONGPASS},
        {"ERR Client sent AUTH", PLOCK_WRONGPASS},
        {"ERR invalid password", PLOCK_WRONGPASS},
        {"ERR wrong number of arguments for 'auth'", PLOCK_WRONGPASS},
        {"ERR ACL failure in script", PLOCK_NOPERM},
        {"ERR The user executing the script can't ", PLOCK_NOPERM},
        /* The remaining errors mean: too many connections; no such database (two messages); a
         * database other than 0 on a cluster; a server that is not in a cluster. */
        {"ERR max number of clients", PLOCK_FULL},
        {"ERR DB index", PLOCK_BAD_CONFIG},
        {"ERR invalid DB index", PLOCK_BAD_CONFIG},
        {"ERR SELECT is not allowed in cluster", PLOCK_MOVED},
        {"ERR This instance has cluster support disabled", PLOCK_BAD_CONFIG},
    };
    char text[PLOCK_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%.*s", (int)value->length, value->text);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = ' ';
    /* "unknown command 'AUTH', with args beginning with: …": the arguments may be secret, so remove
     * them */
    char *quoted = strstr(text, ", with args");
    if (quoted) *quoted = 0;
    /* Redis 6 wraps an error inside a script: "ERR Error running script (…): @user_script: 3:
     * -READONLY …". For a missing permission inside a script, Redis 6 has a message of its own. */
    const bool wrapped = !strncmp(text, "ERR Error running script", 24);
    const char *inner = wrapped ? strstr(text, ": -") : NULL, *start = inner ? inner + 3 : text;
    plock_status status = inside_script(text);
    if (wrapped && strstr(text, ": The user executing the script can't ")) status = PLOCK_NOPERM;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS && status == PLOCK_SERVER; i++) {
        const size_t word = strlen(WORDS[i].word);
        /* a single word must not be the beginning of a longer word */
        const bool phrase = strchr(WORDS[i].word, ' ');
        if (!strncmp(start, WORDS[i].word, word) &&
            (phrase || start[word] == ' ' || start[word] == 0))
            status = WORDS[i].status;
    }
    if (status != PLOCK_SERVER)
        return plock__fail(error, status, "%s (the server says: %.160s)", plock_status_text(status),
                           text);
    return plock__fail(error, PLOCK_SERVER, "%s: %.200s", plock_status_text(PLOCK_SERVER), text);
}
