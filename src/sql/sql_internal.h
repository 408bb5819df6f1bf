/* Shared by the C files of sql. */
#ifndef SQL_INTERNAL_H
#define SQL_INTERNAL_H

#include "bridge.h"
#include "sql.h"
#include <duckdb.h>
#include <pthread.h>
#include <stdatomic.h>

#define SQL_MAX_STATEMENT_BYTES (1024 * 1024)

/* One DuckDB. A fatal error in a statement makes it refuse all others for ever (Q08), so an engine
 * replaces it; statements that are under way keep the one that they began on. */
struct sql_instance {
    atomic_uint references;
    duckdb_database database;
};

struct sql_engine {
    struct sql_engine_options options;
    char *temp_directory;
    char *file_metadata;
    pthread_mutex_t lock; /* guards current; held while it is replaced */
    struct sql_instance *current;
};

/* A reference to an instance that works. */
lake_status sql_engine_take(struct sql_engine *engine, struct sql_instance **out,
                            struct lake_error *err);
void sql_instance_unref(struct sql_instance *instance); /* NULL is allowed */

/* Runs a statement of our own on a connection of its own. */
lake_status sql_engine_run(duckdb_database database, const char *sql, struct lake_error *err);

/* sql_bridge_parse behind the bounds on the text. */
lake_status sql_statement_parse(struct lake_str sql, struct sql_bridge_statement **out,
                                struct lake_error *err);

/* The result's schema as everybody writes it. */
lake_status sql_result_schema(const struct sql_bridge_query *query, struct ArrowSchema *out,
                              struct lake_error *err);
/* The marks of a FILE field in the C data interface's encoding; free with base_free. */
lake_status sql_file_metadata_new(char **out, struct lake_error *err);

/* half.c: half floats, at any depth, as the engine's floats. */
bool sql_half_in(const struct ArrowSchema *schema);
lake_status sql_half_widen_schema(struct ArrowSchema *schema, struct lake_error *err);
uint16_t sql_half_of(float value); /* rounds to the nearest, ties to even */
/* `schema` is the one before widening. */
lake_status sql_half_widen(const struct ArrowSchema *schema, struct ArrowArray *array,
                           struct lake_error *err);

/* exact.c: what the engine would round away. The schema's side, sql_exact_schema, is in bridge.h.
 */
/* True when batches of `schema` must pass sql_exact_check. */
bool sql_exact_needs_check(const struct ArrowSchema *schema);
/* OUT_OF_RANGE, naming the column, for a duration that no interval holds. */
lake_status sql_exact_check(const struct ArrowSchema *schema, const struct ArrowArray *batch,
                            struct lake_error *err);

/* dictionary.c: dictionaries of the plain columns that the engine makes of them. */
bool sql_dictionary_in(const struct ArrowSchema *schema); /* at any depth */
/* Turns each dictionary into what its values are; ENOMEM. */
int sql_dictionary_plain_schema(struct ArrowSchema *schema);
/* The reverse for an array of that plain schema, which is replaced. ERANGE when there are more
 * values than an index counts, ENOMEM; then the array is still to be released. */
int sql_dictionary_encode(const struct ArrowSchema *wanted, struct ArrowArray *array);

/* A table of a statement over any source; the query takes the source over. */
struct sql_source_table {
    const char *catalog;
    const char *schema;
    const char *table;
    uint64_t at_version;
    struct sql_source source;
};
/* sql_query_prepare over any sources; takes every source over, also on failure. */
lake_status sql_query_prepare_sources(struct sql_engine *engine, struct lake_str sql,
                                      const struct sql_source_table *tables, size_t table_count,
                                      const struct sql_query_options *options,
                                      struct sql_query **out, struct lake_error *err);
/* What a batch's 32-bit offsets may reach, lowered by tests (Q05). */
void sql_query_set_offset_limit(struct sql_query *query, int64_t offset_bytes);

#endif
