/*
 * What a table is to the bridge: a schema, a row count and a scan in tasks. lance_source.c makes
 * one of a Lance dataset; anything else that can hand out Arrow batches may stand behind the same
 * table of methods, as the tests' tables in memory do.
 *
 * Thread rule: a source is shared freely and so is a scan; a task belongs to one thread at a time.
 */
#ifndef SQL_SCAN_H
#define SQL_SCAN_H

#include <lake/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ArrowArray;
struct ArrowSchema;

enum sql_filter_op {
    SQL_FILTER_EQ,
    SQL_FILTER_LT,
    SQL_FILTER_LE,
    SQL_FILTER_GT,
    SQL_FILTER_GE,
    SQL_FILTER_NE,
    SQL_FILTER_IN,
    SQL_FILTER_IS_NULL,
    SQL_FILTER_IS_NOT_NULL
};
enum sql_value_kind {
    SQL_VALUE_INT64,
    SQL_VALUE_UINT64,
    SQL_VALUE_DOUBLE,
    SQL_VALUE_BYTES
};

struct sql_value { /* in the column's own unit: days, microseconds, unscaled decimal */
    enum sql_value_kind kind;
    union {
        int64_t i64;
        uint64_t u64;
        double f64;
        struct {
            const uint8_t *data;
            size_t size;
        } bytes;
    };
};

/* One conjunct on one top-level column. A null passes only SQL_FILTER_IS_NULL; NaN is equal to
 * itself and greater than every other number, as the engine has it. */
struct sql_filter {
    uint32_t column; /* index among the source's columns */
    enum sql_filter_op op;
    const struct sql_value *values; /* one; several for SQL_FILTER_IN; none for IS [NOT] NULL */
    size_t value_count;
};

struct sql_scan_request {
    const uint32_t *columns; /* in output order; may be empty: batches then only count */
    size_t column_count;
    const struct sql_filter *filters; /* all must hold; borrowed during open */
    size_t filter_count;
    const bool *stop; /* polled atomically; true ends every task with CANCELLED */
};

struct sql_source_methods {
    /* Borrowed; a struct schema whose children are the columns. */
    const struct ArrowSchema *(*schema)(const void *source);
    uint64_t (*row_count)(const void *source); /* exact: count(*) is answered from it */
    uint64_t (*row_bytes)(const void *source); /* about what a row takes; 0: not known */
    /* At most how many runs of one value or null the rows of a column make; 0: not known, or more
     * than `most`. */
    uint64_t (*column_runs)(const void *source, uint32_t column, uint64_t most);
    void (*unref)(void *source);
    lake_status (*open)(void *source, const struct sql_scan_request *request, void **scan,
                        struct lake_error *err);
    /* True when every row of every batch satisfies filter `index`. */
    bool (*filter_applied)(const void *scan, size_t index);
    size_t (*task_count)(const void *scan);
    /* Claims the next task; *task NULL when none is left. Thread-safe. */
    lake_status (*next_task)(void *scan, void **task, struct lake_error *err);
    uint64_t (*task_index)(const void *task); /* ascending in row order */
    /* The next batch: a struct array without an offset, one child a column of the request. Validity
     * bitmaps have a byte more than they need: the engine reads it when a vector does not begin
     * with a byte's first bit. */
    lake_status (*next_batch)(void *task, struct ArrowArray *out, bool *end,
                              struct lake_error *err);
    void (*task_free)(void *task);
    void (*scan_free)(void *scan);
};

struct sql_source {
    const struct sql_source_methods *methods;
    void *object;
    bool hides_last; /* the last column is there for whoever names it; no * stands for it */
};

#endif
