/*
 * sql: DuckDB as Lake's SQL engine.
 *
 * One locked-down instance for the process, one connection a statement. A statement is parsed
 * first: exactly one SELECT (or EXPLAIN of one), its table references extracted for authorisation
 * (SQL-7), its table functions checked against a whitelist. It is then planned on exactly the
 * tables that the caller resolved, its request-local catalog (SQL-3): nothing else exists for it.
 *
 * bridge_*.cc are the only C++ of Lake: they give DuckDB the catalog `lake` and its scan.
 *
 * Thread rule: an engine is shared freely; a query belongs to one thread, except for
 * sql_query_interrupt.
 */
#ifndef SQL_SQL_H
#define SQL_SQL_H

#include <arrow/arrow.h>
#include <base/base.h>
#include <lance/lance.h>

/* ---- the engine ---- */

struct sql_engine;

struct sql_engine_options {
    uint32_t threads;            /* 0: the machine's */
    uint64_t memory_limit_bytes; /* 0: half of the machine's */
    const char *temp_directory;  /* spilling; NULL: none, queries fail cleanly when out of memory */
    uint64_t temp_limit_bytes;   /* 0: 16 GiB */
};
void sql_engine_options_init(struct sql_engine_options *options);
lake_status sql_engine_open(const struct sql_engine_options *options, struct sql_engine **out,
                            struct lake_error *err);
void sql_engine_free(struct sql_engine *engine); /* after its queries; NULL is allowed */

/* ---- table references before planning (SQL-5, SQL-6, SQL-7) ---- */

struct sql_table_ref { /* "" where the statement did not say; case as written */
    const char *catalog;
    const char *schema;
    const char *table;
    uint64_t at_version; /* AT (VERSION => n), 0: none */
};
struct sql_references {
    struct sql_table_ref *refs; /* each distinct table once */
    size_t count;
    bool explain;
    struct base_arena *memory;
};
#define SQL_MAX_REFERENCES 256

/* The stable text of SQL-5. */
#define SQL_READ_ONLY_MESSAGE \
    "Lake's SQL is read-only: only SELECT is supported; DDL and DML go through the client library"

/*
 * Parses without planning and without side effects. INVALID_ARGUMENT: a syntax error (the parser's
 * message with its position), no statement, several statements, or SQL_READ_ONLY_MESSAGE for
 * anything that is not a SELECT or an EXPLAIN of one. PERMISSION_DENIED: a table function or a
 * scalar function that could reach outside the granted tables (SQL-6), by its name. CTE names,
 * lambda parameters and subquery aliases are not references; a table of the same name inside the
 * CTE's own body is.
 */
lake_status sql_references_parse(struct sql_engine *engine, struct lake_str sql,
                                 struct sql_references *out, struct lake_error *err);
void sql_references_fini(struct sql_references *references);

/* ---- statements ---- */

/* One table of the request-local catalog. Names are matched without regard to case, as the engine
 * does. The query takes a reference to the dataset. */
struct sql_table {
    const char *catalog; /* "lake" */
    const char *schema;
    const char *table;
    uint64_t at_version; /* as in the reference that this one answers; 0: none */
    struct lance_dataset *dataset;
    bool row_addresses; /* SQL_ROW_ADDRESS, a uint64, is there beside the table's columns */
};
/* Fragment id << 32 | offset in the fragment. Only who names it meets it, and no user does: `*`,
 * COLUMNS and the row as a struct are without it. */
#define SQL_ROW_ADDRESS "lake:row address"

struct sql_query_options {
    int64_t batch_rows;         /* target rows of a result batch; default 65536 */
    int64_t batch_bytes;        /* target bytes of a result batch; default 2 MiB */
    const char *default_schema; /* what unqualified names mean; NULL: "main" */
};
void sql_query_options_init(struct sql_query_options *options);

struct sql_query;
/* Binds and plans `sql` on exactly `tables`; runs sql_references_parse's checks again. Errors of
 * the user's SQL are INVALID_ARGUMENT with the engine's message; a missing table NOT_FOUND. */
lake_status sql_query_prepare(struct sql_engine *engine, struct lake_str sql,
                              const struct sql_table *tables, size_t table_count,
                              const struct sql_query_options *options, struct sql_query **out,
                              struct lake_error *err);
/* The result's schema. Borrowed. A column that is a FILE column of a table, projected as it is,
 * keeps its field metadata (NAT-3). */
const struct ArrowSchema *sql_query_schema(const struct sql_query *query);
/* The next batch, moved out, coalesced to the targets; *end at the end. The first call starts
 * execution; it streams: memory does not grow with the result. CANCELLED after an interrupt,
 * RESOURCE_EXHAUSTED out of memory. */
lake_status sql_query_next(struct sql_query *query, struct ArrowArray *out, bool *end,
                           struct lake_error *err);
/* Makes a query that ran to its end, or not at all, run once more from its start, without planning:
 * true. False when it has to be prepared anew: it failed, was interrupted or left early, or the
 * same statement on the same tables may give other rows the next time (now(), random()). */
bool sql_query_rewind(struct sql_query *query);
/* False once a fatal error, of any statement, has broken the instance that it was prepared on: it
 * has to be prepared anew, on another one (Q08). */
bool sql_query_usable(const struct sql_query *query);
void sql_query_interrupt(struct sql_query *query); /* thread-safe, any number of times */
void sql_query_free(struct sql_query *query);      /* NULL is allowed */

/* ---- the rows of a delete or an update ---- */

struct sql_assignment {
    struct lake_str expression;       /* over the table's columns */
    const struct ArrowSchema *column; /* what it is cast to */
};
/* INVALID_ARGUMENT for text that is not one SQL expression. */
lake_status sql_expression_check(struct sql_engine *engine, struct lake_str text,
                                 struct lake_error *err);
/*
 * Appends the SELECT of the addresses of the rows of schema.table for which `predicate` holds,
 * ascending, each with the values of the expressions. To be prepared with `row_addresses`; its
 * batches become the columns' own types by sql_recast_batch. The texts have passed
 * sql_expression_check. UNIMPLEMENTED for a column whose type the engine cannot make.
 */
lake_status sql_change_statement(struct sql_engine *engine, const char *schema, const char *table,
                                 struct lake_str predicate,
                                 const struct sql_assignment *assignments, size_t count,
                                 struct base_buffer *out, struct lake_error *err);
/* Leaves of an error of that statement what its user can understand; returns the status. */
lake_status sql_change_failed(lake_status status, struct lake_error *err);

/* UNIMPLEMENTED, naming the column, when a column of `made` cannot become that of `wanted`. */
lake_status sql_recast_check(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                             struct lake_error *err);
/* Replaces the columns of `batch` whose layouts differ. INVALID_ARGUMENT, naming the column, for a
 * value that `wanted` cannot hold. */
lake_status sql_recast_batch(const struct ArrowSchema *wanted, const struct ArrowSchema *made,
                             struct ArrowArray *batch, struct lake_error *err);

/* ---- files through the engine, for `lake import` (the CLI's own process, not a server) ---- */

enum sql_file_format {
    SQL_FILE_PARQUET,
    SQL_FILE_CSV,
    SQL_FILE_JSON
};
/*
 * Streams a local file's rows, from an engine of its own without lock-down. When `target` is given
 * (a struct schema, borrowed during the call) the stream is cast to it by column name and gives
 * exactly that schema. A column that the file lacks is null where it may be; else, and for a column
 * that the target lacks, INVALID_ARGUMENT names it. A type that cannot be made of a file's columns
 * is UNIMPLEMENTED. A value that cannot be cast fails get_next, and
 * get_last_error holds the message with the column's name.
 */
lake_status sql_file_open(const char *path, enum sql_file_format format,
                          const struct ArrowSchema *target, struct ArrowArrayStream *out,
                          struct lake_error *err);

#endif
