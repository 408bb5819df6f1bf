/* PyArrow's Flight client against a Lake server on a loopback port: every case of the Arrow IPC
 * fixtures through DoGet and DoPut; and Lake's own client against the same server. */
#include <flight/flight.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/lake-flight-server-XXXXXX";
static struct rpc_authenticator *authenticator;
static struct rpc_server *server;

static void check(lake_status status, const struct lake_error *err)
{
    if (status != LAKE_OK) {
        fail_msg("%s: %s", lake_status_name(status), err->message);
    }
}

/* Takes `array` over. */
static lake_status write_array(struct flight_stream_writer *writer, struct ArrowArray *array,
                               struct lake_error *err)
{
    struct arrow_batch *batch;
    lake_status status = arrow_batch_new(array, &batch, err);
    if (status == LAKE_OK) {
        status = flight_stream_writer_write(writer, batch, err);
        arrow_batch_unref(batch);
    }
    return status;
}

static lake_status send_file(const char *path, struct flight_sender sender, struct lake_error *err)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct flight_stream_writer *writer = NULL;
    const struct lake_bytes none = {NULL, 0};
    lake_status status = arrow_ipc_open_file(path, NULL, &stream, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (stream.get_schema(&stream, &schema) != 0) {
        status = lake_fail(err, LAKE_INTERNAL, "no schema");
        goto out;
    }
    status = flight_stream_writer_new(sender, &schema, NULL, &writer, err);
    ArrowSchemaRelease(&schema);
    if (status == LAKE_OK) {
        status = flight_stream_writer_begin(writer, none, none, err);
    }
    while (status == LAKE_OK) {
        struct ArrowArray array;
        if (stream.get_next(&stream, &array) != 0) {
            status = lake_fail(err, LAKE_INTERNAL, "%s", stream.get_last_error(&stream));
        } else if (array.release == NULL) {
            break;
        } else {
            status = write_array(writer, &array, err);
        }
    }
    flight_stream_writer_free(writer);
out:
    ArrowArrayStreamRelease(&stream);
    return status;
}

static lake_status do_get(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    struct rpc_payload payload;
    struct lake_bytes ticket;
    bool end;
    lake_status status = rpc_call_receive(call, &payload, &end, err);
    if (status != LAKE_OK || end) {
        return status;
    }
    status = flight_ticket_decode(payload.bytes, &ticket, err);
    if (status == LAKE_OK) {
        char *path = base_format("%s/%.*s", directory, (int)ticket.size, (const char *)ticket.data);
        status = send_file(path, flight_sender_of_call(call), err);
        base_free(path);
    }
    rpc_payload_fini(&payload);
    return status;
}

/* Validates what comes and answers the number of rows. */
static lake_status do_put(struct rpc_call *call, void *context, struct lake_error *err)
{
    (void)context;
    struct flight_stream_reader *reader;
    const struct ArrowSchema *schema;
    struct lake_bytes bytes;
    struct flight_descriptor descriptor;
    struct base_arena *arena = NULL;
    struct base_buffer out;
    int64_t rows = 0;
    bool end = false;
    lake_status status =
        flight_stream_reader_new(flight_receiver_of_call(call), NULL, &reader, err);
    if (status != LAKE_OK) {
        return status;
    }
    base_buffer_init(&out, 1024);
    status = base_arena_new(1 << 20, &arena, err);
    if (status == LAKE_OK) {
        status = flight_stream_reader_descriptor(reader, &bytes, err);
    }
    if (status == LAKE_OK) {
        status = flight_descriptor_decode(bytes, arena, &descriptor, err);
    }
    if (status == LAKE_OK && descriptor.path_count != 1) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "one path element was expected");
    }
    if (status == LAKE_OK) {
        status = flight_stream_reader_schema(reader, &schema, err);
    }
    while (status == LAKE_OK && !end) {
        struct ArrowArray array = {.release = NULL};
        status = flight_stream_reader_next(reader, &array, &end, err);
        if (status == LAKE_OK && !end) {
            status = arrow_array_validate(schema, &array, err);
            rows += array.length;
            ArrowArrayRelease(&array);
        }
    }
    char text[32];
    int size = snprintf(text, sizeof(text), "%lld", (long long)rows);
    if (status == LAKE_OK) {
        status = flight_put_result_encode((struct lake_bytes){(const uint8_t *)text, (size_t)size},
                                          &out, err);
    }
    if (status == LAKE_OK) {
        status = flight_send_bytes(flight_sender_of_call(call), base_buffer_view(&out), err);
    }
    base_buffer_fini(&out);
    base_arena_free(arena);
    flight_stream_reader_free(reader);
    return status;
}

static void pyarrow_gets_and_puts_every_case(void **state)
{
    (void)state;
    char *command = base_format("'%s' '%s/tests/unit/flight/flight_fixtures.py' client %d '%s'",
                                LAKE_PYTHON, LAKE_SOURCE_DIR, rpc_server_port(server), directory);
    assert_int_equal(system(command), 0);
    base_free(command);
}

static struct rpc_channel *open_channel(void)
{
    struct rpc_channel *channel;
    struct lake_error err = {0};
    char *target = base_format("127.0.0.1:%d", rpc_server_port(server));
    struct rpc_channel_options options = {.target = target};
    check(rpc_channel_open(&options, &channel, &err), &err);
    base_free(target);
    return channel;
}

static struct rpc_client_call *get(struct rpc_channel *channel, const char *name)
{
    struct lake_error err = {0};
    struct base_buffer ticket;
    struct rpc_client_call *call;
    base_buffer_init(&ticket, 1024);
    check(flight_ticket_encode(base_bytes_of_str(base_str_of(name)), &ticket, &err), &err);
    check(rpc_client_call_start(channel, FLIGHT_METHOD_DO_GET, NULL, 0, 60000, &call, &err), &err);
    check(flight_send_bytes(flight_sender_of_client(call), base_buffer_view(&ticket), &err), &err);
    check(rpc_client_call_finish_sending(call, &err), &err);
    base_buffer_fini(&ticket);
    return call;
}

static void free_call(void *context)
{
    rpc_client_call_free(context);
}

static void our_client_reads_the_same_stream(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_channel *channel = open_channel();
    struct rpc_client_call *call = get(channel, "dictionaries.arrow");
    struct flight_stream_reader *reader;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    int64_t rows = 0;
    check(flight_stream_reader_new(flight_receiver_of_client(call), NULL, &reader, &err), &err);
    check(flight_stream_reader_export(reader, free_call, call, &stream, &err), &err);
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    for (;;) {
        struct ArrowArray array;
        assert_int_equal(stream.get_next(&stream, &array), 0);
        if (array.release == NULL) {
            break;
        }
        check(arrow_array_validate(&schema, &array, &err), &err);
        rows += array.length;
        ArrowArrayRelease(&array);
    }
    assert_int_equal(rows, 83 + 11);
    ArrowSchemaRelease(&schema);
    ArrowArrayStreamRelease(&stream);
    rpc_channel_unref(channel);
}

static void a_failing_stream_gives_the_servers_status_and_message(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_channel *channel = open_channel();
    struct rpc_client_call *call = get(channel, "no such case");
    struct flight_stream_reader *reader;
    const struct ArrowSchema *schema;
    check(flight_stream_reader_new(flight_receiver_of_client(call), NULL, &reader, &err), &err);
    assert_int_equal(flight_stream_reader_schema(reader, &schema, &err), LAKE_NOT_FOUND);
    assert_non_null(strstr(err.message, "no such case"));
    flight_stream_reader_free(reader);
    rpc_client_call_free(call);
    rpc_channel_unref(channel);
}

static int setup(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_server_options options;
    if (mkdtemp(directory) == NULL) {
        return 1;
    }
    char *command = base_format("'%s' '%s/tests/unit/arrow/ipc_fixtures.py' write '%s' && "
                                "rm -f '%s'/*_file.arrow",
                                LAKE_PYTHON, LAKE_SOURCE_DIR, directory, directory);
    int code = system(command);
    base_free(command);
    rpc_server_options_init(&options);
    options.address = "127.0.0.1:0";
    if (code != 0 || rpc_authenticator_new(NULL, NULL, &authenticator, &err) != LAKE_OK) {
        return 1;
    }
    options.authenticator = authenticator;
    return rpc_server_new(&options, &server, &err) != LAKE_OK ||
           rpc_server_add_method(server, FLIGHT_METHOD_DO_GET, false, do_get, NULL, &err) !=
               LAKE_OK ||
           rpc_server_add_method(server, FLIGHT_METHOD_DO_PUT, false, do_put, NULL, &err) !=
               LAKE_OK ||
           rpc_server_start(server, &err) != LAKE_OK;
}

static int teardown(void **state)
{
    (void)state;
    rpc_server_free(server);
    rpc_authenticator_free(authenticator);
    char *command = base_format("rm -rf '%s'", directory);
    int code = system(command);
    base_free(command);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pyarrow_gets_and_puts_every_case),
        cmocka_unit_test(our_client_reads_the_same_stream),
        cmocka_unit_test(a_failing_stream_gives_the_servers_status_and_message),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
