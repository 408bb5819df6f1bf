/* Control messages and Flight SQL commands against other implementations: PyArrow's serialised
 * messages, what the official ADBC driver sends, and PyArrow reading what Lake writes. */
#include <flight/flight.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char directory[] = "/tmp/lake-flight-XXXXXX";

#define EXPIRES_MS INT64_C(1893553445678) /* 2030-01-02T03:04:05.678Z */

static void check(lake_status status, const struct lake_error *err)
{
    if (status != LAKE_OK) {
        fail_msg("%s: %s", lake_status_name(status), err->message);
    }
}

static bool equals(struct lake_bytes bytes, const char *text, size_t size)
{
    return base_bytes_equal(bytes, (struct lake_bytes){(const uint8_t *)text, size});
}
#define EQUALS(bytes, literal)     assert_true(equals(bytes, literal, sizeof(literal) - 1))
#define TEXT_EQUALS(text, literal) assert_true(base_str_equal_c(text, literal))

static struct base_arena *new_arena(void)
{
    struct base_arena *arena;
    struct lake_error err = {0};
    check(base_arena_new(1 << 20, &arena, &err), &err);
    return arena;
}

static int python(const char *verb)
{
    char *command = base_format("'%s' '%s/tests/unit/flight/flight_fixtures.py' %s '%s'",
                                LAKE_PYTHON, LAKE_SOURCE_DIR, verb, directory);
    int code = system(command);
    base_free(command);
    return code;
}

/* False when there is no such file. */
static bool read_if_there(const char *name, uint8_t *out, size_t capacity, struct lake_bytes *view)
{
    char *path = base_format("%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    base_free(path);
    if (file == NULL) {
        return false;
    }
    *view = (struct lake_bytes){out, fread(out, 1, capacity, file)};
    fclose(file);
    return true;
}

static struct lake_bytes read_file(const char *name, uint8_t *out, size_t capacity)
{
    struct lake_bytes view;
    assert_true(read_if_there(name, out, capacity, &view));
    return view;
}

static void write_file(const char *name, const struct base_buffer *buffer)
{
    char *path = base_format("%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(buffer->data, 1, buffer->size, file), buffer->size);
    fclose(file);
    base_free(path);
}

static void schema_bytes(struct base_buffer *out)
{
    struct ArrowSchema schema;
    struct lake_error err = {0};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 2), 0);
    assert_int_equal(ArrowSchemaSetType(schema.children[0], NANOARROW_TYPE_INT64), 0);
    assert_int_equal(ArrowSchemaSetName(schema.children[0], "n"), 0);
    assert_int_equal(ArrowSchemaSetType(schema.children[1], NANOARROW_TYPE_STRING), 0);
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "text"), 0);
    check(arrow_ipc_schema_to_bytes(&schema, out, &err), &err);
    ArrowSchemaRelease(&schema);
}

static void pyarrow_messages_are_read(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_arena *arena = new_arena();
    static uint8_t bytes[65536];
    struct flight_descriptor descriptor;
    struct flight_action action;
    struct flight_basic_auth auth;
    struct lake_bytes view;

    view = read_file("descriptor_command", bytes, sizeof(bytes));
    check(flight_descriptor_decode(view, arena, &descriptor, &err), &err);
    assert_int_equal(descriptor.type, FLIGHT_DESCRIPTOR_CMD);
    EQUALS(descriptor.command, "\x00\xff"
                               "command");
    view = read_file("descriptor_path", bytes, sizeof(bytes));
    check(flight_descriptor_decode(view, arena, &descriptor, &err), &err);
    assert_int_equal(descriptor.type, FLIGHT_DESCRIPTOR_PATH);
    assert_int_equal(descriptor.path_count, 2);
    TEXT_EQUALS(descriptor.path[0], "ns");
    TEXT_EQUALS(descriptor.path[1], "tabl\xc3\xa9");
    check(flight_ticket_decode(read_file("ticket", bytes, sizeof(bytes)), &view, &err), &err);
    EQUALS(view, "\x01\x00ticket");
    check(flight_result_decode(read_file("result", bytes, sizeof(bytes)), &view, &err), &err);
    EQUALS(view, "\xffresult");
    view = read_file("action", bytes, sizeof(bytes));
    check(flight_action_decode(view, arena, &action, &err), &err);
    TEXT_EQUALS(action.type, FLIGHT_ACTION_CREATE_PREPARED);
    EQUALS(action.body, "\x00"
                        "body");
    view = read_file("basic_auth", bytes, sizeof(bytes));
    check(flight_basic_auth_decode(view, arena, &auth, &err), &err);
    TEXT_EQUALS(auth.username, "user");
    TEXT_EQUALS(auth.password, "p\xc3\xa4ssword");
    struct ArrowSchema schema;
    check(
        flight_schema_result_decode(read_file("schema_result", bytes, sizeof(bytes)), &view, &err),
        &err);
    check(arrow_ipc_schema_from_bytes(view, &schema, &err), &err);
    assert_int_equal(schema.n_children, 2);
    ArrowSchemaRelease(&schema);
    base_arena_free(arena);
}

static void a_pyarrow_flight_info_is_read_whole(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_arena *arena = new_arena();
    static uint8_t bytes[65536];
    struct flight_info info;
    check(flight_info_decode(read_file("info", bytes, sizeof(bytes)), arena, &info, &err), &err);
    assert_true(info.has_descriptor);
    EQUALS(info.descriptor.command, "\x00\xff"
                                    "command");
    assert_int_equal(info.total_records, 12345);
    assert_int_equal(info.total_bytes, -1);
    assert_true(info.ordered);
    EQUALS(info.app_metadata, "app");
    assert_int_equal(info.endpoint_count, 2);
    const struct flight_endpoint *first = &info.endpoints[0];
    EQUALS(first->ticket, "ticket one");
    assert_int_equal(first->location_count, 2);
    TEXT_EQUALS(first->locations[1], "grpc+tls://b:2");
    assert_true(first->has_expiration);
    assert_int_equal(first->expiration_unix_ms, EXPIRES_MS);
    EQUALS(first->app_metadata, "meta");
    assert_false(info.endpoints[1].has_expiration);
    assert_int_equal(info.endpoints[1].location_count, 0);
    struct ArrowSchema schema;
    check(arrow_ipc_schema_from_bytes(info.schema, &schema, &err), &err);
    assert_string_equal(schema.children[1]->name, "text");
    ArrowSchemaRelease(&schema);
    base_arena_free(arena);
}

static void example_info(struct flight_info *info, struct base_buffer *schema)
{
    static const struct lake_str locations[] = {{"grpc://a:1", 10}, {"grpc+tls://b:2", 14}};
    static struct flight_endpoint endpoints[2];
    schema_bytes(schema);
    endpoints[0] = (struct flight_endpoint){
        .ticket = base_bytes_of_str(LAKE_STR("ticket one")),
        .locations = locations,
        .location_count = 2,
        .has_expiration = true,
        .expiration_unix_ms = EXPIRES_MS,
        .app_metadata = base_bytes_of_str(LAKE_STR("meta")),
    };
    endpoints[1] = (struct flight_endpoint){.ticket = base_bytes_of_str(LAKE_STR("ticket two"))};
    *info = (struct flight_info){
        .schema = base_buffer_view(schema),
        .has_descriptor = true,
        .descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                       .command = base_bytes_of_str(LAKE_STR("\x00\xff"
                                                             "command"))},
        .endpoints = endpoints,
        .endpoint_count = 2,
        .total_records = 12345,
        .total_bytes = -1,
        .ordered = true,
        .app_metadata = base_bytes_of_str(LAKE_STR("app")),
    };
}

static void pyarrow_reads_our_messages(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_buffer out;
    struct base_buffer schema;
    struct flight_info info;
    const struct lake_str path[] = {LAKE_STR("ns"), LAKE_STR("tabl\xc3\xa9")};
    struct flight_descriptor by_path = {
        .type = FLIGHT_DESCRIPTOR_PATH, .path = path, .path_count = 2};
    struct flight_action action = {LAKE_STR("CreatePreparedStatement"),
                                   base_bytes_of_str(LAKE_STR("\x00"
                                                              "body"))};
    struct flight_basic_auth auth = {LAKE_STR("user"), LAKE_STR("p\xc3\xa4ssword")};
    base_buffer_init(&out, 1 << 20);
    base_buffer_init(&schema, 1 << 20);
    example_info(&info, &schema);
#define WRITE(name, call)               \
    do {                                \
        base_buffer_clear(&out);        \
        check(call, &err);              \
        write_file(name ".lake", &out); \
    } while (0)
    WRITE("descriptor_command", flight_descriptor_encode(&info.descriptor, &out, &err));
    WRITE("descriptor_path", flight_descriptor_encode(&by_path, &out, &err));
    WRITE("ticket",
          flight_ticket_encode(base_bytes_of_str(LAKE_STR("\x01\x00ticket")), &out, &err));
    WRITE("action", flight_action_encode(&action, &out, &err));
    WRITE("result", flight_result_encode(base_bytes_of_str(LAKE_STR("\xffresult")), &out, &err));
    WRITE("schema_result", flight_schema_result_encode(base_buffer_view(&schema), &out, &err));
    WRITE("basic_auth", flight_basic_auth_encode(&auth, &out, &err));
    WRITE("info", flight_info_encode(&info, &out, &err));
    base_buffer_fini(&out);
    base_buffer_fini(&schema);
    assert_int_equal(python("judge"), 0);
}

/* ---- Flight SQL: recorded from the official driver ---- */

struct seen {
    int count[64];
};

static void check_optional(struct flight_optional_str text, const char *expected)
{
    assert_true(text.present);
    TEXT_EQUALS(text.value, expected);
}

static void check_ingest(const struct flight_sql_ingest *ingest)
{
    TEXT_EQUALS(ingest->table, "frames");
    check_optional(ingest->catalog, "lake");
    check_optional(ingest->schema, "robots");
    assert_int_equal(ingest->if_exists, FLIGHT_SQL_INGEST_EXISTS_APPEND);
    assert_int_equal(ingest->if_not_exist, FLIGHT_SQL_INGEST_NOT_EXIST_FAIL);
    assert_false(ingest->temporary);
}

static void check_command(const struct flight_sql_command *command)
{
    switch (command->kind) {
    case FLIGHT_SQL_CREATE_PREPARED_REQUEST:
        assert_true(base_str_equal_c(command->as.statement.query, "SELECT 'gr\xc3\xbc\xc3\x9f"
                                                                  "e'") ||
                    base_str_equal_c(command->as.statement.query, "INSERT INTO t VALUES (?)"));
        assert_null(command->as.statement.transaction_id.data);
        break;
    case FLIGHT_SQL_PREPARED_QUERY:
    case FLIGHT_SQL_PREPARED_UPDATE:
    case FLIGHT_SQL_CLOSE_PREPARED_REQUEST:
        EQUALS(command->as.prepared.handle, "\x00handle");
        break;
    case FLIGHT_SQL_GET_DB_SCHEMAS:
        assert_false(command->as.db_schemas.catalog.present);
        check_optional(command->as.db_schemas.db_schema_pattern, "rob%");
        break;
    case FLIGHT_SQL_STATEMENT_INGEST:
        check_ingest(&command->as.ingest);
        break;
    default:
        break;
    }
}

static void decode_recorded(const char *what, struct seen *seen)
{
    static uint8_t bytes[65536];
    for (int i = 0; i < 64; i++) {
        struct lake_error err = {0};
        struct lake_bytes view;
        struct flight_sql_command command;
        char *name = base_format("adbc_%s_%d", what, i);
        bool there = read_if_there(name, bytes, sizeof(bytes), &view);
        base_free(name);
        if (!there) {
            return;
        }
        if (view.size == 0) {
            continue; /* CloseSession has no body */
        }
        struct base_arena *arena = new_arena();
        assert_true(flight_sql_is_command(view));
        check(flight_sql_command_decode(view, arena, &command, &err), &err);
        check_command(&command);
        seen->count[command.kind]++;
        /* What we encode from it means the same again. */
        struct base_buffer again;
        struct flight_sql_command twice;
        base_buffer_init(&again, 1 << 20);
        check(flight_sql_command_encode(&command, &again, &err), &err);
        check(flight_sql_command_decode(base_buffer_view(&again), arena, &twice, &err), &err);
        assert_int_equal(twice.kind, command.kind);
        check_command(&twice);
        base_buffer_fini(&again);
        base_arena_free(arena);
    }
}

static void write_create_result(void)
{
    struct lake_error err = {0};
    struct base_buffer schema;
    struct base_buffer out;
    base_buffer_init(&schema, 1 << 20);
    base_buffer_init(&out, 1 << 20);
    schema_bytes(&schema);
    struct flight_sql_command result = {.kind = FLIGHT_SQL_CREATE_PREPARED_RESULT};
    result.as.create_prepared_result.handle = base_bytes_of_str(LAKE_STR("\x00handle"));
    result.as.create_prepared_result.dataset_schema = base_buffer_view(&schema);
    check(flight_sql_command_encode(&result, &out, &err), &err);
    write_file("create_prepared_result", &out);
    base_buffer_fini(&schema);
    base_buffer_fini(&out);
}

static void every_command_of_the_adbc_driver_is_understood(void **state)
{
    (void)state;
    struct seen seen = {0};
    write_create_result();
    assert_int_equal(python("record"), 0);
    decode_recorded("command", &seen);
    decode_recorded("action", &seen);
    decode_recorded("put", &seen);
    assert_true(seen.count[FLIGHT_SQL_GET_SQL_INFO] > 0);
    assert_true(seen.count[FLIGHT_SQL_GET_CATALOGS] > 0);
    assert_true(seen.count[FLIGHT_SQL_GET_DB_SCHEMAS] > 0);
    assert_true(seen.count[FLIGHT_SQL_PREPARED_UPDATE] > 0);
    assert_true(seen.count[FLIGHT_SQL_GET_TABLE_TYPES] > 0);
    assert_true(seen.count[FLIGHT_SQL_CREATE_PREPARED_REQUEST] >= 2);
    assert_true(seen.count[FLIGHT_SQL_PREPARED_QUERY] > 0);
    assert_true(seen.count[FLIGHT_SQL_CLOSE_PREPARED_REQUEST] > 0);
    assert_true(seen.count[FLIGHT_SQL_STATEMENT_INGEST] > 0);
}

/* ---- Flight SQL: bytes written by hand ---- */

/* Any{1: url, 2: value} by the wire format's rules. */
static struct lake_bytes any(const char *name, const char *value, size_t size, uint8_t *out)
{
    char url[128];
    size_t url_size = (size_t)snprintf(url, sizeof(url), "type.googleapis.com/%s", name);
    out[0] = 0x0A;
    out[1] = (uint8_t)url_size;
    memcpy(out + 2, url, url_size);
    out[2 + url_size] = 0x12;
    out[3 + url_size] = (uint8_t)size;
    memcpy(out + 4 + url_size, value, size);
    return (struct lake_bytes){out, 4 + url_size + size};
}

static lake_status decode_any(const char *name, const char *value, size_t size,
                              struct base_arena *arena, struct flight_sql_command *out,
                              struct lake_error *err)
{
    uint8_t bytes[512];
    struct lake_bytes view = any(name, value, size, bytes);
    return flight_sql_command_decode(view, arena, out, err);
}
#define SQL_TYPE(name) "arrow.flight.protocol.sql." name

static void commands_by_the_specification_are_read(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_arena *arena = new_arena();
    struct flight_sql_command command;
    const char statement[] = "\x0A\x08SELECT 1\x12\x02tx";
    check(decode_any(SQL_TYPE("CommandStatementQuery"), statement, sizeof(statement) - 1, arena,
                     &command, &err),
          &err);
    assert_int_equal(command.kind, FLIGHT_SQL_STATEMENT_QUERY);
    TEXT_EQUALS(command.as.statement.query, "SELECT 1");
    EQUALS(command.as.statement.transaction_id, "tx");
    /* Packed and unpacked lists of codes mean the same. */
    const char packed[] = "\x0A\x03\x00\xF4\x03";
    const char unpacked[] = "\x08\x00\x08\xF4\x03";
    const char *infos[] = {packed, unpacked};
    for (size_t i = 0; i < 2; i++) {
        check(decode_any(SQL_TYPE("CommandGetSqlInfo"), infos[i], 5, arena, &command, &err), &err);
        assert_int_equal(command.as.sql_info.count, 2);
        assert_int_equal(command.as.sql_info.codes[0], FLIGHT_SQL_INFO_SERVER_NAME);
        assert_int_equal(command.as.sql_info.codes[1], FLIGHT_SQL_INFO_DDL_CATALOG);
    }
    /* An empty catalog is there; an absent one is not (F06). */
    const char empty_catalog[] = "\x0A\x00";
    check(decode_any(SQL_TYPE("CommandGetTables"), empty_catalog, 2, arena, &command, &err), &err);
    assert_true(command.as.tables.catalog.present);
    assert_int_equal(command.as.tables.catalog.value.size, 0);
    assert_false(command.as.tables.db_schema_pattern.present);
    const char tables[] = "\x12\x01s\x1A\x01t\x22\x05TABLE\x22\x04VIEW\x28\x01";
    check(
        decode_any(SQL_TYPE("CommandGetTables"), tables, sizeof(tables) - 1, arena, &command, &err),
        &err);
    check_optional(command.as.tables.db_schema_pattern, "s");
    check_optional(command.as.tables.table_name_pattern, "t");
    assert_int_equal(command.as.tables.table_type_count, 2);
    TEXT_EQUALS(command.as.tables.table_types[1], "VIEW");
    assert_true(command.as.tables.include_schema);
    const char keys[] = "\x0A\x01"
                        "c\x12\x01s\x1A\x01t";
    check(decode_any(SQL_TYPE("CommandGetPrimaryKeys"), keys, sizeof(keys) - 1, arena, &command,
                     &err),
          &err);
    assert_int_equal(command.kind, FLIGHT_SQL_GET_PRIMARY_KEYS);
    TEXT_EQUALS(command.as.keys.table, "t");
    const char cross[] = "\x1A\x01p\x32\x01"
                         "f";
    check(decode_any(SQL_TYPE("CommandGetCrossReference"), cross, sizeof(cross) - 1, arena,
                     &command, &err),
          &err);
    TEXT_EQUALS(command.as.cross_reference.pk.table, "p");
    TEXT_EQUALS(command.as.cross_reference.fk.table, "f");
    check(decode_any(SQL_TYPE("CommandGetXdbcTypeInfo"), "\x08\x04", 2, arena, &command, &err),
          &err);
    assert_true(command.as.xdbc_type_info.has_data_type);
    assert_int_equal(command.as.xdbc_type_info.data_type, 4);
    base_arena_free(arena);
}

static void hostile_commands_are_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_arena *arena = new_arena();
    struct flight_sql_command command;
    const char nul[] = "\x0A\x03"
                       "a\0b";
    const char not_utf8[] = "\x0A\x02\xff\xfe";
    const char cut[] = "\x0A\x7Fx";
    assert_int_equal(decode_any(SQL_TYPE("CommandStatementQuery"), nul, 5, arena, &command, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(
        decode_any(SQL_TYPE("CommandStatementQuery"), not_utf8, 4, arena, &command, &err),
        LAKE_INVALID_ARGUMENT);
    assert_int_equal(decode_any(SQL_TYPE("CommandStatementQuery"), cut, 3, arena, &command, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(decode_any(SQL_TYPE("CommandFromTheFuture"), "", 0, arena, &command, &err),
                     LAKE_UNIMPLEMENTED);
    assert_non_null(strstr(err.message, "CommandFromTheFuture"));
    assert_int_equal(decode_any("google.protobuf.Empty", "", 0, arena, &command, &err),
                     LAKE_UNIMPLEMENTED);
    struct lake_bytes plain = base_bytes_of_str(LAKE_STR("SELECT 1"));
    assert_false(flight_sql_is_command(plain));
    assert_int_equal(flight_sql_command_decode(plain, arena, &command, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_int_equal(flight_sql_command_decode((struct lake_bytes){NULL, 0}, arena, &command, &err),
                     LAKE_INVALID_ARGUMENT);
    base_arena_free(arena);
}

static void a_message_larger_than_its_arena_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_arena *arena;
    struct flight_descriptor descriptor;
    static uint8_t bytes[200000];
    /* 100,000 empty path elements: little on the wire, much in memory. */
    for (size_t i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = 0x1A;
        bytes[i + 1] = 0x00;
    }
    check(base_arena_new(100000, &arena, &err), &err);
    assert_int_equal(flight_descriptor_decode((struct lake_bytes){bytes, sizeof(bytes)}, arena,
                                              &descriptor, &err),
                     LAKE_RESOURCE_EXHAUSTED);
    base_arena_free(arena);
}

static void small_results_by_the_specification(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_buffer out;
    base_buffer_init(&out, 1024);
    check(flight_sql_update_result_encode(-1, &out, &err), &err);
    EQUALS(base_buffer_view(&out), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    int64_t count = 0;
    check(flight_sql_update_result_decode(base_buffer_view(&out), &count, &err), &err);
    assert_int_equal(count, -1);
    base_buffer_clear(&out);
    check(flight_sql_prepared_put_result_encode(base_bytes_of_str(LAKE_STR("h2")), &out, &err),
          &err);
    EQUALS(base_buffer_view(&out), "\x0A\x02h2");
    base_buffer_clear(&out);
    check(flight_cancel_result_encode(FLIGHT_CANCEL_CANCELLED, &out, &err), &err);
    EQUALS(base_buffer_view(&out), "\x08\x01");
    enum flight_cancel_status status;
    check(flight_cancel_result_decode(base_buffer_view(&out), &status, &err), &err);
    assert_int_equal(status, FLIGHT_CANCEL_CANCELLED);
    base_buffer_clear(&out);
    const struct lake_str name = LAKE_STR("opt");
    check(flight_set_session_result_encode(&name, 1, FLIGHT_SET_SESSION_INVALID_NAME, &out, &err),
          &err);
    EQUALS(base_buffer_view(&out), "\x0A\x09\x0A\x03opt\x12\x02\x08\x01");
    base_buffer_fini(&out);
}

static void poll_and_cancel_messages_come_back(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct base_arena *arena = new_arena();
    struct base_buffer out;
    struct base_buffer schema;
    struct flight_info info;
    base_buffer_init(&out, 1 << 20);
    base_buffer_init(&schema, 1 << 20);
    example_info(&info, &schema);
    struct flight_poll_info poll = {
        .info = &info,
        .has_descriptor = true,
        .descriptor = info.descriptor,
        .has_progress = true,
        .progress = 0.25,
        .has_expiration = true,
        .expiration_unix_ms = -1,
    };
    struct flight_poll_info again;
    check(flight_poll_info_encode(&poll, &out, &err), &err);
    check(flight_poll_info_decode(base_buffer_view(&out), arena, &again, &err), &err);
    assert_true(again.has_descriptor && again.has_progress && again.has_expiration);
    assert_true(again.progress == 0.25);
    assert_int_equal(again.expiration_unix_ms, -1);
    assert_int_equal(again.info->endpoint_count, 2);
    base_buffer_clear(&out);
    struct flight_info cancelled;
    check(flight_cancel_request_encode(&info, &out, &err), &err);
    check(flight_cancel_request_decode(base_buffer_view(&out), arena, &cancelled, &err), &err);
    EQUALS(cancelled.endpoints[1].ticket, "ticket two");
    base_buffer_fini(&out);
    base_buffer_fini(&schema);
    base_arena_free(arena);
}

/* ---- metadata results ---- */

static void schema_text(enum flight_sql_command_kind kind, bool include, char *out, size_t size)
{
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct base_buffer text;
    base_buffer_init(&text, 1 << 16);
    check(flight_sql_result_schema(kind, include, &schema, &err), &err);
    for (int64_t i = 0; i < schema.n_children; i++) {
        const struct ArrowSchema *field = schema.children[i];
        check(base_buffer_printf(&text, &err, "%s%s: ", i == 0 ? "" : ", ", field->name), &err);
        check(arrow_type_format(field, &text, &err), &err);
        if ((field->flags & ARROW_FLAG_NULLABLE) == 0) {
            check(base_buffer_append(&text, "!", 1, &err), &err);
        }
    }
    ArrowSchemaRelease(&schema);
    assert_true(text.size < size);
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    base_buffer_fini(&text);
}

static void metadata_schemas_are_those_of_the_specification(void **state)
{
    (void)state;
    char text[2048];
    schema_text(FLIGHT_SQL_GET_CATALOGS, false, text, sizeof(text));
    assert_string_equal(text, "catalog_name: utf8!");
    schema_text(FLIGHT_SQL_GET_DB_SCHEMAS, false, text, sizeof(text));
    assert_string_equal(text, "catalog_name: utf8, db_schema_name: utf8!");
    schema_text(FLIGHT_SQL_GET_TABLES, false, text, sizeof(text));
    assert_string_equal(text, "catalog_name: utf8, db_schema_name: utf8, table_name: utf8!, "
                              "table_type: utf8!");
    schema_text(FLIGHT_SQL_GET_TABLES, true, text, sizeof(text));
    assert_string_equal(text, "catalog_name: utf8, db_schema_name: utf8, table_name: utf8!, "
                              "table_type: utf8!, table_schema: binary!");
    schema_text(FLIGHT_SQL_GET_TABLE_TYPES, false, text, sizeof(text));
    assert_string_equal(text, "table_type: utf8!");
    schema_text(FLIGHT_SQL_GET_PRIMARY_KEYS, false, text, sizeof(text));
    assert_string_equal(text, "catalog_name: utf8, db_schema_name: utf8, table_name: utf8!, "
                              "column_name: utf8!, key_name: utf8, key_sequence: int32!");
    schema_text(FLIGHT_SQL_GET_CROSS_REFERENCE, false, text, sizeof(text));
    assert_string_equal(text,
                        "pk_catalog_name: utf8, pk_db_schema_name: utf8, pk_table_name: utf8!, "
                        "pk_column_name: utf8!, fk_catalog_name: utf8, fk_db_schema_name: utf8, "
                        "fk_table_name: utf8!, fk_column_name: utf8!, key_sequence: int32!, "
                        "fk_key_name: utf8, pk_key_name: utf8, update_rule: uint8!, "
                        "delete_rule: uint8!");
    schema_text(FLIGHT_SQL_GET_SQL_INFO, false, text, sizeof(text));
    assert_string_equal(text, "info_name: uint32!, value: dense_union<string_value: utf8, "
                              "bool_value: bool, bigint_value: int64, int32_bitmask: int32, "
                              "string_list: list<utf8>, int32_to_int32_list_map: map<int32, "
                              "list<int32>>>!");
    struct ArrowSchema schema;
    struct lake_error err = {0};
    assert_int_equal(flight_sql_result_schema(FLIGHT_SQL_STATEMENT_QUERY, false, &schema, &err),
                     LAKE_INVALID_ARGUMENT);
}

static void sql_info_rows_keep_order_and_values(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct flight_sql_info_builder *builder;
    struct ArrowArray rows;
    struct ArrowSchema schema;
    const struct lake_str words[] = {LAKE_STR("abs"), LAKE_STR("ceil")};
    check(flight_sql_info_builder_new(&builder, &err), &err);
    check(flight_sql_info_add_string(builder, 0, LAKE_STR("Lake"), &err), &err);
    check(flight_sql_info_add_bool(builder, 3, true, &err), &err);
    check(flight_sql_info_add_int64(builder, 541, 7, &err), &err);
    check(flight_sql_info_add_bitmask(builder, 522, 3, &err), &err);
    check(flight_sql_info_add_string_list(builder, 509, words, 2, &err), &err);
    check(flight_sql_info_add_empty_map(builder, 517, &err), &err);
    check(flight_sql_info_add_string(builder, 1, LAKE_STR("0.1"), &err), &err);
    check(flight_sql_info_builder_finish(builder, &rows, &err), &err);
    flight_sql_info_builder_free(builder);
    check(flight_sql_result_schema(FLIGHT_SQL_GET_SQL_INFO, false, &schema, &err), &err);
    check(arrow_array_validate(&schema, &rows, &err), &err);
    assert_int_equal(rows.length, 7);
    const uint32_t *codes = rows.children[0]->buffers[1];
    const int8_t *types = rows.children[1]->buffers[0];
    const int32_t *offsets = rows.children[1]->buffers[1];
    const uint32_t expected_codes[] = {0, 3, 541, 522, 509, 517, 1};
    const int8_t expected_types[] = {0, 1, 2, 3, 4, 5, 0};
    const int32_t expected_offsets[] = {0, 0, 0, 0, 0, 0, 1};
    assert_memory_equal(codes, expected_codes, sizeof(expected_codes));
    assert_memory_equal(types, expected_types, sizeof(expected_types));
    assert_memory_equal(offsets, expected_offsets, sizeof(expected_offsets));
    ArrowSchemaRelease(&schema);
    ArrowArrayRelease(&rows);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? 1 : python("write");
}

static int teardown(void **state)
{
    (void)state;
    char *command = base_format("rm -rf '%s'", directory);
    int code = system(command);
    base_free(command);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pyarrow_messages_are_read),
        cmocka_unit_test(a_pyarrow_flight_info_is_read_whole),
        cmocka_unit_test(pyarrow_reads_our_messages),
        cmocka_unit_test(every_command_of_the_adbc_driver_is_understood),
        cmocka_unit_test(commands_by_the_specification_are_read),
        cmocka_unit_test(hostile_commands_are_refused),
        cmocka_unit_test(a_message_larger_than_its_arena_is_refused),
        cmocka_unit_test(small_results_by_the_specification),
        cmocka_unit_test(poll_and_cancel_messages_come_back),
        cmocka_unit_test(metadata_schemas_are_those_of_the_specification),
        cmocka_unit_test(sql_info_rows_keep_order_and_values),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
