/* Certificates for the tests of TLS. Each test program makes its own, in its own folder. */
#ifndef CERTIFICATES_H
#define CERTIFICATES_H

#include <stdbool.h>

/* PEM files. Each certificate is in one file with its key. */
typedef struct certificates {
    char folder[40];
    char ca[64];        /* the authority's certificate alone */
    char other_ca[64];  /* of another authority, which signed only `stranger` */
    char named[64];     /* localhost, *.store.example */
    char addressed[64]; /* 127.0.0.1, ::1 */
    char expired[64];   /* localhost, expired yesterday */
    char unborn[64];    /* localhost, valid from tomorrow */
    char client[64];    /* for a client */
    char stranger[64];  /* for a client, signed by the other authority */
    char locked[64];    /* the client's certificate, with a key that needs a passphrase */
    char garbage[64];   /* not a PEM file */
} certificates;

/* Returns false if the certificates could not be made. */
bool certificates_make(certificates *made);
void certificates_remove(const certificates *made);

#endif
