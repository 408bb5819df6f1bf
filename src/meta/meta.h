/*
 * meta: Metasrv, the only commit authority (AUT-1).
 *
 * It keeps the registry (which tables exist, as which incarnation) in a key-value store, commits
 * appends to their Lance datasets, records their operations so that a retry finds its first version
 * (NAT-6), and writes the reference deltas that collection reads (NAT-12). It speaks Flight actions
 * and DoPut; proto/lake.proto has the messages. It never serves table or object bytes (AUT-3).
 *
 * Thread rule: a service is started and stopped by one thread; it serves on its own.
 */
#ifndef META_META_H
#define META_META_H

#include <base/base.h>
#include <rpc/rpc.h>

struct meta_service;

struct meta_options {
    const char *data_dir; /* required: registry/, tables/, objects/, reference-deltas/ below it */
    const char *address;  /* "127.0.0.1:0" by default */
    const struct rpc_authenticator *authenticator; /* required; borrowed */
    const char *tls_cert_path;
    const char *tls_key_path;
    bool allow_insecure;
    uint64_t append_retention_s; /* NAT-6; default 7 days */
    bool compaction;             /* tables that grow are compacted in the background */
    uint64_t retain_versions;    /* NAT-11: clean-ups leave so many of the newest; default 10 */
    uint64_t cleanup_grace_s;    /* and files that nobody refers to for so long; default 7 days */
    /* NAT-10, OBJ-2: not NULL keeps tables, objects and reference deltas in this S3 bucket; the
     * registry stays below data_dir. Where the bucket is and whose credentials: as AWS's own tools
     * find them. */
    const char *s3_bucket;
    const char *table_prefix;  /* NULL: the bucket's root */
    const char *object_prefix; /* NULL: "objects" */
};
/* Defaults, then LAKE_APPEND_OPERATION_RETENTION_SECS, LAKE_TLS_CERT_FILE, LAKE_TLS_KEY_FILE and
 * LAKE_ALLOW_INSECURE, LAKE_COMPACTION (on by default),
 * LAKE_LANCE_RETAIN_VERSIONS, LAKE_CLEANUP_GRACE_SECS, LAKE_S3_BUCKET, LAKE_TABLE_PREFIX and
 * LAKE_MANAGED_OBJECT_PREFIX. */
lake_status meta_options_from_environment(struct meta_options *options, struct lake_error *err);

/* Opens the data directory (made when absent), recovers what a crash left and logs what it found.
 * FAILED_PRECONDITION when another process uses the directory. Binds no port. */
lake_status meta_service_open(const struct meta_options *options, struct meta_service **out,
                              struct lake_error *err);
lake_status meta_service_start(struct meta_service *service, struct lake_error *err);
int meta_service_port(const struct meta_service *service);
/* OPS-1. */
lake_status meta_service_stop(struct meta_service *service, int64_t grace_ms,
                              struct lake_error *err);
void meta_service_free(struct meta_service *service); /* NULL is allowed */

/* Headers by which a Query server names the principal it acts for (NAT-13). Accepted only from the
 * roles query_service and admin. */
#define META_HEADER_PRINCIPAL  "lake-on-behalf-of"
#define META_HEADER_TENANT     "lake-tenant"
#define META_HEADER_NAMESPACES "lake-namespaces" /* comma-separated, or "*" */

#endif
