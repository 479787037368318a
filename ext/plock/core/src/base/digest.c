#include "plock/digest.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

/* Looking up the algorithm costs several times more than using it, so each process looks it up
 * once. For the same reason, each thread keeps a context. */
static const EVP_MD *sha256;
static pthread_key_t context_key;
static bool usable;

static void free_context(void *context) { EVP_MD_CTX_free(context); }

static void prepare(void) {
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
    sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
#else
    sha256 = EVP_sha256();
#endif
    usable = sha256 && pthread_key_create(&context_key, free_context) == 0;
    OPENSSL_thread_stop(); /* frees OpenSSL's state of this thread; transport_tls.c says why */
}

static EVP_MD_CTX *context_of_thread(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, prepare);
    if (!usable) return NULL;
    EVP_MD_CTX *context = pthread_getspecific(context_key);
    if (context) return context;
    context = EVP_MD_CTX_new();
    if (context && !pthread_setspecific(context_key, context)) return context;
    EVP_MD_CTX_free(context);
    return NULL;
}

/* Writes the SHA-256 of `before` followed by the message. */
static bool hash(EVP_MD_CTX *context, const unsigned char *before, size_t before_length,
                 const void *message, size_t length, unsigned char *digest) {
    return EVP_DigestInit_ex(context, sha256, NULL) == 1 &&
           EVP_DigestUpdate(context, before, before_length) == 1 &&
           EVP_DigestUpdate(context, message, length) == 1 &&
           EVP_DigestFinal_ex(context, digest, NULL) == 1;
}

/* Writes the HMAC (RFC 2104): H(K ^ opad, H(K ^ ipad, message)). Does not use OpenSSL's HMAC
 * contexts, because they keep a copy of the key, and look up the digest at every use. */
static bool keyed(EVP_MD_CTX *context, const void *message, size_t length, const void *secret,
                  size_t secret_length, unsigned char *digest) {
    enum { IPAD = 0x36, OPAD = 0x5c };
    unsigned char key[SHA256_BLOCK] = {0}, pad[SHA256_BLOCK];
    bool done = true;
    if (secret_length <= sizeof key)
        memcpy(key, secret, secret_length);
    else
        done = hash(context, NULL, 0, secret, secret_length, key);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] = key[i] ^ IPAD;
    done = done && hash(context, pad, sizeof pad, message, length, digest);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] = key[i] ^ OPAD;
    done = done && hash(context, pad, sizeof pad, digest, SHA256_BYTES, digest);
    plock__wipe(key, sizeof key);
    plock__wipe(pad, sizeof pad);
    return done;
}

plock_status plock_digest(const void *message, size_t length, const void *secret,
                          size_t secret_length, char hex[PLOCK_DIGEST_HEX]) {
    unsigned char digest[SHA256_BYTES];
    EVP_MD_CTX *context = context_of_thread();
    const bool done =
        context && (secret ? keyed(context, message, length, secret, secret_length, digest)
                           : hash(context, NULL, 0, message, length, digest));
    if (done) plock__write_hex(digest, sizeof digest, hex);
    plock__wipe(digest, sizeof digest);
    if (!done) OPENSSL_thread_stop();
    return done ? PLOCK_OK : PLOCK_CRYPTO;
}

plock_status plock_token(char token[PLOCK_TOKEN_LENGTH]) {
    enum { BYTES = 16 };
    unsigned char bytes[BYTES];
    char hex[2 * BYTES];
    if (plock__random(bytes, sizeof bytes)) return PLOCK_CRYPTO;
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40); /* version 4 */
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80); /* variant of RFC 9562 */
    plock__write_hex(bytes, sizeof bytes, hex);
    static const unsigned char GROUPS[] = {8, 4, 4, 4, 12};
    size_t from = 0, to = 0;
    for (size_t group = 0; group < sizeof GROUPS; group++) {
        if (group) token[to++] = '-';
        memcpy(token + to, hex + from, GROUPS[group]);
        to += GROUPS[group];
        from += GROUPS[group];
    }
    return PLOCK_OK;
}
