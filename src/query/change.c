/*
 * Deletes and updates: the predicate and the new values are SQL, evaluated here on the newest
 * version; Metasrv gets the addresses and values that came out, and changes these rows on top of
 * that version (NAT-13). When others changed some of them meanwhile it is all done anew.
 */
#include "query_internal.h"

#include <string.h>
#include <strings.h>

#define MAX_ATTEMPTS      8
#define MAX_ASSIGNMENTS   1024
#define MAX_CHANGE_BYTES  ((size_t)60 * 1024 * 1024)
#define CHANGE_TIMEOUT_MS 600000
#define OVERDUE_REPEAT_MS 1000

struct change {
    struct query_server *server;
    struct rpc_call *call;
    const LakePb__ChangeRowsCommand *command;
    const char *schema;
    const char *table;
    uint8_t content_sha256[BASE_SHA256_BYTES];
};

static struct lake_str str_of(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}

/* ---- the statement ---- */

static const struct ArrowSchema *find_column(const struct ArrowSchema *table, struct lake_str name)
{
    for (int64_t i = 0; i < table->n_children; i++) {
        if (strlen(table->children[i]->name) == name.size &&
            strncasecmp(table->children[i]->name, name.data, name.size) == 0)
            return table->children[i];
    }
    return NULL;
}

static lake_status find_assignments(const struct change *change, const struct ArrowSchema *table,
                                    struct sql_assignment *out, struct lake_error *err)
{
    for (size_t i = 0; i < change->command->n_assignments; i++) {
        const LakePb__Assignment *given = change->command->assignments[i];
        struct lake_str name = str_of(given->column);
        out[i] = (struct sql_assignment){.expression = str_of(given->expression),
                                         .column = find_column(table, name)};
        if (out[i].column == NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "table %s.%s has no column \"%.*s\"",
                             change->schema, change->table, (int)BASE_MIN(name.size, (size_t)100),
                             name.data);
        for (size_t before = 0; before < i; before++) {
            if (out[before].column == out[i].column)
                return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\" is set twice",
                                 out[i].column->name);
        }
    }
    return LAKE_OK;
}

/* The schema of what Metasrv gets: the address, then the columns as the table has them. */
static lake_status make_schema(const struct sql_assignment *assignments, size_t count,
                               const struct ArrowSchema *made, struct ArrowSchema *out,
                               struct lake_error *err)
{
    struct ArrowSchema schema = {.release = NULL};
    ArrowSchemaInit(&schema);
    ArrowErrorCode code = ArrowSchemaSetTypeStruct(&schema, (int64_t)count + 1);
    for (size_t i = 0; i <= count && code == NANOARROW_OK; i++) {
        ArrowSchemaRelease(schema.children[i]);
        code = ArrowSchemaDeepCopy(i == 0 ? made->children[0] : assignments[i - 1].column,
                                   schema.children[i]);
    }
    if (code != NANOARROW_OK) {
        ArrowSchemaRelease(&schema);
        return base_fail_no_memory(err, count * sizeof(schema));
    }
    *out = schema;
    return LAKE_OK;
}

/* ---- the rows ---- */

static lake_status append_message(struct arrow_ipc_message *message, struct base_buffer *out,
                                  struct lake_error *err)
{
    lake_status status = arrow_ipc_message_append(message, out, err);
    if (status == LAKE_RESOURCE_EXHAUSTED)
        status = lake_fail(err, status,
                           "the change has more than %zu MiB of addresses and values; change fewer "
                           "rows at once",
                           MAX_CHANGE_BYTES >> 20);
    arrow_ipc_message_fini(message);
    return status;
}

static lake_status encode(const struct ArrowSchema *schema, struct ArrowArray *array,
                          struct base_buffer *out, struct lake_error *err)
{
    struct arrow_ipc_encoder *encoder = NULL;
    struct arrow_batch *batch = NULL;
    struct arrow_ipc_message message;
    struct arrow_ipc_message *messages = NULL;
    size_t count = 0;
    lake_status status = arrow_batch_new(array, &batch, err);
    if (status == LAKE_OK)
        status = arrow_ipc_encoder_new(schema, &encoder, err);
    if (status == LAKE_OK)
        status = arrow_ipc_encode_schema(encoder, &message, err);
    if (status == LAKE_OK)
        status = append_message(&message, out, err);
    if (status == LAKE_OK)
        status = arrow_ipc_encode_batch(encoder, batch, &messages, &count, err);
    for (size_t i = 0; i < count; i++) {
        if (status == LAKE_OK)
            status = append_message(&messages[i], out, err);
        else
            arrow_ipc_message_fini(&messages[i]);
    }
    base_free(messages);
    arrow_ipc_encoder_free(encoder);
    arrow_batch_unref(batch);
    return status;
}

static void interrupt(void *query)
{
    sql_query_interrupt(query);
}

static int64_t look_at_change(void *query, uint32_t times)
{
    (void)times;
    sql_query_interrupt(query);
    return OVERDUE_REPEAT_MS;
}

/* All rows as one batch, or *end: there are none. */
static lake_status run(const struct change *change, struct sql_query *query,
                       struct ArrowArray *batch, bool *end, struct lake_error *err)
{
    struct query_watch watch;
    struct ArrowArray more = {.release = NULL};
    int64_t timeout_ms = (int64_t)change->server->options.execution_timeout_ms;
    bool last = false;
    query_watchdog_add(change->server->watchdog, &watch, timeout_ms, look_at_change, query);
    rpc_call_on_cancel(change->call, interrupt, query);
    lake_status status = sql_query_next(query, batch, end, err);
    if (status == LAKE_OK && !*end)
        status = sql_query_next(query, &more, &last, err);
    rpc_call_on_cancel(change->call, NULL, NULL);
    bool expired = query_watchdog_remove(change->server->watchdog, &watch) > 0;
    if (status != LAKE_OK && expired)
        return lake_fail(err, LAKE_DEADLINE_EXCEEDED,
                         "the predicate ran longer than %lld ms (LAKE_QUERY_EXECUTION_TIMEOUT_MS)",
                         (long long)timeout_ms);
    if (status == LAKE_OK && !*end && !last) {
        ArrowArrayRelease(&more);
        status = lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                           "the change has more than %zu MiB of addresses and values; change fewer "
                           "rows at once",
                           MAX_CHANGE_BYTES >> 20);
    }
    return status;
}

/* Leaves `out` empty when there are none. */
static lake_status find_rows(const struct change *change, const struct query_resolved *resolved,
                             const struct lance_dataset *dataset, struct base_buffer *out,
                             struct lake_error *err)
{
    size_t count = change->command->n_assignments;
    struct sql_assignment *assignments = base_calloc_array(count + 1, sizeof(*assignments));
    struct ArrowSchema wanted = {.release = NULL};
    struct ArrowArray batch = {.release = NULL};
    struct sql_query *query = NULL;
    struct sql_query_options options;
    bool none = false;
    struct base_buffer sql;
    base_buffer_init(&sql, change->server->options.max_sql_bytes);
    sql_query_options_init(&options);
    options.batch_rows = INT64_MAX;
    options.batch_bytes = (int64_t)MAX_CHANGE_BYTES;
    lake_status status =
        assignments == NULL
            ? base_fail_no_memory(err, count * sizeof(*assignments))
            : find_assignments(change, lance_dataset_schema(dataset), assignments, err);
    if (status == LAKE_OK)
        status =
            sql_change_statement(change->server->engine, change->schema, change->table,
                                 str_of(change->command->predicate), assignments, count, &sql, err);
    if (status == LAKE_OK)
        status = sql_query_prepare(change->server->engine,
                                   (struct lake_str){(const char *)sql.data, sql.size},
                                   resolved->tables, resolved->count, &options, &query, err);
    if (status == LAKE_OK)
        status = make_schema(assignments, count, sql_query_schema(query), &wanted, err);
    if (status == LAKE_OK)
        status = sql_recast_check(&wanted, sql_query_schema(query), err);
    if (status == LAKE_OK)
        status = run(change, query, &batch, &none, err);
    status = sql_change_failed(status, err);
    if (status == LAKE_OK && !none)
        status = sql_recast_batch(&wanted, sql_query_schema(query), &batch, err);
    if (status == LAKE_OK && !none)
        status = encode(&wanted, &batch, out, err);
    if (batch.release != NULL)
        ArrowArrayRelease(&batch);
    if (wanted.release != NULL)
        ArrowSchemaRelease(&wanted);
    sql_query_free(query);
    base_buffer_fini(&sql);
    base_free(assignments);
    return status;
}

/* ---- one attempt ---- */

/* Which of the tables is the one to be changed. */
static struct sql_table *own_table(const struct change *change,
                                   const struct query_resolved *resolved, size_t *index)
{
    for (size_t i = 0; i < resolved->count; i++) {
        struct sql_table *table = &resolved->tables[i];
        if (table->at_version == 0 && strcasecmp(table->schema, change->schema) == 0 &&
            strcasecmp(table->table, change->table) == 0) {
            *index = i;
            return table;
        }
    }
    return NULL;
}

/* The table, and those that subqueries of the predicate or of the values read. */
static lake_status resolve(const struct change *change, struct query_resolved *out,
                           struct lake_error *err)
{
    struct sql_references references = {0};
    struct base_buffer sql;
    base_buffer_init(&sql, change->server->options.max_sql_bytes);
    struct lake_str predicate = str_of(change->command->predicate);
    lake_status status = sql_expression_check(change->server->engine, predicate, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(&sql, err, "SELECT 1");
    for (size_t i = 0; i < change->command->n_assignments && status == LAKE_OK; i++) {
        struct lake_str value = str_of(change->command->assignments[i]->expression);
        status = sql_expression_check(change->server->engine, value, err);
        if (status == LAKE_OK)
            status = base_buffer_printf(&sql, err, ", (\n%.*s\n)", LAKE_STR_FMT(value));
    }
    if (status == LAKE_OK)
        status = base_buffer_printf(&sql, err, " FROM \"%s\".\"%s\" WHERE (\n%.*s\n)",
                                    change->schema, change->table, LAKE_STR_FMT(predicate));
    if (status == LAKE_OK)
        status = sql_references_parse(change->server->engine,
                                      (struct lake_str){(const char *)sql.data, sql.size},
                                      &references, err);
    if (status == LAKE_OK)
        status = query_tables_resolve(change->server, rpc_call_principal(change->call), &references,
                                      out, err);
    sql_references_fini(&references);
    base_buffer_fini(&sql);
    return status;
}

static lake_status send_rows(const struct change *change, const struct query_pin *pin,
                             struct lake_bytes rows, struct base_buffer *out,
                             struct lake_error *err)
{
    LakePb__ChangeRowsRequest request = LAKE_PB__CHANGE_ROWS_REQUEST__INIT;
    struct base_buffer body;
    base_buffer_init(&body, MAX_CHANGE_BYTES + (1u << 20));
    request.name = change->command->name;
    request.has_operation_id = true;
    request.operation_id = change->command->operation_id;
    request.has_content_sha256 = true;
    request.content_sha256 =
        (ProtobufCBinaryData){BASE_SHA256_BYTES, (uint8_t *)(uintptr_t)change->content_sha256};
    request.has_incarnation = true;
    request.incarnation =
        (ProtobufCBinaryData){pin->incarnation.size, (uint8_t *)(uintptr_t)pin->incarnation.data};
    request.has_base_version = true;
    request.base_version = pin->version;
    request.has_rows_ipc = true;
    request.rows_ipc = (ProtobufCBinaryData){rows.size, (uint8_t *)(uintptr_t)rows.data};
    lake_status status =
        base_buffer_reserve(&body, lake_pb__change_rows_request__get_packed_size(&request), err);
    if (status == LAKE_OK) {
        body.size = lake_pb__change_rows_request__pack(&request, body.data);
        status = query_metasrv_action_within(change->server->metasrv,
                                             rpc_call_principal(change->call), CHANGE_TIMEOUT_MS,
                                             "lake.change_rows", base_buffer_view(&body), out, err);
    }
    base_buffer_fini(&body);
    return status;
}

static lake_status attempt(const struct change *change, struct base_buffer *out,
                           struct lake_error *err)
{
    struct query_resolved resolved = {0};
    struct base_buffer rows;
    size_t own = 0;
    base_buffer_init(&rows, MAX_CHANGE_BYTES);
    lake_status status = resolve(change, &resolved, err);
    if (status != LAKE_OK)
        return status;
    struct sql_table *table = own_table(change, &resolved, &own);
    if (table == NULL) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the predicate is no SQL expression");
    } else {
        table->row_addresses = true;
        status = find_rows(change, &resolved, table->dataset, &rows, err);
    }
    /* Also when there are none: the same operation may have been committed before. */
    if (status == LAKE_OK)
        status = send_rows(change, &resolved.pins[own], base_buffer_view(&rows), out, err);
    base_buffer_fini(&rows);
    query_resolved_fini(&resolved);
    return status;
}

/* ---- the action ---- */

static lake_status check_name(ProtobufCBinaryData name, struct lake_error *err)
{
    if (name.len == 0 || memchr(name.data, '"', name.len) != NULL ||
        memchr(name.data, '\0', name.len) != NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the change names no table");
    return LAKE_OK;
}

lake_status query_change_rows(struct query_server *server, struct rpc_call *call,
                              struct lake_bytes body, struct base_buffer *out,
                              struct lake_error *err)
{
    struct change change = {.server = server, .call = call};
    struct query_permit *permit = NULL;
    char *schema = NULL;
    char *table = NULL;
    LakePb__ChangeRowsCommand *command =
        lake_pb__change_rows_command__unpack(NULL, body.size, body.data);
    if (command == NULL || command->name == NULL || command->predicate.len == 0) {
        if (command != NULL)
            lake_pb__change_rows_command__free_unpacked(command, NULL);
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a change names a table and the rows, by a predicate");
    }
    lake_status status = LAKE_OK;
    if (command->n_assignments > MAX_ASSIGNMENTS)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "at most %d columns are set at once",
                           MAX_ASSIGNMENTS);
    if (status == LAKE_OK)
        status = check_name(command->name->namespace_name, err);
    if (status == LAKE_OK)
        status = check_name(command->name->table, err);
    if (status == LAKE_OK) {
        schema = base_strndup((const char *)command->name->namespace_name.data,
                              command->name->namespace_name.len);
        table = base_strndup((const char *)command->name->table.data, command->name->table.len);
        if (schema == NULL || table == NULL)
            status = base_fail_no_memory(err, command->name->table.len);
    }
    if (status == LAKE_OK)
        status = base_sha256_once(body, change.content_sha256, err);
    if (status == LAKE_OK)
        status = query_admission_acquire(server->admission, rpc_call_principal(call)->tenant_id,
                                         &permit, err);
    change.command = command;
    change.schema = schema;
    change.table = table;
    if (status == LAKE_OK)
        status = attempt(&change, out, err);
    for (uint32_t tries = 1; status == LAKE_ABORTED && tries < MAX_ATTEMPTS; tries++)
        status = attempt(&change, out, err);
    query_permit_release(permit);
    base_free(schema);
    base_free(table);
    lake_pb__change_rows_command__free_unpacked(command, NULL);
    return status;
}
