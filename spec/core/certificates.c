#include "certificates.h"

#include "test.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const long DAY = 24 * 3600;

typedef struct identity {
    EVP_PKEY *key;
    X509 *certificate;
} identity;

static EVP_PKEY *make_key(void) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    CHECK(context && EVP_PKEY_keygen_init(context) == 1 &&
          EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1 &&
          EVP_PKEY_keygen(context, &key) == 1);
    EVP_PKEY_CTX_free(context);
    return key;
}

static void add_extension(X509 *certificate, X509 *issuer, int kind, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    CHECK(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* Makes a certificate that the authority signs. If authority is NULL, makes an authority, which
 * signs its own certificate. */
static identity make(const char *common_name, const char *names, const identity *authority,
                     long from, long to) {
    static long serial = 1;
    identity made = {make_key(), X509_new()};
    X509 *issuer = authority ? authority->certificate : made.certificate;
    X509_NAME *name = X509_get_subject_name(made.certificate);
    CHECK(X509_set_version(made.certificate, 2) == 1);
    CHECK(ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial++) == 1);
    CHECK(X509_gmtime_adj(X509_getm_notBefore(made.certificate), from) &&
          X509_gmtime_adj(X509_getm_notAfter(made.certificate), to));
    CHECK(X509_set_pubkey(made.certificate, made.key) == 1);
    CHECK(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name,
                                     -1, -1, 0) == 1);
    CHECK(X509_set_issuer_name(made.certificate, X509_get_subject_name(issuer)) == 1);
    add_extension(made.certificate, issuer, NID_basic_constraints,
                  authority ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (names) add_extension(made.certificate, issuer, NID_subject_alt_name, names);
    CHECK(X509_sign(made.certificate, authority ? authority->key : made.key, EVP_sha256()) > 0);
    return made;
}

static void forget(identity made) {
    EVP_PKEY_free(made.key);
    X509_free(made.certificate);
}

static void write_pem(const char *path, const identity *made, bool with_key,
                      const char *passphrase) {
    FILE *file = fopen(path, "w");
    if (!CHECK(file != NULL)) return;
    CHECK(PEM_write_X509(file, made->certificate) == 1);
    if (with_key)
        CHECK(PEM_write_PKCS8PrivateKey(file, made->key, passphrase ? EVP_aes_128_cbc() : NULL,
                                        NULL, 0, NULL, (void *)(uintptr_t)passphrase) == 1);
    CHECK(fclose(file) == 0);
}

static void make_one(char *path, const certificates *all, const char *name, const char *names,
                     const identity *authority, long from, long to) {
    const identity made = make(name, names, authority, from, to);
    (void)snprintf(path, sizeof all->ca, "%s/%s.pem", all->folder, name);
    write_pem(path, &made, true, NULL);
    forget(made);
}

bool certificates_make(certificates *made) {
    (void)snprintf(made->folder, sizeof made->folder, "/tmp/plock-tls-XXXXXX");
    if (!CHECK(mkdtemp(made->folder) != NULL)) return false;
    const identity ca = make("plock test authority", NULL, NULL, -DAY, DAY),
                   other = make("another authority", NULL, NULL, -DAY, DAY);
    (void)snprintf(made->ca, sizeof made->ca, "%s/ca.pem", made->folder);
    (void)snprintf(made->other_ca, sizeof made->other_ca, "%s/other.pem", made->folder);
    write_pem(made->ca, &ca, false, NULL);
    write_pem(made->other_ca, &other, false, NULL);
    make_one(made->named, made, "named", "DNS:localhost,DNS:*.store.example", &ca, -DAY, DAY);
    make_one(made->addressed, made, "addressed", "IP:127.0.0.1,IP:::1", &ca, -DAY, DAY);
    make_one(made->expired, made, "expired", "DNS:localhost", &ca, -2 * DAY, -DAY);
    make_one(made->unborn, made, "unborn", "DNS:localhost", &ca, DAY, 2 * DAY);
    make_one(made->client, made, "client", NULL, &ca, -DAY, DAY);
    make_one(made->stranger, made, "stranger", NULL, &other, -DAY, DAY);
    const identity locked = make("locked", NULL, &ca, -DAY, DAY);
    (void)snprintf(made->locked, sizeof made->locked, "%s/locked.pem", made->folder);
    write_pem(made->locked, &locked, true, "sesame");
    forget(locked);
    forget(ca);
    forget(other);
    (void)snprintf(made->garbage, sizeof made->garbage, "%s/garbage.pem", made->folder);
    FILE *file = fopen(made->garbage, "w");
    CHECK(file != NULL && fputs("-----BEGIN CERTIFICATE-----\nnothing\n", file) >= 0 &&
          fclose(file) == 0);
    return true;
}

void certificates_remove(const certificates *made) {
    const char *const paths[] = {made->ca,      made->other_ca, made->named,  made->addressed,
                                 made->expired, made->unborn,   made->client, made->stranger,
                                 made->locked,  made->garbage};
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) (void)unlink(paths[i]);
    CHECK(rmdir(made->folder) == 0);
}
