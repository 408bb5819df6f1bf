/*
 * The C face of bridge_*.cc, the only C++ of Lake: DuckDB's parser, catalog and scan interfaces
 * exist in C++ only. No exception leaves them; every function here that can fail returns a status.
 *
 * Thread rule: an instance is shared freely; a statement and a query belong to one thread, except
 * for sql_bridge_interrupt.
 */
#ifndef SQL_BRIDGE_H
#define SQL_BRIDGE_H

#include "scan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SQL_BRIDGE_CATALOG "lake"

/* ---- the instance ---- */

/* How FILE columns are known in an Arrow schema, and the metadata that marks them in a result, in
 * the C data interface's encoding. Both must outlive the instance. */
struct sql_bridge_file_type {
    const char *extension_name;
    const char *metadata;
};
/* Gives `database`, a duckdb_database, the catalog type "lake" and the check after binding. Before
 * `ATTACH '' AS lake (TYPE lake)`. */
lake_status sql_bridge_install(void *database, const struct sql_bridge_file_type *file_type,
                               struct lake_error *err);
/* Takes away replacement scans, and from now on the check after binding refuses every plan that is
 * not a query over `lake` and the allowed table functions. */
lake_status sql_bridge_lock(void *database, struct lake_error *err);

/* What bridge_types.cc asks of exact.c: true for timestamps of nanoseconds in a zone, which are
 * plain ones to the engine, and a schema with these in their place; release it. */
bool sql_is_zoned_ns(const struct ArrowSchema *field);
lake_status sql_exact_schema(const struct ArrowSchema *schema, struct ArrowSchema *out,
                             struct lake_error *err);

/* What bridge_scan.cc asks of runs.c: where the values of a field lie, and how many of `most` rows
 * from `row` on, at least 1, hold the same value or null as the first. Types that are not looked
 * into have runs of 1. */
struct sql_run_layout {
    uint32_t item_bits;   /* of fixed-width values */
    uint32_t offset_bits; /* of strings and binaries */
};
struct sql_run_layout sql_run_layout_of(const struct ArrowSchema *field);
size_t sql_run_length(struct sql_run_layout layout, const struct ArrowArray *array, size_t row,
                      size_t most);

/* ---- parsing ---- */

struct sql_bridge_reference {
    const char *catalog;
    const char *schema;
    const char *table;
    uint64_t at_version;
};
struct sql_bridge_statement;
/* Needs no instance and has no side effect. Errors as sql_references_parse. */
lake_status sql_bridge_parse(const char *sql, size_t sql_bytes, size_t max_references,
                             struct sql_bridge_statement **out, struct lake_error *err);
size_t sql_bridge_reference_count(const struct sql_bridge_statement *statement);
/* Borrowed strings. Distinct, in order of first appearance. */
void sql_bridge_reference_get(const struct sql_bridge_statement *statement, size_t index,
                              struct sql_bridge_reference *out);
bool sql_bridge_is_explain(const struct sql_bridge_statement *statement);
/* Of a statement `SELECT [ text ]`: INVALID_ARGUMENT unless the text is one expression with one
 * value for one row. */
lake_status sql_bridge_expression_check(const struct sql_bridge_statement *statement,
                                        struct lake_error *err);
void sql_bridge_statement_free(struct sql_bridge_statement *statement);

/* ---- running ---- */

struct sql_bridge_table {
    const char *schema;
    const char *table;
    uint64_t at_version;
    struct sql_source source; /* moved in: methods->unref is called by the bridge, in every case */
};
struct sql_bridge_query;
/* A connection of its own, closed with the query. Takes the statement in every case. */
lake_status sql_bridge_prepare(void *database, struct sql_bridge_statement *statement,
                               const struct sql_bridge_table *tables, size_t table_count,
                               const char *default_schema, struct sql_bridge_query **out,
                               struct lake_error *err);
/* A statement of our own on an instance that is not locked, without tables. */
lake_status sql_bridge_prepare_trusted(void *database, const char *sql,
                                       struct sql_bridge_query **out, struct lake_error *err);
/* The engine's name of an Arrow field's type, as CAST takes it. `out` holds `out_bytes` with the
 * NUL; RESOURCE_EXHAUSTED when that is too few. */
lake_status sql_bridge_type_name(void *database, const struct ArrowSchema *field, char *out,
                                 size_t out_bytes, struct lake_error *err);
/* A fresh schema of the result. */
lake_status sql_bridge_schema(const struct sql_bridge_query *query, struct ArrowSchema *out,
                              struct lake_error *err);
struct sql_bridge_batch_limits {
    int64_t rows;         /* at most */
    int64_t bytes;        /* at most, unless one row alone is larger */
    int64_t offset_bytes; /* what 32-bit offsets reach: a larger row is RESOURCE_EXHAUSTED */
};
lake_status sql_bridge_next(struct sql_bridge_query *query,
                            const struct sql_bridge_batch_limits *limits, struct ArrowArray *out,
                            bool *end, struct lake_error *err);
bool sql_bridge_is_broken(void *database); /* a fatal error has made it refuse everything */
void sql_bridge_break(void *database);     /* as such an error does */
bool sql_bridge_rewind(struct sql_bridge_query *query); /* as sql_query_rewind */
void sql_bridge_interrupt(struct sql_bridge_query *query);
void sql_bridge_query_free(struct sql_bridge_query *query);

/* ---- what a statement may call (functions.c) ---- */

/* Lower-case names. */
bool sql_function_allowed(const char *name);
bool sql_table_function_allowed(const char *name);
/* False for what asks for the time or for random numbers. */
bool sql_function_repeatable(const char *name);
/* True for what makes several rows of one, or none. */
bool sql_function_makes_rows(const char *name);
extern const char sql_read_only_message[]; /* SQL_READ_ONLY_MESSAGE */

#ifdef __cplusplus
}
#endif

#endif
