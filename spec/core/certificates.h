/* Certificates for the tests of TLS. Each test program makes its own, in its own folder. */
#ifndef CERTIFICATES_H
#define CERTIFICATES_H

#include <stdbool.h>

/* Paths of PEM files. Each certificate is in one file with its key. */
typedef struct certificates {
    char folder[40];
    char ca[64];        /* the authority's certificate, without its key */
    char other_ca[64];  /* the certificate of another authority, which signed only `stranger` */
    char named[64];     /* for the names localhost and *.store.example */
    char addressed[64]; /* for the addresses 127.0.0.1 and ::1 */
    char expired[64];   /* for localhost, expired yesterday */
    char unborn[64];    /* for localhost, valid from tomorrow */
    char client[64];    /* for a client */
    char stranger[64];  /* for a client, signed by the other authority */
    char locked[64];    /* the client's certificate, with a key that needs a passphrase */
    char garbage[64];   /* not a PEM file */
} certificates;

/* Returns false if the certificates could not be made. */
bool certificates_make(certificates *made);
void certificates_remove(const certificates *made);

#endif
