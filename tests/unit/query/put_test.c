/* DoPut through Query, against a Metasrv of the test's own that takes everything: what is refused
 * here is refused by Query (OBJ-2, SQL-5, SDK-4). */
#include "query_internal.h"
#include "temp_directory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fake_server.h"

#define SHA256 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define STAGE  "file:///stage/tenants/lab/"

static struct {
    struct temp_directory directory;
    struct fake_server metasrv;
    struct rpc_authenticator *principals;
    struct query_server *query;
    struct rpc_channel *channel;
    atomic_int stage_asked;
    atomic_int completed; /* appends of which Metasrv saw the end */
    atomic_int messages;
    _Atomic uint64_t bytes;
    lake_status answer;
} fake;

/* ---- Metasrv ---- */

static lake_status answer_action(struct rpc_call *call, const struct flight_action *asked,
                                 struct lake_error *err)
{
    if (base_str_equal_c(asked->type, "lake.stage")) {
        LakePb__StageDescriptor stage = LAKE_PB__STAGE_DESCRIPTOR__INIT;
        atomic_fetch_add(&fake.stage_asked, 1);
        stage.has_format_version = stage.has_root_uri = stage.has_kind = 1;
        stage.format_version = 1;
        stage.kind = fake_binary("local");
        stage.root_uri = fake_binary("file:///stage");
        return fake_send_message(call, &stage.base, err);
    }
    LakePb__CatalogSnapshotReply snapshot = LAKE_PB__CATALOG_SNAPSHOT_REPLY__INIT;
    snapshot.has_authority = snapshot.has_generation = 1;
    snapshot.authority = fake_binary("registry-1");
    snapshot.generation = 1;
    return fake_send_message(call, &snapshot.base, err);
}

static lake_status take_append(struct rpc_call *call, void *context, struct lake_error *err)
{
    uint8_t bytes[64];
    struct base_buffer reply;
    (void)context;
    for (bool end = false; !end;) {
        struct rpc_payload payload = {0};
        lake_status status = rpc_call_receive(call, &payload, &end, err);
        if (status != LAKE_OK)
            return status;
        if (!end) {
            atomic_fetch_add(&fake.messages, 1);
            atomic_fetch_add(&fake.bytes, payload.bytes.size);
        }
        rpc_payload_fini(&payload);
    }
    atomic_fetch_add(&fake.completed, 1);
    if (fake.answer != LAKE_OK)
        return lake_fail(err, fake.answer, "as told");
    LakePb__AppendResult answer = LAKE_PB__APPEND_RESULT__INIT;
    answer.has_version = 1;
    answer.version = 5;
    size_t size = lake_pb__append_result__pack(&answer, bytes);
    base_buffer_init(&reply, 1024);
    assert_int_equal(flight_put_result_encode((struct lake_bytes){bytes, size}, &reply, NULL),
                     LAKE_OK);
    lake_status status =
        flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&reply), err);
    base_buffer_fini(&reply);
    return status;
}

/* ---- Query, and a client of it ---- */

static int start(void **state)
{
    char path[512];
    char address[64];
    struct query_options options;
    struct base_secret token = {0};
    (void)state;
    base_log_set_level(BASE_LOG_ERROR);
    fake.directory = temp_directory_make();
    snprintf(path, sizeof(path), "%s/principals", fake.directory.path);
    FILE *file = fopen(path, "w");
    fputs("{\"principals\": [{\"token\": \"token-of-ann\", \"principal_id\": \"ann\", "
          "\"tenant_id\": \"lab\", \"role\": \"user\", \"namespaces\": [\"robots\"]}]}",
          file);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(rpc_authenticator_new(path, NULL, &fake.principals, NULL), LAKE_OK);
    fake_server_start(&fake.metasrv, answer_action, take_append);
    assert_int_equal(query_options_from_environment(&options, NULL), LAKE_OK);
    options.meta_address = fake.metasrv.address;
    options.authenticator = fake.principals;
    assert_int_equal(query_server_open(&options, &fake.query, NULL), LAKE_OK);
    assert_int_equal(query_server_start(fake.query, NULL), LAKE_OK);
    snprintf(address, sizeof(address), "127.0.0.1:%d", query_server_port(fake.query));
    assert_int_equal(base_secret_copy(&token, base_bytes_of_str(LAKE_STR("token-of-ann")), NULL),
                     LAKE_OK);
    struct rpc_channel_options channel = {.target = address, .bearer_token = &token};
    assert_int_equal(rpc_channel_open(&channel, &fake.channel, NULL), LAKE_OK);
    base_secret_fini(&token);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rpc_channel_unref(fake.channel);
    query_server_free(fake.query);
    fake_server_stop(&fake.metasrv);
    rpc_authenticator_free(fake.principals);
    temp_directory_remove(&fake.directory);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    atomic_store(&fake.completed, 0);
    atomic_store(&fake.messages, 0);
    atomic_store(&fake.bytes, 0);
    fake.answer = LAKE_OK;
    return 0;
}

/* The bytes of a descriptor whose command is an Any of this type around an append command. */
static void descriptor_of(const char *type_url, const char *namespace_name, size_t id_bytes,
                          struct base_buffer *out)
{
    static char id[8192];
    uint8_t message[16384];
    struct base_buffer any;
    LakePb__AppendCommand command = LAKE_PB__APPEND_COMMAND__INIT;
    LakePb__TableName name = LAKE_PB__TABLE_NAME__INIT;
    memset(id, 'a', sizeof(id));
    name.has_namespace_name = name.has_table = 1;
    name.namespace_name = fake_binary(namespace_name);
    name.table = fake_binary("t");
    command.name = &name;
    command.has_operation_id = 1;
    command.operation_id = (ProtobufCBinaryData){id_bytes, (uint8_t *)id};
    size_t size = lake_pb__append_command__pack(&command, message);
    base_buffer_init(&any, 1 << 20);
    base_buffer_init(out, 1 << 20);
    assert_int_equal(flight_any_pack(type_url, (struct lake_bytes){message, size}, &any, NULL),
                     LAKE_OK);
    struct flight_descriptor descriptor = {.type = FLIGHT_DESCRIPTOR_CMD,
                                           .command = base_buffer_view(&any)};
    assert_int_equal(flight_descriptor_encode(&descriptor, out, NULL), LAKE_OK);
    base_buffer_fini(&any);
}

struct put {
    struct rpc_client_call *call;
    struct flight_stream_writer *writer;
    lake_status status; /* of what was sent so far */
    struct lake_error err;
};

static void put_begin(struct put *put, const struct ArrowSchema *schema)
{
    struct base_buffer descriptor;
    struct flight_stream_options options;
    *put = (struct put){0};
    flight_stream_options_init(&options);
    options.max_message_bytes = UINT64_MAX;
    descriptor_of("type.lake/AppendCommand", "robots", 36, &descriptor);
    assert_int_equal(
        rpc_client_call_start(fake.channel, FLIGHT_METHOD_DO_PUT, NULL, 0, 30000, &put->call, NULL),
        LAKE_OK);
    assert_int_equal(flight_stream_writer_new(flight_sender_of_client(put->call), schema, &options,
                                              &put->writer, NULL),
                     LAKE_OK);
    put->status = flight_stream_writer_begin(put->writer, base_buffer_view(&descriptor),
                                             (struct lake_bytes){0}, &put->err);
    base_buffer_fini(&descriptor);
}

/* Takes `array` over. */
static void put_batch(struct put *put, struct ArrowArray *array)
{
    struct arrow_batch *batch = NULL;
    assert_int_equal(arrow_batch_new(array, &batch, NULL), LAKE_OK);
    if (put->status == LAKE_OK)
        put->status = flight_stream_writer_write(put->writer, batch, &put->err);
    arrow_batch_unref(batch);
}

static lake_status put_end(struct put *put)
{
    lake_status status = put->status;
    bool end = false;
    flight_stream_writer_free(put->writer);
    if (status == LAKE_OK)
        status = rpc_client_call_finish_sending(put->call, &put->err);
    while (status == LAKE_OK && !end) {
        struct rpc_payload payload = {0};
        status = rpc_client_call_receive(put->call, &payload, &end, &put->err);
        rpc_payload_fini(&payload);
    }
    rpc_client_call_free(put->call);
    return status;
}

static void assert_refused(lake_status status, lake_status expected, const struct lake_error *err,
                           const char *text)
{
    if (status != expected || strstr(err->message, text) == NULL)
        print_error("%s: %s, expected %s with \"%s\"\n", lake_status_name(status), err->message,
                    lake_status_name(expected), text);
    assert_int_equal(status, expected);
    assert_non_null(strstr(err->message, text));
    assert_int_equal(atomic_load(&fake.completed), 0);
}

/* ---- rows ---- */

/* Columns: id, a FILE, a struct that holds one, a list of them. */
static void file_schema(struct ArrowSchema *schema)
{
    ArrowSchemaInit(schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(schema, 4), 0);
    assert_int_equal(ArrowSchemaSetType(schema->children[0], NANOARROW_TYPE_INT64), 0);
    assert_int_equal(ArrowSchemaSetName(schema->children[0], "id"), 0);
    schema->children[1]->release(schema->children[1]);
    assert_int_equal(arrow_file_schema_init(schema->children[1], "video", true, NULL), LAKE_OK);
    assert_int_equal(ArrowSchemaSetTypeStruct(schema->children[2], 1), 0);
    assert_int_equal(ArrowSchemaSetName(schema->children[2], "scan"), 0);
    struct ArrowSchema *inner = schema->children[2]->children[0];
    inner->release(inner);
    assert_int_equal(arrow_file_schema_init(inner, "cloud", true, NULL), LAKE_OK);
    assert_int_equal(ArrowSchemaSetType(schema->children[3], NANOARROW_TYPE_LIST), 0);
    assert_int_equal(ArrowSchemaSetName(schema->children[3], "views"), 0);
    inner = schema->children[3]->children[0];
    inner->release(inner);
    assert_int_equal(arrow_file_schema_init(inner, "item", true, NULL), LAKE_OK);
}

static void append_file(struct ArrowArray *column, const char *uri)
{
    struct arrow_file_value value = {.uri = base_str_of(uri),
                                     .media_type = LAKE_STR("video/mp4"),
                                     .size_bytes = 3,
                                     .sha256_hex = LAKE_STR(SHA256)};
    assert_int_equal(arrow_file_value_append(column, uri == NULL ? NULL : &value, NULL), LAKE_OK);
}

/* `rows` rows whose values lie in the stage, but for those of row `bad` that are given. */
static void file_batch(const struct ArrowSchema *schema, int rows, int bad, const char *video,
                       const char *cloud, const char *view, struct ArrowArray *out)
{
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(out), 0);
    for (int i = 0; i < rows; i++) {
        assert_int_equal(ArrowArrayAppendInt(out->children[0], i), 0);
        append_file(out->children[1], i == bad && video != NULL ? video : STAGE "aa/video");
        append_file(out->children[2]->children[0],
                    i == bad && cloud != NULL ? cloud : STAGE "bb/cloud");
        assert_int_equal(ArrowArrayFinishElement(out->children[2]), 0);
        append_file(out->children[3]->children[0], NULL);
        append_file(out->children[3]->children[0],
                    i == bad && view != NULL ? view : STAGE "cc/view");
        assert_int_equal(ArrowArrayFinishElement(out->children[3]), 0);
        assert_int_equal(ArrowArrayFinishElement(out), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), 0);
}

static lake_status put_files(int bad, const char *video, const char *cloud, const char *view,
                             struct lake_error *err)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct put put;
    file_schema(&schema);
    put_begin(&put, &schema);
    file_batch(&schema, 5, -1, NULL, NULL, NULL, &batch);
    put_batch(&put, &batch);
    file_batch(&schema, 5, bad, video, cloud, view, &batch);
    put_batch(&put, &batch);
    lake_status status = put_end(&put);
    *err = put.err;
    schema.release(&schema);
    return status;
}

/* ---- what must hold ---- */

static void files_in_the_stage_pass_and_it_is_asked_for_once(void **state)
{
    (void)state;
    struct lake_error err;
    int before = atomic_load(&fake.stage_asked);
    for (int i = 0; i < 3; i++)
        assert_int_equal(put_files(-1, NULL, NULL, NULL, &err), LAKE_OK);
    assert_int_equal(atomic_load(&fake.completed), 3);
    assert_int_equal(atomic_load(&fake.messages), 9); /* a schema and two batches each */
    assert_true(atomic_load(&fake.stage_asked) - before <= 1);
}

static void files_outside_the_stage_are_refused_wherever_they_stand(void **state)
{
    (void)state;
    static const char *const outside[] = {
        "file:///etc/passwd",
        "file:///stage/tenants/other/aa/video",
        "file:///stage/tenants/lab2/aa/video",
        "file:///stage/tenants/lab",
        "file:///stage/tenants/lab/",
        "file:///stage/tenants/lab/../other/aa/video",
        "file:///stage/tenants/lab/./video",
        "file:///stage/tenants/lab//video",
        "file:///stage/tenants/lab/%2e%2e/video",
        "file:///stage/tenants/lab/aa/vi\\deo",
        "FILE:///stage/tenants/lab/aa/video",
        "s3://stage/tenants/lab/aa/video",
        "",
    };
    struct lake_error err;
    for (size_t i = 0; i < BASE_ARRAY_LEN(outside); i++) {
        assert_refused(put_files(2, outside[i], NULL, NULL, &err), LAKE_INVALID_ARGUMENT, &err,
                       "\"video\", row 7");
        assert_refused(put_files(4, NULL, outside[i], NULL, &err), LAKE_INVALID_ARGUMENT, &err,
                       "\"scan\", row 9");
        assert_refused(put_files(0, NULL, NULL, outside[i], &err), LAKE_INVALID_ARGUMENT, &err,
                       "\"views\", row 5");
    }
}

static void a_file_without_its_shape_is_refused(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowSchema file;
    struct put put;
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 1), 0);
    assert_int_equal(ArrowSchemaSetType(schema.children[0], NANOARROW_TYPE_STRING), 0);
    assert_int_equal(ArrowSchemaSetName(schema.children[0], "video"), 0);
    assert_int_equal(arrow_file_schema_init(&file, "video", true, NULL), LAKE_OK);
    assert_int_equal(ArrowSchemaSetMetadata(schema.children[0], file.metadata), 0);
    file.release(&file);
    put_begin(&put, &schema);
    assert_refused(put_end(&put), LAKE_INVALID_ARGUMENT, &put.err, "video");
    schema.release(&schema);
}

/* Rows of n bytes each, a message a row. */
static lake_status put_bytes(int rows, size_t row_bytes, struct lake_error *err)
{
    struct ArrowSchema schema;
    struct put put;
    uint8_t *bytes = base_calloc_array(1, row_bytes);
    struct ArrowBufferView view = {.data.as_uint8 = bytes, .size_bytes = (int64_t)row_bytes};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 1), 0);
    assert_int_equal(ArrowSchemaSetType(schema.children[0], NANOARROW_TYPE_BINARY), 0);
    assert_int_equal(ArrowSchemaSetName(schema.children[0], "b"), 0);
    put_begin(&put, &schema);
    for (int i = 0; i < rows && put.status == LAKE_OK; i++) {
        struct ArrowArray batch;
        assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
        assert_int_equal(ArrowArrayStartAppending(&batch), 0);
        assert_int_equal(ArrowArrayAppendBytes(batch.children[0], view), 0);
        assert_int_equal(ArrowArrayFinishElement(&batch), 0);
        assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), 0);
        put_batch(&put, &batch);
    }
    lake_status status = put_end(&put);
    *err = put.err;
    schema.release(&schema);
    base_free(bytes);
    return status;
}

static void what_passes_is_what_was_sent_up_to_64_mib(void **state)
{
    (void)state;
    struct lake_error err;
    assert_int_equal(put_bytes(63, 1024 * 1024, &err), LAKE_OK);
    assert_int_equal(atomic_load(&fake.messages), 64);
    assert_true(atomic_load(&fake.bytes) > 63 * 1024 * 1024);
    forget(NULL);
    assert_refused(put_bytes(65, 1024 * 1024, &err), LAKE_RESOURCE_EXHAUSTED, &err, "67108864");
    assert_true(atomic_load(&fake.bytes) <= 64 * 1024 * 1024 + 65536);
}

static lake_status put_raw(struct lake_bytes message, struct lake_error *err)
{
    struct put put = {0};
    assert_int_equal(
        rpc_client_call_start(fake.channel, FLIGHT_METHOD_DO_PUT, NULL, 0, 30000, &put.call, NULL),
        LAKE_OK);
    put.status = flight_send_bytes(flight_sender_of_client(put.call), message, &put.err);
    lake_status status = put_end(&put);
    *err = put.err;
    return status;
}

static lake_status put_descriptor(struct base_buffer *descriptor, struct lake_error *err)
{
    struct base_buffer message;
    uint8_t tag = 0x0A; /* FlightData.flight_descriptor */
    base_buffer_init(&message, 1 << 20);
    assert_int_equal(base_buffer_append(&message, &tag, 1, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&message, descriptor->size, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append(&message, descriptor->data, descriptor->size, NULL),
                     LAKE_OK);
    lake_status status = put_raw(base_buffer_view(&message), err);
    base_buffer_fini(&message);
    base_buffer_fini(descriptor);
    return status;
}

static void only_appends_to_granted_namespaces_pass(void **state)
{
    (void)state;
    struct base_buffer descriptor;
    struct lake_error err;
    descriptor_of("type.lake/AppendCommand", "arms", 36, &descriptor);
    assert_refused(put_descriptor(&descriptor, &err), LAKE_PERMISSION_DENIED, &err, "namespace");
    descriptor_of("type.lake/OtherCommand", "robots", 36, &descriptor);
    assert_refused(put_descriptor(&descriptor, &err), LAKE_UNIMPLEMENTED, &err, "append command");
    descriptor_of("type.googleapis.com/arrow.flight.protocol.sql.CommandStatementUpdate", "robots",
                  36, &descriptor);
    assert_refused(put_descriptor(&descriptor, &err), LAKE_INVALID_ARGUMENT, &err, "read-only");
    descriptor_of("type.lake/AppendCommand", "robots", 5000, &descriptor);
    assert_refused(put_descriptor(&descriptor, &err), LAKE_INVALID_ARGUMENT, &err, "at most 4096");
}

static void broken_streams_are_refused(void **state)
{
    (void)state;
    struct lake_error err;
    struct put put = {0};
    assert_refused(put_raw((struct lake_bytes){(const uint8_t *)"", 0}, &err),
                   LAKE_INVALID_ARGUMENT, &err, "descriptor");
    assert_refused(put_raw((struct lake_bytes){(const uint8_t *)"\xff\xff\xff", 3}, &err),
                   LAKE_INVALID_ARGUMENT, &err, "");
    assert_int_equal(
        rpc_client_call_start(fake.channel, FLIGHT_METHOD_DO_PUT, NULL, 0, 30000, &put.call, NULL),
        LAKE_OK);
    assert_refused(put_end(&put), LAKE_INVALID_ARGUMENT, &put.err, "empty");
    /* A good beginning, then a record batch that is none. */
    struct ArrowSchema schema;
    file_schema(&schema);
    put_begin(&put, &schema);
    static const uint8_t garbage[] = {0x12, 8, 1, 2, 3, 4, 5, 6, 7, 8};
    put.status = flight_send_bytes(flight_sender_of_client(put.call),
                                   (struct lake_bytes){garbage, sizeof(garbage)}, &put.err);
    assert_refused(put_end(&put), LAKE_INVALID_ARGUMENT, &put.err, "");
    schema.release(&schema);
}

static void metasrvs_answers_are_the_answer(void **state)
{
    (void)state;
    struct lake_error err;
    static const struct {
        lake_status said, expected;
    } cases[] = {
        {LAKE_ALREADY_EXISTS, LAKE_ALREADY_EXISTS},   {LAKE_NOT_FOUND, LAKE_NOT_FOUND},
        {LAKE_OUTCOME_UNKNOWN, LAKE_OUTCOME_UNKNOWN}, {LAKE_ABORTED, LAKE_ABORTED},
        {LAKE_UNAVAILABLE, LAKE_OUTCOME_UNKNOWN},     {LAKE_INTERNAL, LAKE_OUTCOME_UNKNOWN},
        {LAKE_CANCELLED, LAKE_OUTCOME_UNKNOWN},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        fake.answer = cases[i].said;
        assert_int_equal(put_files(-1, NULL, NULL, NULL, &err), cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_in_the_stage_pass_and_it_is_asked_for_once, forget),
        cmocka_unit_test_setup(files_outside_the_stage_are_refused_wherever_they_stand, forget),
        cmocka_unit_test_setup(a_file_without_its_shape_is_refused, forget),
        cmocka_unit_test_setup(what_passes_is_what_was_sent_up_to_64_mib, forget),
        cmocka_unit_test_setup(only_appends_to_granted_namespaces_pass, forget),
        cmocka_unit_test_setup(broken_streams_are_refused, forget),
        cmocka_unit_test_setup(metasrvs_answers_are_the_answer, forget),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
