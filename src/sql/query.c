/* Statements on their request-local tables (SQL-3). The engine's side is in bridge_query.cc. */
#include "sql_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BATCH_ROWS  65536
#define DEFAULT_BATCH_BYTES (2 * 1024 * 1024)
#define MAX_BATCH_BYTES     (1024 * 1024 * 1024) /* leaves 32-bit offsets room for one row more */

struct sql_query {
    struct sql_instance *instance;
    struct sql_bridge_query *bridge;
    struct sql_bridge_batch_limits limits;
    struct ArrowSchema schema;
    bool started;
};

void sql_query_options_init(struct sql_query_options *options)
{
    *options = (struct sql_query_options){.batch_rows = DEFAULT_BATCH_ROWS,
                                          .batch_bytes = DEFAULT_BATCH_BYTES};
}

static bool is_list(const struct ArrowSchema *schema)
{
    return strcmp(schema->format, "+l") == 0 || strcmp(schema->format, "+L") == 0 ||
           strncmp(schema->format, "+w:", 3) == 0;
}

/* The engine writes decimals as "d:p,s,128" and names the items of lists "l" or not at all; this is
 * how everybody writes them. */
static lake_status usual_form(struct ArrowSchema *schema, struct lake_error *err)
{
    size_t length = strlen(schema->format);
    if (schema->format[0] == 'd' && length > 4 &&
        strcmp(schema->format + length - 4, ",128") == 0) {
        char format[32];
        if (length - 4 >= sizeof(format)) {
            return lake_fail(err, LAKE_INTERNAL, "unexpected decimal format %s", schema->format);
        }
        memcpy(format, schema->format, length - 4);
        format[length - 4] = '\0';
        if (ArrowSchemaSetFormat(schema, format) != NANOARROW_OK) {
            return base_fail_no_memory(err, sizeof(format));
        }
    }
    if (is_list(schema) && ArrowSchemaSetName(schema->children[0], "item") != NANOARROW_OK) {
        return base_fail_no_memory(err, sizeof("item"));
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        lake_status status = usual_form(schema->children[i], err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    return LAKE_OK;
}

lake_status sql_result_schema(const struct sql_bridge_query *query, struct ArrowSchema *out,
                              struct lake_error *err)
{
    struct ArrowSchema raw = {0};
    struct ArrowSchema copy = {0};
    lake_status status = sql_bridge_schema(query, &raw, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (ArrowSchemaDeepCopy(&raw, &copy) != NANOARROW_OK) {
        status = base_fail_no_memory(err, sizeof(raw));
    }
    ArrowSchemaRelease(&raw);
    if (status == LAKE_OK) {
        status = usual_form(&copy, err);
    }
    if (status == LAKE_OK) {
        ArrowSchemaMove(&copy, out);
    } else if (copy.release != NULL) {
        ArrowSchemaRelease(&copy);
    }
    return status;
}

static void release_tables(const struct sql_source_table *tables, size_t table_count)
{
    for (size_t i = 0; i < table_count; i++) {
        tables[i].source.methods->unref(tables[i].source.object);
    }
}

static lake_status prepare(const struct sql_instance *instance, struct lake_str sql,
                           const struct sql_source_table *tables, size_t table_count,
                           const char *default_schema, struct sql_bridge_query **out,
                           struct lake_error *err)
{
    struct sql_bridge_statement *statement = NULL;
    struct sql_bridge_table *bound = base_calloc_array(BASE_MAX(table_count, 1), sizeof(*bound));
    lake_status status = bound == NULL ? base_fail_no_memory(err, table_count * sizeof(*bound))
                                       : sql_statement_parse(sql, &statement, err);
    if (status != LAKE_OK) {
        release_tables(tables, table_count);
        base_free(bound);
        return status;
    }
    for (size_t i = 0; i < table_count; i++) {
        bound[i] = (struct sql_bridge_table){.schema = tables[i].schema,
                                             .table = tables[i].table,
                                             .at_version = tables[i].at_version,
                                             .source = tables[i].source};
    }
    status = sql_bridge_prepare(instance->database, statement, bound, table_count, default_schema,
                                out, err);
    base_free(bound);
    return status;
}

lake_status sql_query_prepare_sources(struct sql_engine *engine, struct lake_str sql,
                                      const struct sql_source_table *tables, size_t table_count,
                                      const struct sql_query_options *options,
                                      struct sql_query **out, struct lake_error *err)
{
    struct sql_query_options defaults;
    sql_query_options_init(&defaults);
    if (options == NULL) {
        options = &defaults;
    }
    const char *schema = options->default_schema == NULL ? "main" : options->default_schema;
    struct sql_instance *instance = NULL;
    struct sql_bridge_query *bridge = NULL;
    lake_status status = sql_engine_take(engine, &instance, err);
    if (status != LAKE_OK) {
        release_tables(tables, table_count);
        return status;
    }
    status = prepare(instance, sql, tables, table_count, schema, &bridge, err);
    if (status != LAKE_OK) {
        sql_instance_unref(instance);
        return status;
    }
    struct sql_query *query = base_calloc_array(1, sizeof(*query));
    if (query == NULL) {
        sql_bridge_query_free(bridge);
        sql_instance_unref(instance);
        return base_fail_no_memory(err, sizeof(*query));
    }
    query->instance = instance;
    int64_t rows = options->batch_rows > 0 ? options->batch_rows : DEFAULT_BATCH_ROWS;
    int64_t bytes = options->batch_bytes > 0 ? options->batch_bytes : DEFAULT_BATCH_BYTES;
    query->bridge = bridge;
    query->limits = (struct sql_bridge_batch_limits){
        .rows = rows, .bytes = BASE_MIN(bytes, MAX_BATCH_BYTES), .offset_bytes = INT32_MAX};
    status = sql_result_schema(bridge, &query->schema, err);
    if (status == LAKE_OK) {
        *out = query;
    } else {
        sql_query_free(query);
    }
    return status;
}

void sql_query_set_offset_limit(struct sql_query *query, int64_t offset_bytes)
{
    query->limits.offset_bytes = offset_bytes;
    query->limits.bytes = BASE_MIN(query->limits.bytes, offset_bytes);
}

const struct ArrowSchema *sql_query_schema(const struct sql_query *query)
{
    return &query->schema;
}

lake_status sql_query_next(struct sql_query *query, struct ArrowArray *out, bool *end,
                           struct lake_error *err)
{
    if (!query->started && BASE_FAULT("sql.engine.breaks", NULL) != LAKE_OK) {
        sql_bridge_break(query->instance->database);
    }
    query->started = true;
    return sql_bridge_next(query->bridge, &query->limits, out, end, err);
}

bool sql_query_usable(const struct sql_query *query)
{
    return !sql_bridge_is_broken(query->instance->database);
}

bool sql_query_rewind(struct sql_query *query)
{
    query->started = false;
    return sql_query_usable(query) && sql_bridge_rewind(query->bridge);
}

void sql_query_interrupt(struct sql_query *query)
{
    sql_bridge_interrupt(query->bridge);
}

void sql_query_free(struct sql_query *query)
{
    if (query == NULL) {
        return;
    }
    sql_bridge_query_free(query->bridge);
    sql_instance_unref(query->instance);
    if (query->schema.release != NULL) {
        ArrowSchemaRelease(&query->schema);
    }
    base_free(query);
}
