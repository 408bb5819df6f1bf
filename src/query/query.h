/*
 * query: the Query server (SQL-1..SQL-9). Stateless: it authorises and resolves the tables of a
 * statement, plans on exactly these versions, seals them into the ticket, and reads table data
 * straight from storage. It forwards appends and table commands to Metasrv, whose answer is the
 * truth, and hands out the caller's stage (OBJ-2).
 *
 * Thread rule: a server is started and stopped by one thread; it serves on its own.
 */
#ifndef QUERY_QUERY_H
#define QUERY_QUERY_H

#include <base/base.h>
#include <rpc/rpc.h>

struct query_server;

struct query_options {
    const char *address;                           /* "127.0.0.1:0" by default */
    const char *meta_address;                      /* "host:port" of Metasrv; required */
    const struct rpc_authenticator *authenticator; /* required; borrowed */
    const char *tls_cert_path;
    const char *tls_key_path;
    bool allow_insecure;
    const char *meta_token_path;  /* LAKE_METADATA_AUTH_TOKEN_FILE */
    const char *meta_ca_path;     /* LAKE_METADATA_CA_FILE */
    const char *meta_server_name; /* LAKE_METADATA_SERVER_NAME */
    const char *ticket_keys_path; /* LAKE_QUERY_TICKET_KEYS_FILE; required off loopback (TIX-2) */
    uint64_t ticket_ttl_s;        /* LAKE_QUERY_TICKET_TTL_SECS: 300, 1..=3600 */
    uint64_t max_concurrent;      /* ADM-1 and their variables */
    uint64_t max_concurrent_per_tenant;
    uint64_t max_tracked_tenants;
    uint64_t queue_timeout_ms;
    uint64_t execution_timeout_ms;
    uint64_t max_sql_bytes;
    uint64_t memory_limit_bytes; /* of the engine; LAKE_QUERY_MEMORY_BYTES; 0: half the machine's */
    const char *temp_directory;  /* spilling; LAKE_QUERY_TEMP_DIR */
};
/* Defaults, then the variables above; a bad value names its variable and range. */
lake_status query_options_from_environment(struct query_options *options, struct lake_error *err);

/* Opens the engine and connects to Metasrv (CAT-4: before the port is bound). */
lake_status query_server_open(const struct query_options *options, struct query_server **out,
                              struct lake_error *err);
lake_status query_server_start(struct query_server *server, struct lake_error *err);
int query_server_port(const struct query_server *server);
lake_status query_server_stop(struct query_server *server, int64_t grace_ms,
                              struct lake_error *err); /* OPS-1 */
void query_server_free(struct query_server *server);   /* NULL is allowed */

#endif
