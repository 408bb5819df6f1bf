#include "message.h"

#include <flight_sql.pb-c.h>
#include <string.h>

/* The Any's type URL: any prefix that ends in a slash, then this and the message's name. */
#define SQL_PACKAGE "arrow.flight.protocol.sql."
#define URL_PREFIX  "type.googleapis.com/"

static const struct {
    const char *name;
    enum flight_sql_command_kind kind;
} kinds[] = {
    {"CommandStatementQuery", FLIGHT_SQL_STATEMENT_QUERY},
    {"CommandStatementUpdate", FLIGHT_SQL_STATEMENT_UPDATE},
    {"CommandStatementIngest", FLIGHT_SQL_STATEMENT_INGEST},
    {"CommandStatementSubstraitPlan", FLIGHT_SQL_STATEMENT_SUBSTRAIT_PLAN},
    {"CommandPreparedStatementQuery", FLIGHT_SQL_PREPARED_QUERY},
    {"CommandPreparedStatementUpdate", FLIGHT_SQL_PREPARED_UPDATE},
    {"TicketStatementQuery", FLIGHT_SQL_TICKET_STATEMENT_QUERY},
    {"CommandGetSqlInfo", FLIGHT_SQL_GET_SQL_INFO},
    {"CommandGetCatalogs", FLIGHT_SQL_GET_CATALOGS},
    {"CommandGetDbSchemas", FLIGHT_SQL_GET_DB_SCHEMAS},
    {"CommandGetTables", FLIGHT_SQL_GET_TABLES},
    {"CommandGetTableTypes", FLIGHT_SQL_GET_TABLE_TYPES},
    {"CommandGetPrimaryKeys", FLIGHT_SQL_GET_PRIMARY_KEYS},
    {"CommandGetExportedKeys", FLIGHT_SQL_GET_EXPORTED_KEYS},
    {"CommandGetImportedKeys", FLIGHT_SQL_GET_IMPORTED_KEYS},
    {"CommandGetCrossReference", FLIGHT_SQL_GET_CROSS_REFERENCE},
    {"CommandGetXdbcTypeInfo", FLIGHT_SQL_GET_XDBC_TYPE_INFO},
    {"ActionCreatePreparedStatementRequest", FLIGHT_SQL_CREATE_PREPARED_REQUEST},
    {"ActionCreatePreparedStatementResult", FLIGHT_SQL_CREATE_PREPARED_RESULT},
    {"ActionClosePreparedStatementRequest", FLIGHT_SQL_CLOSE_PREPARED_REQUEST},
    {"ActionCancelQueryRequest", FLIGHT_SQL_CANCEL_QUERY_REQUEST},
    {"ActionCancelQueryResult", FLIGHT_SQL_CANCEL_QUERY_RESULT},
};

/* ---- the Any ---- */

/* Views into `bytes`; false for what is not an Any. */
static bool read_any(struct lake_bytes bytes, struct lake_str *url, struct lake_bytes *value)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    struct lake_bytes type = {NULL, 0};
    *value = (struct lake_bytes){NULL, 0};
    while (base_cursor_left(&cursor) > 0) {
        uint32_t field;
        uint32_t wire_type;
        if (!base_cursor_tag(&cursor, &field, &wire_type)) {
            return false;
        }
        bool good = field == 1 && wire_type == 2   ? base_cursor_length_delimited(&cursor, &type)
                    : field == 2 && wire_type == 2 ? base_cursor_length_delimited(&cursor, value)
                                                   : base_cursor_skip_field(&cursor, wire_type);
        if (!good) {
            return false;
        }
    }
    *url = (struct lake_str){(const char *)type.data, type.size};
    return type.size > 0 && memchr(type.data, '/', type.size) != NULL && base_utf8_valid(*url);
}

/* What follows the last slash. */
static struct lake_str url_name(struct lake_str url)
{
    size_t at = url.size;
    while (at > 0 && url.data[at - 1] != '/') {
        at--;
    }
    return (struct lake_str){url.data + at, url.size - at};
}

bool flight_sql_is_command(struct lake_bytes bytes)
{
    struct lake_str url;
    struct lake_bytes value;
    return read_any(bytes, &url, &value) && base_str_has_prefix(url_name(url), SQL_PACKAGE);
}

/* ---- decoding ---- */

static lake_status decode_statement(struct lake_bytes value, struct base_arena *arena,
                                    struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__Statement *message =
        message_unpack(&flight_sql__pb__statement__descriptor, value, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    if (message->has_transaction_id) {
        out->as.statement.transaction_id = message_bytes(message->transaction_id);
    }
    return message_text(message->query, "the SQL", &out->as.statement.query, err);
}

static lake_status decode_handle(struct lake_bytes value, struct base_arena *arena,
                                 struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__Handle *message =
        message_unpack(&flight_sql__pb__handle__descriptor, value, arena, &status, err);
    if (message != NULL) {
        out->as.prepared.handle = message_bytes(message->handle);
    }
    return status;
}

static lake_status decode_ingest_options(const FlightSql__Pb__CommandStatementIngest *message,
                                         struct base_arena *arena, struct flight_sql_ingest *out,
                                         struct lake_error *err)
{
    size_t count = message->n_options;
    struct lake_str *names = base_arena_calloc_array(arena, count + 1, sizeof(*names));
    struct lake_str *values = base_arena_calloc_array(arena, count + 1, sizeof(*values));
    if (names == NULL || values == NULL) {
        return base_fail_no_memory(err, count * sizeof(*names));
    }
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        status = message_text(message->options[i]->key, "an option's name", &names[i], err);
        if (status == LAKE_OK) {
            status = message_text(message->options[i]->value, "an option's value", &values[i], err);
        }
    }
    out->option_names = names;
    out->option_values = values;
    out->option_count = count;
    return status;
}

static lake_status decode_ingest(struct lake_bytes value, struct base_arena *arena,
                                 struct flight_sql_ingest *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__CommandStatementIngest *message = message_unpack(
        &flight_sql__pb__command_statement_ingest__descriptor, value, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    const FlightSql__Pb__TableDefinitionOptions *options = message->table_definition_options;
    if (options != NULL) {
        if (options->if_not_exist < 0 || options->if_not_exist > FLIGHT_SQL_INGEST_NOT_EXIST_FAIL ||
            options->if_exists < 0 || options->if_exists > FLIGHT_SQL_INGEST_EXISTS_REPLACE) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "a CommandStatementIngest has table options that are not known");
        }
        out->if_not_exist = (enum flight_sql_ingest_if_not_exist)options->if_not_exist;
        out->if_exists = (enum flight_sql_ingest_if_exists)options->if_exists;
    }
    out->temporary = message->temporary != 0;
    if (message->has_transaction_id) {
        out->transaction_id = message_bytes(message->transaction_id);
    }
    status = message_text(message->table, "a table name", &out->table, err);
    if (status == LAKE_OK) {
        status = message_optional_text(message->has_catalog, message->catalog, "a catalog name",
                                       &out->catalog, err);
    }
    if (status == LAKE_OK) {
        status = message_optional_text(message->has_schema, message->schema, "a schema name",
                                       &out->schema, err);
    }
    return status == LAKE_OK ? decode_ingest_options(message, arena, out, err) : status;
}

static lake_status decode_sql_info(struct lake_bytes value, struct base_arena *arena,
                                   struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__CommandGetSqlInfo *message = message_unpack(
        &flight_sql__pb__command_get_sql_info__descriptor, value, arena, &status, err);
    if (message != NULL) {
        out->as.sql_info.codes = message->info;
        out->as.sql_info.count = message->n_info;
    }
    return status;
}

static lake_status decode_db_schemas(struct lake_bytes value, struct base_arena *arena,
                                     struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__CommandGetDbSchemas *message = message_unpack(
        &flight_sql__pb__command_get_db_schemas__descriptor, value, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    status = message_optional_text(message->has_catalog, message->catalog, "a catalog name",
                                   &out->as.db_schemas.catalog, err);
    return status == LAKE_OK
               ? message_optional_text(message->has_db_schema_filter_pattern,
                                       message->db_schema_filter_pattern, "a schema pattern",
                                       &out->as.db_schemas.db_schema_pattern, err)
               : status;
}

static lake_status decode_tables(struct lake_bytes value, struct base_arena *arena,
                                 struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__CommandGetTables *message =
        message_unpack(&flight_sql__pb__command_get_tables__descriptor, value, arena, &status, err);
    if (message == NULL) {
        return status;
    }
    out->as.tables.include_schema = message->include_schema != 0;
    out->as.tables.table_type_count = message->n_table_types;
    status = message_optional_text(message->has_catalog, message->catalog, "a catalog name",
                                   &out->as.tables.catalog, err);
    if (status == LAKE_OK) {
        status = message_optional_text(message->has_db_schema_filter_pattern,
                                       message->db_schema_filter_pattern, "a schema pattern",
                                       &out->as.tables.db_schema_pattern, err);
    }
    if (status == LAKE_OK) {
        status = message_optional_text(message->has_table_name_filter_pattern,
                                       message->table_name_filter_pattern, "a table pattern",
                                       &out->as.tables.table_name_pattern, err);
    }
    return status == LAKE_OK
               ? message_text_list(message->table_types, message->n_table_types, "a table type",
                                   arena, &out->as.tables.table_types, err)
               : status;
}

static lake_status read_table_ref(protobuf_c_boolean has_catalog, ProtobufCBinaryData catalog,
                                  protobuf_c_boolean has_schema, ProtobufCBinaryData schema,
                                  ProtobufCBinaryData table, struct flight_sql_table_ref *out,
                                  struct lake_error *err)
{
    lake_status status =
        message_optional_text(has_catalog, catalog, "a catalog name", &out->catalog, err);
    if (status == LAKE_OK) {
        status = message_optional_text(has_schema, schema, "a schema name", &out->db_schema, err);
    }
    return status == LAKE_OK ? message_text(table, "a table name", &out->table, err) : status;
}

static lake_status decode_keys(struct lake_bytes value, struct base_arena *arena,
                               struct flight_sql_table_ref *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__TableRef *m =
        message_unpack(&flight_sql__pb__table_ref__descriptor, value, arena, &status, err);
    return m == NULL ? status
                     : read_table_ref(m->has_catalog, m->catalog, m->has_db_schema, m->db_schema,
                                      m->table, out, err);
}

static lake_status decode_cross_reference(struct lake_bytes value, struct base_arena *arena,
                                          struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__CommandGetCrossReference *m = message_unpack(
        &flight_sql__pb__command_get_cross_reference__descriptor, value, arena, &status, err);
    if (m == NULL) {
        return status;
    }
    status = read_table_ref(m->has_pk_catalog, m->pk_catalog, m->has_pk_db_schema, m->pk_db_schema,
                            m->pk_table, &out->as.cross_reference.pk, err);
    return status == LAKE_OK
               ? read_table_ref(m->has_fk_catalog, m->fk_catalog, m->has_fk_db_schema,
                                m->fk_db_schema, m->fk_table, &out->as.cross_reference.fk, err)
               : status;
}

static lake_status decode_xdbc(struct lake_bytes value, struct base_arena *arena,
                               struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__CommandGetXdbcTypeInfo *message = message_unpack(
        &flight_sql__pb__command_get_xdbc_type_info__descriptor, value, arena, &status, err);
    if (message != NULL) {
        out->as.xdbc_type_info.has_data_type = message->has_data_type != 0;
        out->as.xdbc_type_info.data_type = message->data_type;
    }
    return status;
}

static lake_status decode_create_result(struct lake_bytes value, struct base_arena *arena,
                                        struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    FlightSql__Pb__ActionCreatePreparedStatementResult *message =
        message_unpack(&flight_sql__pb__action_create_prepared_statement_result__descriptor, value,
                       arena, &status, err);
    if (message != NULL) {
        out->as.create_prepared_result.handle = message_bytes(message->prepared_statement_handle);
        out->as.create_prepared_result.dataset_schema = message_bytes(message->dataset_schema);
        out->as.create_prepared_result.parameter_schema = message_bytes(message->parameter_schema);
    }
    return status;
}

static lake_status decode_cancel(struct lake_bytes value, struct base_arena *arena,
                                 struct flight_sql_command *out, struct lake_error *err)
{
    lake_status status;
    if (out->kind == FLIGHT_SQL_CANCEL_QUERY_RESULT) {
        return flight_cancel_result_decode(value, &out->as.cancel_result, err);
    }
    FlightSql__Pb__ActionCancelQueryRequest *message = message_unpack(
        &flight_sql__pb__action_cancel_query_request__descriptor, value, arena, &status, err);
    if (message != NULL) {
        out->as.cancel_query.info = message_bytes(message->info);
    }
    return status;
}

static lake_status decode_value(struct lake_bytes value, struct base_arena *arena,
                                struct flight_sql_command *out, struct lake_error *err)
{
    switch (out->kind) {
    case FLIGHT_SQL_STATEMENT_QUERY:
    case FLIGHT_SQL_STATEMENT_UPDATE:
    case FLIGHT_SQL_CREATE_PREPARED_REQUEST:
        return decode_statement(value, arena, out, err);
    case FLIGHT_SQL_PREPARED_QUERY:
    case FLIGHT_SQL_PREPARED_UPDATE:
    case FLIGHT_SQL_CLOSE_PREPARED_REQUEST:
    case FLIGHT_SQL_TICKET_STATEMENT_QUERY:
        return decode_handle(value, arena, out, err);
    case FLIGHT_SQL_STATEMENT_INGEST:
        return decode_ingest(value, arena, &out->as.ingest, err);
    case FLIGHT_SQL_GET_SQL_INFO:
        return decode_sql_info(value, arena, out, err);
    case FLIGHT_SQL_GET_DB_SCHEMAS:
        return decode_db_schemas(value, arena, out, err);
    case FLIGHT_SQL_GET_TABLES:
        return decode_tables(value, arena, out, err);
    case FLIGHT_SQL_GET_PRIMARY_KEYS:
    case FLIGHT_SQL_GET_EXPORTED_KEYS:
    case FLIGHT_SQL_GET_IMPORTED_KEYS:
        return decode_keys(value, arena, &out->as.keys, err);
    case FLIGHT_SQL_GET_CROSS_REFERENCE:
        return decode_cross_reference(value, arena, out, err);
    case FLIGHT_SQL_GET_XDBC_TYPE_INFO:
        return decode_xdbc(value, arena, out, err);
    case FLIGHT_SQL_CREATE_PREPARED_RESULT:
        return decode_create_result(value, arena, out, err);
    case FLIGHT_SQL_CANCEL_QUERY_REQUEST:
    case FLIGHT_SQL_CANCEL_QUERY_RESULT:
        return decode_cancel(value, arena, out, err);
    case FLIGHT_SQL_GET_CATALOGS:
    case FLIGHT_SQL_GET_TABLE_TYPES:
    case FLIGHT_SQL_STATEMENT_SUBSTRAIT_PLAN:
        break; /* nothing inside, or nothing that is read */
    }
    return LAKE_OK;
}

lake_status flight_sql_command_decode(struct lake_bytes bytes, struct base_arena *arena,
                                      struct flight_sql_command *out, struct lake_error *err)
{
    struct lake_str url;
    struct lake_bytes value;
    if (!read_any(bytes, &url, &value)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%zu bytes are not a Flight SQL command (a google.protobuf.Any)",
                         bytes.size);
    }
    struct lake_str name = url_name(url);
    if (base_str_has_prefix(name, SQL_PACKAGE)) {
        struct lake_str tail = {name.data + strlen(SQL_PACKAGE), name.size - strlen(SQL_PACKAGE)};
        for (size_t i = 0; i < BASE_ARRAY_LEN(kinds); i++) {
            if (base_str_equal_c(tail, kinds[i].name)) {
                struct flight_sql_command command = {.kind = kinds[i].kind};
                lake_status status = decode_value(value, arena, &command, err);
                if (status == LAKE_OK) {
                    *out = command;
                }
                return status;
            }
        }
    }
    struct lake_str shown = {name.data, BASE_MIN(name.size, (size_t)200)};
    return lake_fail(err, LAKE_UNIMPLEMENTED, "the command \"%.*s\" is not supported",
                     LAKE_STR_FMT(shown));
}

/* ---- encoding ---- */

static lake_status pack_statement(const struct flight_sql_command *command, struct base_buffer *out,
                                  struct lake_error *err)
{
    FlightSql__Pb__Statement message = FLIGHT_SQL__PB__STATEMENT__INIT;
    lake_status status = message_check_text(command->as.statement.query, "the SQL", err);
    message.has_query = true;
    message.query = message_data_of_str(command->as.statement.query);
    message.has_transaction_id = command->as.statement.transaction_id.data != NULL;
    message.transaction_id = message_data(command->as.statement.transaction_id);
    return status == LAKE_OK ? message_pack(&message.base, out, err) : status;
}

static lake_status pack_handle(struct lake_bytes handle, struct base_buffer *out,
                               struct lake_error *err)
{
    FlightSql__Pb__Handle message = FLIGHT_SQL__PB__HANDLE__INIT;
    message.has_handle = handle.size > 0;
    message.handle = message_data(handle);
    return message_pack(&message.base, out, err);
}

static lake_status pack_ingest(const struct flight_sql_ingest *ingest, struct base_buffer *out,
                               struct lake_error *err)
{
    FlightSql__Pb__CommandStatementIngest message = FLIGHT_SQL__PB__COMMAND_STATEMENT_INGEST__INIT;
    FlightSql__Pb__TableDefinitionOptions options = FLIGHT_SQL__PB__TABLE_DEFINITION_OPTIONS__INIT;
    FlightSql__Pb__OptionEntry *entries =
        base_calloc_array(ingest->option_count + 1, sizeof(*entries));
    FlightSql__Pb__OptionEntry **pointers =
        base_calloc_array(ingest->option_count + 1, sizeof(*pointers));
    lake_status status = LAKE_OK;
    if (entries == NULL || pointers == NULL) {
        status = base_fail_no_memory(err, ingest->option_count * sizeof(*entries));
        goto out;
    }
    for (size_t i = 0; i < ingest->option_count; i++) {
        flight_sql__pb__option_entry__init(&entries[i]);
        entries[i].has_key = true;
        entries[i].key = message_data_of_str(ingest->option_names[i]);
        entries[i].has_value = true;
        entries[i].value = message_data_of_str(ingest->option_values[i]);
        pointers[i] = &entries[i];
    }
    options.has_if_not_exist = true;
    options.if_not_exist = (int32_t)ingest->if_not_exist;
    options.has_if_exists = true;
    options.if_exists = (int32_t)ingest->if_exists;
    message.table_definition_options = &options;
    message.has_table = true;
    message.table = message_data_of_str(ingest->table);
    message.has_schema = ingest->schema.present;
    message.schema = message_data_of_str(ingest->schema.value);
    message.has_catalog = ingest->catalog.present;
    message.catalog = message_data_of_str(ingest->catalog.value);
    message.has_temporary = ingest->temporary;
    message.temporary = ingest->temporary;
    message.has_transaction_id = ingest->transaction_id.data != NULL;
    message.transaction_id = message_data(ingest->transaction_id);
    message.n_options = ingest->option_count;
    message.options = pointers;
    status = message_pack(&message.base, out, err);
out:
    base_free(entries);
    base_free(pointers);
    return status;
}

static lake_status pack_tables(const struct flight_sql_command *command, struct base_buffer *out,
                               struct lake_error *err)
{
    FlightSql__Pb__CommandGetTables message = FLIGHT_SQL__PB__COMMAND_GET_TABLES__INIT;
    size_t count = command->as.tables.table_type_count;
    ProtobufCBinaryData *types = base_calloc_array(count + 1, sizeof(*types));
    if (types == NULL) {
        return base_fail_no_memory(err, count * sizeof(*types));
    }
    for (size_t i = 0; i < count; i++) {
        types[i] = message_data_of_str(command->as.tables.table_types[i]);
    }
    message.has_catalog = command->as.tables.catalog.present;
    message.catalog = message_data_of_str(command->as.tables.catalog.value);
    message.has_db_schema_filter_pattern = command->as.tables.db_schema_pattern.present;
    message.db_schema_filter_pattern =
        message_data_of_str(command->as.tables.db_schema_pattern.value);
    message.has_table_name_filter_pattern = command->as.tables.table_name_pattern.present;
    message.table_name_filter_pattern =
        message_data_of_str(command->as.tables.table_name_pattern.value);
    message.n_table_types = count;
    message.table_types = types;
    message.has_include_schema = command->as.tables.include_schema;
    message.include_schema = command->as.tables.include_schema;
    lake_status status = message_pack(&message.base, out, err);
    base_free(types);
    return status;
}

static lake_status pack_keys(const struct flight_sql_table_ref *keys, struct base_buffer *out,
                             struct lake_error *err)
{
    FlightSql__Pb__TableRef message = FLIGHT_SQL__PB__TABLE_REF__INIT;
    message.has_catalog = keys->catalog.present;
    message.catalog = message_data_of_str(keys->catalog.value);
    message.has_db_schema = keys->db_schema.present;
    message.db_schema = message_data_of_str(keys->db_schema.value);
    message.has_table = true;
    message.table = message_data_of_str(keys->table);
    return message_pack(&message.base, out, err);
}

static lake_status pack_cross_reference(const struct flight_sql_command *command,
                                        struct base_buffer *out, struct lake_error *err)
{
    FlightSql__Pb__CommandGetCrossReference message =
        FLIGHT_SQL__PB__COMMAND_GET_CROSS_REFERENCE__INIT;
    const struct flight_sql_table_ref *pk = &command->as.cross_reference.pk;
    const struct flight_sql_table_ref *fk = &command->as.cross_reference.fk;
    message.has_pk_catalog = pk->catalog.present;
    message.pk_catalog = message_data_of_str(pk->catalog.value);
    message.has_pk_db_schema = pk->db_schema.present;
    message.pk_db_schema = message_data_of_str(pk->db_schema.value);
    message.has_pk_table = true;
    message.pk_table = message_data_of_str(pk->table);
    message.has_fk_catalog = fk->catalog.present;
    message.fk_catalog = message_data_of_str(fk->catalog.value);
    message.has_fk_db_schema = fk->db_schema.present;
    message.fk_db_schema = message_data_of_str(fk->db_schema.value);
    message.has_fk_table = true;
    message.fk_table = message_data_of_str(fk->table);
    return message_pack(&message.base, out, err);
}

static lake_status pack_listing(const struct flight_sql_command *command, struct base_buffer *out,
                                struct lake_error *err)
{
    if (command->kind == FLIGHT_SQL_GET_SQL_INFO) {
        FlightSql__Pb__CommandGetSqlInfo message = FLIGHT_SQL__PB__COMMAND_GET_SQL_INFO__INIT;
        message.n_info = command->as.sql_info.count;
        message.info = (uint32_t *)(uintptr_t)command->as.sql_info.codes;
        return message_pack(&message.base, out, err);
    }
    if (command->kind == FLIGHT_SQL_GET_DB_SCHEMAS) {
        FlightSql__Pb__CommandGetDbSchemas message = FLIGHT_SQL__PB__COMMAND_GET_DB_SCHEMAS__INIT;
        message.has_catalog = command->as.db_schemas.catalog.present;
        message.catalog = message_data_of_str(command->as.db_schemas.catalog.value);
        message.has_db_schema_filter_pattern = command->as.db_schemas.db_schema_pattern.present;
        message.db_schema_filter_pattern =
            message_data_of_str(command->as.db_schemas.db_schema_pattern.value);
        return message_pack(&message.base, out, err);
    }
    FlightSql__Pb__CommandGetXdbcTypeInfo message =
        FLIGHT_SQL__PB__COMMAND_GET_XDBC_TYPE_INFO__INIT;
    message.has_data_type = command->as.xdbc_type_info.has_data_type;
    message.data_type = command->as.xdbc_type_info.data_type;
    return message_pack(&message.base, out, err);
}

static lake_status pack_create_result(const struct flight_sql_command *command,
                                      struct base_buffer *out, struct lake_error *err)
{
    FlightSql__Pb__ActionCreatePreparedStatementResult message =
        FLIGHT_SQL__PB__ACTION_CREATE_PREPARED_STATEMENT_RESULT__INIT;
    message.has_prepared_statement_handle = true;
    message.prepared_statement_handle = message_data(command->as.create_prepared_result.handle);
    message.has_dataset_schema = command->as.create_prepared_result.dataset_schema.size > 0;
    message.dataset_schema = message_data(command->as.create_prepared_result.dataset_schema);
    message.has_parameter_schema = command->as.create_prepared_result.parameter_schema.size > 0;
    message.parameter_schema = message_data(command->as.create_prepared_result.parameter_schema);
    return message_pack(&message.base, out, err);
}

static lake_status pack_value(const struct flight_sql_command *command, struct base_buffer *out,
                              struct lake_error *err)
{
    switch (command->kind) {
    case FLIGHT_SQL_STATEMENT_QUERY:
    case FLIGHT_SQL_STATEMENT_UPDATE:
    case FLIGHT_SQL_CREATE_PREPARED_REQUEST:
        return pack_statement(command, out, err);
    case FLIGHT_SQL_PREPARED_QUERY:
    case FLIGHT_SQL_PREPARED_UPDATE:
    case FLIGHT_SQL_CLOSE_PREPARED_REQUEST:
    case FLIGHT_SQL_TICKET_STATEMENT_QUERY:
        return pack_handle(command->as.prepared.handle, out, err);
    case FLIGHT_SQL_STATEMENT_INGEST:
        return pack_ingest(&command->as.ingest, out, err);
    case FLIGHT_SQL_GET_TABLES:
        return pack_tables(command, out, err);
    case FLIGHT_SQL_GET_SQL_INFO:
    case FLIGHT_SQL_GET_DB_SCHEMAS:
    case FLIGHT_SQL_GET_XDBC_TYPE_INFO:
        return pack_listing(command, out, err);
    case FLIGHT_SQL_GET_PRIMARY_KEYS:
    case FLIGHT_SQL_GET_EXPORTED_KEYS:
    case FLIGHT_SQL_GET_IMPORTED_KEYS:
        return pack_keys(&command->as.keys, out, err);
    case FLIGHT_SQL_GET_CROSS_REFERENCE:
        return pack_cross_reference(command, out, err);
    case FLIGHT_SQL_CREATE_PREPARED_RESULT:
        return pack_create_result(command, out, err);
    case FLIGHT_SQL_CANCEL_QUERY_REQUEST:
        return pack_handle(command->as.cancel_query.info, out, err); /* also bytes, number 1 */
    case FLIGHT_SQL_CANCEL_QUERY_RESULT:
        return flight_cancel_result_encode(command->as.cancel_result, out, err);
    case FLIGHT_SQL_GET_CATALOGS:
    case FLIGHT_SQL_GET_TABLE_TYPES:
        return LAKE_OK;
    case FLIGHT_SQL_STATEMENT_SUBSTRAIT_PLAN:
        break;
    }
    return lake_fail(err, LAKE_UNIMPLEMENTED, "Flight SQL command %d is not encoded",
                     (int)command->kind);
}

lake_status flight_sql_command_encode(const struct flight_sql_command *command,
                                      struct base_buffer *out, struct lake_error *err)
{
    FlightSql__Pb__Any any = FLIGHT_SQL__PB__ANY__INIT;
    char url[128] = URL_PREFIX SQL_PACKAGE;
    size_t used = strlen(url);
    struct base_buffer value;
    base_buffer_init(&value, (size_t)64 << 20);
    lake_status status = pack_value(command, &value, err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(kinds); i++) {
        if (kinds[i].kind == command->kind) {
            size_t size = strlen(kinds[i].name);
            memcpy(url + used, kinds[i].name, size + 1);
            used += size;
            break;
        }
    }
    if (status == LAKE_OK) {
        any.has_type_url = true;
        any.type_url = message_data_of_str((struct lake_str){url, used});
        any.has_value = value.size > 0;
        any.value = message_data(base_buffer_view(&value));
        status = message_pack(&any.base, out, err);
    }
    base_buffer_fini(&value);
    return status;
}

/* ---- results of DoPut ---- */

lake_status flight_sql_update_result_encode(int64_t record_count, struct base_buffer *out,
                                            struct lake_error *err)
{
    FlightSql__Pb__DoPutUpdateResult message = FLIGHT_SQL__PB__DO_PUT_UPDATE_RESULT__INIT;
    message.has_record_count = true;
    message.record_count = record_count;
    return message_pack(&message.base, out, err);
}

lake_status flight_sql_update_result_decode(struct lake_bytes bytes, int64_t *record_count,
                                            struct lake_error *err)
{
    uint64_t value = 0;
    lake_status status = message_number(bytes, "DoPutUpdateResult", UINT64_MAX, &value, err);
    if (status == LAKE_OK) {
        *record_count = (int64_t)value;
    }
    return status;
}

lake_status flight_sql_prepared_put_result_encode(struct lake_bytes handle, struct base_buffer *out,
                                                  struct lake_error *err)
{
    return pack_handle(handle, out, err);
}
