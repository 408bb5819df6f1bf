/* Shared by the C files of sql. */
#ifndef SQL_INTERNAL_H
#define SQL_INTERNAL_H

#include "bridge.h"
#include "sql.h"
#include <duckdb.h>

#define SQL_MAX_STATEMENT_BYTES (1024 * 1024)

struct sql_engine {
    duckdb_database database;
    char *file_metadata;
};

/* sql_bridge_parse behind the bounds on the text. */
lake_status sql_statement_parse(struct lake_str sql, struct sql_bridge_statement **out,
                                struct lake_error *err);

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
/* A source that holds a reference to `dataset`. */
struct sql_source sql_lance_source(struct lance_dataset *dataset);

#endif
