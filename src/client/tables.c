#include "append.h"
#include "client_internal.h"

#include <stdio.h>
#include <string.h>

#define MAX_TABLES ((size_t)1024 * 1024)

lake_status client_split_name(const char *table, struct lake_str *namespace_name,
                              struct lake_str *name, struct lake_error *err)
{
    const char *dot = table == NULL ? NULL : strchr(table, '.');
    if (dot == NULL || dot == table || dot[1] == '\0' || strchr(dot + 1, '.') != NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a table is named namespace.table, not '%s'",
                         table == NULL ? "" : table);
    *namespace_name = (struct lake_str){table, (size_t)(dot - table)};
    *name = base_str_of(dot + 1);
    return LAKE_OK;
}

lake_status client_table_name(const char *table, LakePb__TableName *out, struct lake_error *err)
{
    struct lake_str namespace_name, name;
    lake_status status = client_split_name(table, &namespace_name, &name, err);
    if (status != LAKE_OK)
        return status;
    lake_pb__table_name__init(out);
    out->has_namespace_name = out->has_table = 1;
    out->namespace_name = client_binary(namespace_name);
    out->table = client_binary(name);
    return LAKE_OK;
}

lake_status client_pack(const ProtobufCMessage *message, struct base_buffer *out,
                        struct lake_error *err)
{
    lake_status status = base_buffer_reserve(out, protobuf_c_message_get_packed_size(message), err);
    if (status == LAKE_OK)
        out->size = protobuf_c_message_pack(message, out->data);
    return status;
}

lake_status client_ask_within(lake_client *client, int64_t timeout_ms, const char *type,
                              const ProtobufCMessage *message, struct base_buffer *reply,
                              struct lake_error *err)
{
    struct base_buffer body;
    base_buffer_init(&body, CLIENT_MAX_METADATA_BYTES);
    lake_status status = client_pack(message, &body, err);
    if (status == LAKE_OK)
        status =
            client_action_within(client, timeout_ms, type, base_buffer_view(&body), reply, err);
    base_buffer_fini(&body);
    return status;
}

lake_status client_ask(lake_client *client, const char *type, const ProtobufCMessage *message,
                       struct base_buffer *reply, struct lake_error *err)
{
    return client_ask_within(client, client->timeout_ms, type, message, reply, err);
}

lake_status client_unreadable(struct lake_error *err)
{
    return lake_fail(err, LAKE_INTERNAL, "the server's answer cannot be read");
}

/* ---- schemas ---- */

bool client_columns_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, char *path,
                          size_t path_bytes)
{
    snprintf(path, path_bytes, "the number of columns");
    bool equal = strcmp(a->format, "+s") == 0 && strcmp(b->format, "+s") == 0 &&
                 a->n_children == b->n_children;
    for (int64_t i = 0; i < a->n_children && equal; i++)
        equal = arrow_schema_equal(a->children[i], b->children[i], path, path_bytes);
    return equal;
}

lake_status lake_file_schema_init(struct ArrowSchema *out, const char *name, bool nullable,
                                  struct lake_error *err)
{
    lake_error_clear(err);
    return arrow_file_schema_init(out, name, nullable, err);
}

static lake_status parse_column(const char *column, struct ArrowSchema *out, struct lake_error *err)
{
    const char *colon = column == NULL ? NULL : strchr(column, ':');
    if (colon == NULL || colon == column)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a column is written name:type, such as reward:float, not '%s'",
                         column == NULL ? "" : column);
    char *name = base_strndup(column, (size_t)(colon - column));
    if (name == NULL)
        return base_fail_no_memory(err, strlen(column));
    struct ArrowSchema field = {0};
    lake_status status = arrow_type_parse(base_str_of(colon + 1), name, &field, err);
    if (status == LAKE_OK) {
        if (out->release != NULL)
            out->release(out);
        *out = field;
    } else {
        char detail[LAKE_ERROR_MESSAGE_BYTES];
        snprintf(detail, sizeof(detail), "%s", err == NULL ? "" : err->message);
        status = lake_fail(err, status, "column %s: %s", name, detail);
    }
    base_free(name);
    return status;
}

lake_status lake_schema_parse(const char *const *columns, size_t column_count,
                              struct ArrowSchema *out, struct lake_error *err)
{
    struct ArrowSchema schema = {0};
    lake_error_clear(err);
    if (column_count == 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a table has at least one column");
    ArrowSchemaInit(&schema);
    lake_status status = LAKE_OK;
    if (ArrowSchemaSetTypeStruct(&schema, (int64_t)column_count) != NANOARROW_OK)
        status = base_fail_no_memory(err, column_count * sizeof(schema));
    for (size_t i = 0; i < column_count && status == LAKE_OK; i++)
        status = parse_column(columns[i], schema.children[i], err);
    if (status != LAKE_OK) {
        schema.release(&schema);
        return status;
    }
    *out = schema;
    return LAKE_OK;
}

/* ---- create, drop ---- */

lake_status lake_create_table(lake_client *client, const char *table,
                              const struct ArrowSchema *schema, struct lake_error *err)
{
    LakePb__CreateTableRequest request = LAKE_PB__CREATE_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    struct base_buffer schema_bytes;
    struct base_buffer reply;
    lake_error_clear(err);
    base_buffer_init(&schema_bytes, CLIENT_MAX_METADATA_BYTES);
    base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK)
        status = arrow_ipc_schema_to_bytes(schema, &schema_bytes, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_schema_ipc = 1;
        request.schema_ipc = (ProtobufCBinaryData){schema_bytes.size, schema_bytes.data};
        status = client_ask(client, "lake.create_table", &request.base, &reply, err);
        lake_schema_cache_invalidate(client, table);
    }
    base_buffer_fini(&schema_bytes);
    base_buffer_fini(&reply);
    return status;
}

lake_status lake_drop_table(lake_client *client, const char *table, struct lake_error *err)
{
    LakePb__DropTableRequest request = LAKE_PB__DROP_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    struct base_buffer reply;
    lake_error_clear(err);
    base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        status = client_ask(client, "lake.drop_table", &request.base, &reply, err);
        lake_schema_cache_invalidate(client, table);
    }
    base_buffer_fini(&reply);
    return status;
}

/* ---- compact ---- */

lake_status lake_compact_table(lake_client *client, const char *table, int64_t timeout_ms,
                               struct lake_compaction *out, struct lake_error *err)
{
    LakePb__CompactTableRequest request = LAKE_PB__COMPACT_TABLE_REQUEST__INIT;
    LakePb__CompactTableReply *answer = NULL;
    LakePb__TableName name;
    struct base_buffer reply;
    lake_error_clear(err);
    if (timeout_ms <= 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "timeout_ms must be positive");
    base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        status =
            client_ask_within(client, timeout_ms, "lake.compact_table", &request.base, &reply, err);
    }
    if (status == LAKE_OK) {
        answer = lake_pb__compact_table_reply__unpack(NULL, reply.size, reply.data);
        if (answer == NULL)
            status = client_unreadable(err);
        else
            *out = (struct lake_compaction){.version = answer->version,
                                            .fragments_removed = answer->fragments_removed,
                                            .fragments_added = answer->fragments_added,
                                            .rows_rewritten = answer->rows_rewritten,
                                            .rows_dropped = answer->rows_dropped};
    }
    if (answer != NULL)
        lake_pb__compact_table_reply__free_unpacked(answer, NULL);
    base_buffer_fini(&reply);
    return status;
}

/* ---- clean up ---- */

void lake_cleanup_options_init(struct lake_cleanup_options *options)
{
    *options = (struct lake_cleanup_options){.older_than_ms = UINT64_C(14) * 24 * 3600 * 1000};
}

static lake_status read_cleanup(struct lake_bytes reply, struct lake_cleanup *out,
                                struct lake_error *err)
{
    LakePb__CleanupTableReply *answer =
        lake_pb__cleanup_table_reply__unpack(NULL, reply.size, reply.data);
    if (answer == NULL)
        return client_unreadable(err);
    out->versions_kept = answer->versions_kept;
    out->versions_removed = answer->versions_removed;
    out->files_removed = answer->files_removed;
    out->abandoned_files_removed = answer->abandoned_files_removed;
    out->files_in_grace = answer->files_in_grace;
    out->bytes_removed = answer->bytes_removed;
    lake_pb__cleanup_table_reply__free_unpacked(answer, NULL);
    return LAKE_OK;
}

lake_status lake_cleanup_table(lake_client *client, const char *table,
                               const struct lake_cleanup_options *options, int64_t timeout_ms,
                               struct lake_cleanup *out, struct lake_error *err)
{
    LakePb__CleanupTableRequest request = LAKE_PB__CLEANUP_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    struct lake_cleanup_options defaults;
    struct lake_cleanup filled = {0};
    struct base_buffer reply;
    lake_error_clear(err);
    if (timeout_ms <= 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "timeout_ms must be positive");
    lake_cleanup_options_init(&defaults);
    options = options == NULL ? &defaults : options;
    base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK)
        status = client_operation_id(options->operation_id, filled.operation_id, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_older_than_ms = request.has_retain_versions = 1;
        request.has_dry_run = request.has_operation_id = 1;
        request.older_than_ms = options->older_than_ms;
        request.retain_versions = options->retain_versions;
        request.dry_run = options->dry_run;
        request.operation_id = client_binary(base_str_of(filled.operation_id));
        status =
            client_ask_within(client, timeout_ms, "lake.cleanup_table", &request.base, &reply, err);
    }
    if (status == LAKE_OK)
        status = read_cleanup(base_buffer_view(&reply), &filled, err);
    if (status == LAKE_OK)
        *out = filled;
    base_buffer_fini(&reply);
    return status;
}

/* ---- describe ---- */

static lake_status fill_info(const char *table, const LakePb__ResolvedTable *resolved,
                             struct lake_table_info *out, struct lake_error *err)
{
    const LakePb__Registration *registration = resolved->registration;
    struct lake_table_info info = {.version = resolved->version};
    lake_status status = arrow_ipc_schema_from_bytes(
        (struct lake_bytes){registration->schema_ipc.data, registration->schema_ipc.len},
        &info.schema, err);
    if (status != LAKE_OK)
        return status;
    info.table = base_strdup(table);
    info.location =
        base_strndup((const char *)registration->location.data, registration->location.len);
    info.incarnation =
        base_strndup((const char *)registration->incarnation.data, registration->incarnation.len);
    if (info.table == NULL || info.location == NULL || info.incarnation == NULL) {
        lake_table_info_fini(&info);
        return base_fail_no_memory(err, registration->location.len);
    }
    *out = info;
    return LAKE_OK;
}

lake_status lake_describe_table(lake_client *client, const char *table, struct lake_table_info *out,
                                struct lake_error *err)
{
    LakePb__ResolveTablesRequest request = LAKE_PB__RESOLVE_TABLES_REQUEST__INIT;
    LakePb__ResolveTablesReply *answer = NULL;
    LakePb__TableName name;
    LakePb__TableName *names[1] = {&name};
    struct base_buffer reply;
    lake_error_clear(err);
    base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.n_names = 1;
        request.names = names;
        status = client_ask(client, "lake.resolve_tables", &request.base, &reply, err);
    }
    if (status == LAKE_OK) {
        answer = lake_pb__resolve_tables_reply__unpack(NULL, reply.size, reply.data);
        if (answer == NULL || answer->n_tables != 1)
            status = client_unreadable(err);
        else if (answer->tables[0]->registration == NULL)
            status = lake_fail(err, LAKE_NOT_FOUND, "there is no table %s", table);
        else
            status = fill_info(table, answer->tables[0], out, err);
    }
    if (answer != NULL)
        lake_pb__resolve_tables_reply__free_unpacked(answer, NULL);
    base_buffer_fini(&reply);
    return status;
}

void lake_table_info_fini(struct lake_table_info *info)
{
    base_free(info->table);
    base_free(info->location);
    base_free(info->incarnation);
    if (info->schema.release != NULL)
        info->schema.release(&info->schema);
    *info = (struct lake_table_info){0};
}

/* ---- list ---- */

static lake_status add_page(const LakePb__ListTablesReply *page, struct lake_table_list *list,
                            struct lake_error *err)
{
    if (list->count + page->n_tables > MAX_TABLES)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "there are more than %zu tables: list one "
                         "namespace at a time",
                         MAX_TABLES);
    char **grown =
        base_realloc_array(list->tables, list->count + page->n_tables + 1, sizeof(*grown));
    if (grown == NULL)
        return base_fail_no_memory(err, page->n_tables * sizeof(*grown));
    list->tables = grown;
    for (size_t i = 0; i < page->n_tables; i++) {
        const LakePb__TableName *name = page->tables[i]->name;
        if (name == NULL)
            return lake_fail(err, LAKE_INTERNAL, "the server listed a table without a name");
        char *text = base_format("%.*s.%.*s", (int)name->namespace_name.len,
                                 (const char *)name->namespace_name.data, (int)name->table.len,
                                 (const char *)name->table.data);
        if (text == NULL)
            return base_fail_no_memory(err, name->table.len);
        list->tables[list->count++] = text;
    }
    return LAKE_OK;
}

lake_status lake_list_tables(lake_client *client, const char *namespace_name,
                             struct lake_table_list *out, struct lake_error *err)
{
    struct lake_table_list list = {0};
    LakePb__ListTablesReply *page = NULL;
    lake_status status = LAKE_OK;
    bool more = true;
    lake_error_clear(err);
    while (more && status == LAKE_OK) {
        LakePb__ListTablesRequest request = LAKE_PB__LIST_TABLES_REQUEST__INIT;
        struct base_buffer reply;
        base_buffer_init(&reply, CLIENT_MAX_REPLY_BYTES);
        if (namespace_name != NULL) {
            request.has_namespace_name = 1;
            request.namespace_name = client_binary(base_str_of(namespace_name));
        }
        if (page != NULL && page->n_tables > 0)
            request.start_after = page->tables[page->n_tables - 1]->name;
        status = client_ask(client, "lake.list_tables", &request.base, &reply, err);
        if (page != NULL)
            lake_pb__list_tables_reply__free_unpacked(page, NULL);
        page = NULL;
        if (status == LAKE_OK) {
            page = lake_pb__list_tables_reply__unpack(NULL, reply.size, reply.data);
            status = page == NULL
                         ? lake_fail(err, LAKE_INTERNAL, "the server's list cannot be read")
                         : add_page(page, &list, err);
            more = status == LAKE_OK && page->more && page->n_tables > 0;
        }
        base_buffer_fini(&reply);
    }
    if (page != NULL)
        lake_pb__list_tables_reply__free_unpacked(page, NULL);
    if (status != LAKE_OK) {
        lake_table_list_fini(&list);
        return status;
    }
    *out = list;
    return LAKE_OK;
}

void lake_table_list_fini(struct lake_table_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        base_free(list->tables[i]);
    base_free(list->tables);
    *list = (struct lake_table_list){0};
}
