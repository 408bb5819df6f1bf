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
    lake_error_clear(err);
    base_buffer_init(&schema_bytes, CLIENT_MAX_METADATA_BYTES);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK)
        status = arrow_ipc_schema_to_bytes(schema, &schema_bytes, err);
    if (status == LAKE_OK) {
        request.name = &name;
        request.has_schema_ipc = 1;
        request.schema_ipc = (ProtobufCBinaryData){schema_bytes.size, schema_bytes.data};
        status = client_ask(client, "lake.create_table", &request.base, NULL, NULL, err);
        lake_schema_cache_invalidate(client, table);
    }
    base_buffer_fini(&schema_bytes);
    return status;
}

lake_status lake_drop_table(lake_client *client, const char *table, struct lake_error *err)
{
    LakePb__DropTableRequest request = LAKE_PB__DROP_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        status = client_ask(client, "lake.drop_table", &request.base, NULL, NULL, err);
        lake_schema_cache_invalidate(client, table);
    }
    return status;
}

/* ---- compact ---- */

lake_status lake_compact_table(lake_client *client, const char *table, int64_t timeout_ms,
                               struct lake_compaction *out, struct lake_error *err)
{
    LakePb__CompactTableRequest request = LAKE_PB__COMPACT_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    lake_error_clear(err);
    if (timeout_ms <= 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "timeout_ms must be positive");
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.name = &name;
        status = client_ask_within(client, timeout_ms, "lake.compact_table", &request.base,
                                   &lake_pb__compact_table_reply__descriptor, &answer, err);
    }
    if (status == LAKE_OK) {
        const LakePb__CompactTableReply *done = (const LakePb__CompactTableReply *)answer;
        *out = (struct lake_compaction){.version = done->version,
                                        .fragments_removed = done->fragments_removed,
                                        .fragments_added = done->fragments_added,
                                        .rows_rewritten = done->rows_rewritten,
                                        .rows_dropped = done->rows_dropped};
    }
    client_answer_free(answer);
    return status;
}

/* ---- clean up ---- */

void lake_cleanup_options_init(struct lake_cleanup_options *options)
{
    *options = (struct lake_cleanup_options){.older_than_ms = UINT64_C(14) * 24 * 3600 * 1000};
}

static void copy_cleanup(const LakePb__CleanupTableReply *reply, struct lake_cleanup *out)
{
    out->versions_kept = reply->versions_kept;
    out->versions_removed = reply->versions_removed;
    out->files_removed = reply->files_removed;
    out->abandoned_files_removed = reply->abandoned_files_removed;
    out->files_in_grace = reply->files_in_grace;
    out->bytes_removed = reply->bytes_removed;
}

lake_status lake_cleanup_table(lake_client *client, const char *table,
                               const struct lake_cleanup_options *options, int64_t timeout_ms,
                               struct lake_cleanup *out, struct lake_error *err)
{
    LakePb__CleanupTableRequest request = LAKE_PB__CLEANUP_TABLE_REQUEST__INIT;
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    struct lake_cleanup_options defaults;
    struct lake_cleanup filled = {0};
    lake_error_clear(err);
    if (timeout_ms <= 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "timeout_ms must be positive");
    lake_cleanup_options_init(&defaults);
    options = options == NULL ? &defaults : options;
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
        status = client_ask_within(client, timeout_ms, "lake.cleanup_table", &request.base,
                                   &lake_pb__cleanup_table_reply__descriptor, &answer, err);
    }
    if (status == LAKE_OK) {
        copy_cleanup((const LakePb__CleanupTableReply *)answer, &filled);
        *out = filled;
    }
    client_answer_free(answer);
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
    LakePb__TableName name;
    ProtobufCMessage *answer = NULL;
    LakePb__TableName *names[1] = {&name};
    lake_error_clear(err);
    lake_status status = client_table_name(table, &name, err);
    if (status == LAKE_OK) {
        request.n_names = 1;
        request.names = names;
        status = client_ask(client, "lake.resolve_tables", &request.base,
                            &lake_pb__resolve_tables_reply__descriptor, &answer, err);
    }
    if (status == LAKE_OK) {
        const LakePb__ResolveTablesReply *resolved = (const LakePb__ResolveTablesReply *)answer;
        if (resolved->n_tables != 1)
            status = lake_fail(err, LAKE_INTERNAL, "the server answered for %zu tables, not one",
                               resolved->n_tables);
        else if (resolved->tables[0]->registration == NULL)
            status = lake_fail(err, LAKE_NOT_FOUND, "there is no table %s", table);
        else
            status = fill_info(table, resolved->tables[0], out, err);
    }
    client_answer_free(answer);
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

/* The page that follows `page`, which is let go; NULL before the first. */
static lake_status next_page(lake_client *client, const char *namespace_name,
                             LakePb__ListTablesReply **page, struct lake_error *err)
{
    LakePb__ListTablesRequest request = LAKE_PB__LIST_TABLES_REQUEST__INIT;
    LakePb__ListTablesReply *last = *page;
    ProtobufCMessage *answer = NULL;
    if (namespace_name != NULL) {
        request.has_namespace_name = 1;
        request.namespace_name = client_binary(base_str_of(namespace_name));
    }
    if (last != NULL)
        request.start_after = last->tables[last->n_tables - 1]->name;
    lake_status status = client_ask(client, "lake.list_tables", &request.base,
                                    &lake_pb__list_tables_reply__descriptor, &answer, err);
    if (last != NULL)
        client_answer_free(&last->base);
    *page = (LakePb__ListTablesReply *)answer;
    return status;
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
        status = next_page(client, namespace_name, &page, err);
        if (status == LAKE_OK)
            status = add_page(page, &list, err);
        more = status == LAKE_OK && page->more && page->n_tables > 0;
    }
    if (page != NULL)
        client_answer_free(&page->base);
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
