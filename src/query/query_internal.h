/*
 * What the files of `query` share: the server's parts, and the small seams between them.
 *
 *   service.c    the Flight methods: decodes, dispatches, answers
 *   statement.c  GetFlightInfo, GetSchema, DoGet and prepared handles of SELECTs
 *   tables.c     from a statement's references to exactly pinned, opened datasets
 *   plans.c      plans kept for the next time
 *   directory.c  the catalog in memory (CAT)
 *   listing.c    catalog, schema and table listings from it
 *   sql_info.c   what the server says of itself
 *   append.c     DoPut, checked and passed on to Metasrv
 *   change.c     deletes and updates: rows found here, changed by Metasrv
 *   stage.c      where the caller's objects are
 *   metasrv.c    the one channel to Metasrv
 *   ticket.c, admission.c, watchdog.c, running.c   sealing, places, execution time, cancelling
 */
#ifndef QUERY_INTERNAL_H
#define QUERY_INTERNAL_H

#include "admission.h"
#include "plans.h"
#include "query.h"
#include "running.h"
#include "ticket.h"
#include "watchdog.h"

#include <flight/flight.h>
#include <sql/sql.h>

#include <lake.pb-c.h>

#define QUERY_CATALOG "lake"

/* What one row of a result may take: as much as an append may bring (SDK-4). Clients have limits of
 * their own, ADBC's is 16 MiB unless it is told otherwise, and name them when a row is beyond
 * (F01); every batch of more than a row stays near 2 MiB. */
#define QUERY_MAX_ROW_BYTES ((uint64_t)64 * 1024 * 1024)

struct query_metasrv;
struct query_directory;
struct query_tables;
struct query_stage;

struct query_server {
    struct query_options options;
    struct rpc_server *rpc;
    struct query_metasrv *metasrv;
    struct query_directory *directory;
    struct query_tables *tables;
    struct query_plans *plans;
    struct query_stage *stage;
    struct query_admission *admission;
    struct query_watchdog *watchdog;
    struct query_running *running;
    struct query_ticket_keys *ticket_keys;
    struct sql_engine *engine;
};

/* ---- metasrv.c ---- */

lake_status query_metasrv_open(const struct query_options *options, struct query_metasrv **out,
                               struct lake_error *err);
void query_metasrv_free(struct query_metasrv *metasrv);
/* One action, on behalf of `principal` (NULL: of this server itself). `reply` is cleared and
 * receives the body of the first result, empty when there is none. */
lake_status query_metasrv_action(struct query_metasrv *metasrv,
                                 const struct rpc_principal *principal, const char *type,
                                 struct lake_bytes body, struct base_buffer *reply,
                                 struct lake_error *err);
/* The same for one that may take long. */
lake_status query_metasrv_action_within(struct query_metasrv *metasrv,
                                        const struct rpc_principal *principal, int64_t deadline_ms,
                                        const char *type, struct lake_bytes body,
                                        struct base_buffer *reply, struct lake_error *err);
/* Starts a DoPut on behalf of `principal`. */
lake_status query_metasrv_put(struct query_metasrv *metasrv, const struct rpc_principal *principal,
                              int64_t deadline_ms, struct rpc_client_call **out,
                              struct lake_error *err);

/* ---- directory: the catalog in memory (CAT-1) ---- */

struct query_registration { /* immutable; views into its snapshot */
    struct lake_str namespace_name, table, location, engine, incarnation;
    struct lake_bytes schema_ipc;
};
struct query_snapshot { /* immutable and reference-counted; sorted by namespace, then table */
    const struct query_registration *tables;
    size_t count;
    struct lake_str authority;
    uint64_t generation;
};
/* Fetches the first snapshot, then follows Metasrv from a thread of its own. */
lake_status query_directory_open(struct query_metasrv *metasrv, struct query_directory **out,
                                 struct lake_error *err);
void query_directory_free(struct query_directory *directory);
const struct query_snapshot *query_directory_snapshot(struct query_directory *directory);
void query_snapshot_unref(const struct query_snapshot *snapshot);
/* Asks Metasrv now: after a command that changed the directory, or when a table was not found. */
lake_status query_directory_refresh(struct query_directory *directory, struct lake_error *err);
/* Without regard to case; NULL when there is none. */
const struct query_registration *query_snapshot_find(const struct query_snapshot *snapshot,
                                                     struct lake_str namespace_name,
                                                     struct lake_str table);

/* ---- stage.c (OBJ-2) ---- */

/* Asks nothing yet. Both are borrowed. */
lake_status query_stage_new(struct query_metasrv *metasrv, struct query_directory *directory,
                            struct query_stage **out, struct lake_error *err);
void query_stage_free(struct query_stage *stage);
/* The caller's child of the stage, such as "file:///data/objects/tenants/t1"; base_free. */
lake_status query_stage_uri(struct query_stage *stage, const struct rpc_principal *principal,
                            char **out, struct lake_error *err);
/* Appends the descriptor of that child, the reply of lake.stage. */
lake_status query_stage_describe(struct query_stage *stage, const struct rpc_principal *principal,
                                 struct base_buffer *out, struct lake_error *err);
/* Appends a PresignedRead for an object in that child, the reply of lake.presign_read (OBJ-8).
 * PERMISSION_DENIED for an object elsewhere, UNIMPLEMENTED for a local stage. */
lake_status query_stage_presign(struct query_server *server, const struct rpc_principal *principal,
                                struct lake_bytes request, struct base_buffer *out,
                                struct lake_error *err);

/* ---- tables.c ---- */

lake_status query_tables_new(struct query_tables **out, struct lake_error *err);
void query_tables_free(struct query_tables *tables);
/* The store at "file:///…" or "s3://bucket/prefix", on this server's one bucket. */
lake_status query_tables_store(struct query_tables *tables, struct lake_str location,
                               struct storage_store **out, struct lake_error *err);
/* Authorises every reference (SQL-7) and pins its newest version, or the one that it names. */
lake_status query_tables_resolve(struct query_server *server, const struct rpc_principal *principal,
                                 const struct sql_references *references,
                                 struct query_resolved *out, struct lake_error *err);
/* Opens exactly what a ticket pins; asks nothing mutable (SQL-3, NAT-5). */
lake_status query_tables_reopen(struct query_server *server, const struct query_pin *pins,
                                size_t pin_count, struct query_resolved *out,
                                struct lake_error *err);

/* ---- the handlers' parts ---- */

/* Each `query_…_info` fills `out` with the bytes of a FlightInfo (or SchemaResult) message. */
lake_status query_statement_info(struct query_server *server, const struct rpc_principal *principal,
                                 struct lake_str sql, struct lake_bytes descriptor,
                                 bool schema_only, struct base_buffer *out, struct lake_error *err);
lake_status query_statement_run(struct query_server *server, struct rpc_call *call,
                                struct lake_bytes sealed_ticket, struct lake_error *err);
/* Ends what runs here of the caller's tickets in `info`; `count`: how many runs that were. */
lake_status query_statement_cancel(struct query_server *server,
                                   const struct rpc_principal *principal,
                                   const struct flight_info *info, struct base_arena *arena,
                                   size_t *count, struct lake_error *err);
lake_status query_prepared_create(struct query_server *server,
                                  const struct rpc_principal *principal, struct lake_str sql,
                                  struct base_buffer *out, struct lake_error *err);
/* The SQL of a prepared statement's handle, valid until the ticket is released. */
lake_status query_prepared_open(struct query_server *server, const struct rpc_principal *principal,
                                struct lake_bytes handle, struct query_ticket *out,
                                struct lake_error *err);

/* The bytes of a FlightInfo with one endpoint on this server. */
lake_status query_info_encode(struct lake_bytes schema, struct lake_bytes ticket,
                              struct lake_bytes descriptor, struct base_buffer *out,
                              struct lake_error *err);

/* True for the commands that listing.c and sql_info.c answer. */
bool query_is_listing(enum flight_sql_command_kind kind);
lake_status query_listing_info(const struct flight_sql_command *command,
                               struct lake_bytes command_bytes, struct lake_bytes descriptor,
                               bool schema_only, struct base_buffer *out, struct lake_error *err);
lake_status query_listing_run(struct query_server *server, struct rpc_call *call,
                              const struct flight_sql_command *command, struct lake_error *err);
/* The rows of GetSqlInfo and of GetXdbcTypeInfo. */
lake_status query_sql_info_rows(const struct flight_sql_command *command, struct ArrowArray *out,
                                struct lake_error *err);
lake_status query_xdbc_type_rows(const struct flight_sql_command *command,
                                 const struct ArrowSchema *schema, struct ArrowArray *out,
                                 struct lake_error *err);

/* The action lake.change_rows: ChangeRowsCommand -> ChangeRowsResult. */
lake_status query_change_rows(struct query_server *server, struct rpc_call *call,
                              struct lake_bytes body, struct base_buffer *out,
                              struct lake_error *err);
lake_status query_put_run(struct query_server *server, struct rpc_call *call,
                          struct lake_error *err);

lake_status query_add_methods(struct query_server *server, struct lake_error *err);

#endif
