/*
 * Flight SQL's listings: catalogs, schemas, tables, table types, keys, types and server
 * information, answered from memory (CAT-3) and only for what the caller is granted.
 */
#include "query_internal.h"

#include <string.h>
#include <strings.h>

#define MESSAGE_BYTES ((size_t)8 * 1024 * 1024)
#define TABLE_TYPE    "TABLE"

bool query_is_listing(enum flight_sql_command_kind kind)
{
    return kind >= FLIGHT_SQL_GET_SQL_INFO && kind <= FLIGHT_SQL_GET_XDBC_TYPE_INFO;
}

static bool includes_schema(const struct flight_sql_command *command)
{
    return command->kind == FLIGHT_SQL_GET_TABLES && command->as.tables.include_schema;
}

lake_status query_listing_info(const struct flight_sql_command *command,
                               struct lake_bytes command_bytes, struct lake_bytes descriptor,
                               bool schema_only, struct base_buffer *out, struct lake_error *err)
{
    struct ArrowSchema schema = {0};
    struct base_buffer bytes;
    base_buffer_init(&bytes, MESSAGE_BYTES);
    lake_status status =
        flight_sql_result_schema(command->kind, includes_schema(command), &schema, err);
    if (status == LAKE_OK)
        status = arrow_ipc_schema_to_bytes(&schema, &bytes, err);
    if (status == LAKE_OK && schema_only)
        status = flight_schema_result_encode(base_buffer_view(&bytes), out, err);
    else if (status == LAKE_OK)
        status = query_info_encode(base_buffer_view(&bytes), command_bytes, descriptor, out, err);
    if (schema.release != NULL)
        schema.release(&schema);
    base_buffer_fini(&bytes);
    return status;
}

/* ---- matching ---- */

/* SQL LIKE without regard to case: % and _, with \ to take the next character as it is (F06). */
static bool like(struct lake_str text, struct lake_str pattern)
{
    size_t t = 0, p = 0, star = SIZE_MAX, resume = 0;
    while (t < text.size) {
        bool escaped = p + 1 < pattern.size && pattern.data[p] == '\\';
        if (!escaped && p < pattern.size && pattern.data[p] == '%') {
            star = p++;
            resume = t;
            continue;
        }
        size_t at = escaped ? p + 1 : p;
        if (at < pattern.size && ((!escaped && pattern.data[at] == '_') ||
                                  strncasecmp(&pattern.data[at], &text.data[t], 1) == 0)) {
            p = at + 1;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '%')
        p++;
    return p == pattern.size;
}

static bool pattern_matches(const struct flight_optional_str *pattern, struct lake_str text)
{
    return !pattern->present || like(text, pattern->value);
}

/* An empty catalog means "those without one": there are none. */
static bool catalog_matches(const struct flight_optional_str *catalog)
{
    return !catalog->present ||
           (catalog->value.size == sizeof(QUERY_CATALOG) - 1 &&
            strncasecmp(catalog->value.data, QUERY_CATALOG, catalog->value.size) == 0);
}

static bool type_matches(const struct flight_sql_command *command)
{
    if (command->as.tables.table_type_count == 0)
        return true;
    for (size_t i = 0; i < command->as.tables.table_type_count; i++) {
        if (base_str_equal_c(command->as.tables.table_types[i], TABLE_TYPE))
            return true;
    }
    return false;
}

/* ---- building rows ---- */

static lake_status append_text(struct ArrowArray *column, struct lake_str value,
                               struct lake_error *err)
{
    struct ArrowStringView view = {value.data, (int64_t)value.size};
    if (ArrowArrayAppendString(column, view) != NANOARROW_OK)
        return base_fail_no_memory(err, value.size);
    return LAKE_OK;
}

static lake_status finish_row(struct ArrowArray *rows, struct lake_error *err)
{
    return ArrowArrayFinishElement(rows) == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, 64);
}

static lake_status add_catalogs(const struct rpc_principal *principal,
                                const struct query_snapshot *snapshot,
                                const struct flight_sql_command *command, struct ArrowArray *rows,
                                struct lake_error *err)
{
    (void)principal;
    (void)snapshot;
    (void)command;
    lake_status status = append_text(rows->children[0], LAKE_STR(QUERY_CATALOG), err);
    return status == LAKE_OK ? finish_row(rows, err) : status;
}

static lake_status add_table_types(const struct rpc_principal *principal,
                                   const struct query_snapshot *snapshot,
                                   const struct flight_sql_command *command,
                                   struct ArrowArray *rows, struct lake_error *err)
{
    (void)principal;
    (void)snapshot;
    (void)command;
    lake_status status = append_text(rows->children[0], LAKE_STR(TABLE_TYPE), err);
    return status == LAKE_OK ? finish_row(rows, err) : status;
}

static bool same_namespace(const struct query_registration *a, const struct query_registration *b)
{
    return a->namespace_name.size == b->namespace_name.size &&
           strncasecmp(a->namespace_name.data, b->namespace_name.data, a->namespace_name.size) == 0;
}

/* A namespace is there while it has a table; the snapshot is sorted by it. */
static lake_status add_schemas(const struct rpc_principal *principal,
                               const struct query_snapshot *snapshot,
                               const struct flight_sql_command *command, struct ArrowArray *rows,
                               struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (!catalog_matches(&command->as.db_schemas.catalog))
        return LAKE_OK;
    for (size_t i = 0; i < snapshot->count && status == LAKE_OK; i++) {
        const struct query_registration *table = &snapshot->tables[i];
        if ((i > 0 && same_namespace(table, &snapshot->tables[i - 1])) ||
            !rpc_principal_may_use_namespace(principal, table->namespace_name) ||
            !pattern_matches(&command->as.db_schemas.db_schema_pattern, table->namespace_name))
            continue;
        status = append_text(rows->children[0], LAKE_STR(QUERY_CATALOG), err);
        if (status == LAKE_OK)
            status = append_text(rows->children[1], table->namespace_name, err);
        if (status == LAKE_OK)
            status = finish_row(rows, err);
    }
    return status;
}

static lake_status append_table_schema(struct ArrowArray *column,
                                       const struct query_registration *table,
                                       struct lake_error *err)
{
    if (table->schema_ipc.size == 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the table %.*s.%.*s was registered without a schema: list tables without "
                         "include_schema, or register it anew",
                         LAKE_STR_FMT(table->namespace_name), LAKE_STR_FMT(table->table));
    struct ArrowBufferView view = {.data.as_uint8 = table->schema_ipc.data,
                                   .size_bytes = (int64_t)table->schema_ipc.size};
    if (ArrowArrayAppendBytes(column, view) != NANOARROW_OK)
        return base_fail_no_memory(err, table->schema_ipc.size);
    return LAKE_OK;
}

static lake_status add_tables(const struct rpc_principal *principal,
                              const struct query_snapshot *snapshot,
                              const struct flight_sql_command *command, struct ArrowArray *rows,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (!catalog_matches(&command->as.tables.catalog) || !type_matches(command))
        return LAKE_OK;
    for (size_t i = 0; i < snapshot->count && status == LAKE_OK; i++) {
        const struct query_registration *table = &snapshot->tables[i];
        if (!rpc_principal_may_use_namespace(principal, table->namespace_name) ||
            !pattern_matches(&command->as.tables.db_schema_pattern, table->namespace_name) ||
            !pattern_matches(&command->as.tables.table_name_pattern, table->table))
            continue;
        status = append_text(rows->children[0], LAKE_STR(QUERY_CATALOG), err);
        if (status == LAKE_OK)
            status = append_text(rows->children[1], table->namespace_name, err);
        if (status == LAKE_OK)
            status = append_text(rows->children[2], table->table, err);
        if (status == LAKE_OK)
            status = append_text(rows->children[3], LAKE_STR(TABLE_TYPE), err);
        if (status == LAKE_OK && includes_schema(command))
            status = append_table_schema(rows->children[4], table, err);
        if (status == LAKE_OK)
            status = finish_row(rows, err);
    }
    return status;
}

typedef lake_status (*add_rows)(const struct rpc_principal *principal,
                                const struct query_snapshot *snapshot,
                                const struct flight_sql_command *command, struct ArrowArray *rows,
                                struct lake_error *err);

/* NULL: always empty, as the key commands are. */
static add_rows rows_of(enum flight_sql_command_kind kind)
{
    switch (kind) {
    case FLIGHT_SQL_GET_CATALOGS:
        return add_catalogs;
    case FLIGHT_SQL_GET_DB_SCHEMAS:
        return add_schemas;
    case FLIGHT_SQL_GET_TABLES:
        return add_tables;
    case FLIGHT_SQL_GET_TABLE_TYPES:
        return add_table_types;
    default:
        return NULL;
    }
}

static lake_status build_rows(struct query_server *server, const struct rpc_principal *principal,
                              const struct flight_sql_command *command,
                              const struct ArrowSchema *schema, struct ArrowArray *out,
                              struct lake_error *err)
{
    struct ArrowArray rows = {0};
    lake_status status = LAKE_OK;
    if (ArrowArrayInitFromSchema(&rows, schema, NULL) != NANOARROW_OK ||
        ArrowArrayStartAppending(&rows) != NANOARROW_OK) {
        if (rows.release != NULL)
            rows.release(&rows);
        return base_fail_no_memory(err, sizeof(rows));
    }
    add_rows add = rows_of(command->kind);
    if (add != NULL) {
        const struct query_snapshot *snapshot = query_directory_snapshot(server->directory);
        status = add(principal, snapshot, command, &rows, err);
        query_snapshot_unref(snapshot);
    }
    if (status == LAKE_OK && ArrowArrayFinishBuildingDefault(&rows, NULL) != NANOARROW_OK)
        status = base_fail_no_memory(err, sizeof(rows));
    if (status != LAKE_OK) {
        rows.release(&rows);
        return status;
    }
    *out = rows;
    return LAKE_OK;
}

/* Sends one batch as a whole stream; takes `array` over. */
static lake_status send_batch(struct rpc_call *call, const struct ArrowSchema *schema,
                              struct ArrowArray *array, struct lake_error *err)
{
    struct flight_stream_writer *writer = NULL;
    struct arrow_batch *batch = NULL;
    struct lake_bytes none = {0};
    lake_status status = arrow_batch_new(array, &batch, err);
    if (status == LAKE_OK)
        status = flight_stream_writer_new(flight_sender_of_call(call), schema, NULL, &writer, err);
    if (status == LAKE_OK)
        status = flight_stream_writer_begin(writer, none, none, err);
    if (status == LAKE_OK)
        status = flight_stream_writer_write(writer, batch, err);
    flight_stream_writer_free(writer);
    arrow_batch_unref(batch);
    return status;
}

lake_status query_listing_run(struct query_server *server, struct rpc_call *call,
                              const struct flight_sql_command *command, struct lake_error *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray rows = {0};
    lake_status status =
        flight_sql_result_schema(command->kind, includes_schema(command), &schema, err);
    if (status != LAKE_OK)
        return status;
    if (command->kind == FLIGHT_SQL_GET_SQL_INFO)
        status = query_sql_info_rows(command, &rows, err);
    else if (command->kind == FLIGHT_SQL_GET_XDBC_TYPE_INFO)
        status = query_xdbc_type_rows(command, &schema, &rows, err);
    else
        status = build_rows(server, rpc_call_principal(call), command, &schema, &rows, err);
    if (status == LAKE_OK)
        status = send_batch(call, &schema, &rows, err);
    schema.release(&schema);
    return status;
}
