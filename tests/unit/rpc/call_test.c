/* libs: rpc */
/* labels: concurrent */
/* Calls of every shape, their bytes, headers, errors and limits. */
#include "fixture.h"

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

static struct fixture f;

static int start(void **state)
{
    (void)state;
    fixture_start(&f, NULL, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop(&f);
    return 0;
}

static void unary_call_returns_the_reply(void **state)
{
    (void)state;
    struct lake_error err = {0};
    char reply[64];
    assert_ok(unary_text(f.channel, "/t.T/Echo", "hello", 5000, reply, sizeof(reply), &err), &err);
    assert_string_equal(reply, "hello");
    assert_ok(unary_text(f.channel, "/t.T/Echo", "", 5000, reply, sizeof(reply), &err), &err);
    assert_string_equal(reply, "");
}

static void large_payload_arrives_whole_and_aligned(void **state)
{
    (void)state;
    const size_t size = ((size_t)17 << 20) + 3;
    uint8_t *data = base_alloc(size);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    struct lake_error err = {0};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    assert_ok(
        rpc_unary(f.channel, "/t.T/Echo", (struct lake_bytes){data, size}, 30000, &reply, &err),
        &err);
    assert_int_equal(reply.bytes.size, size);
    assert_memory_equal(reply.bytes.data, data, size);
    assert_int_equal((uintptr_t)reply.bytes.data % 64, 0);
    rpc_payload_fini(&reply);
    base_free(data);
}

static void server_stream_keeps_order_and_ends(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = call_with(f.channel, "/t.T/Count", "1000", 30000);
    for (int i = 0; i < 1000; i++) {
        struct rpc_payload reply = {{NULL, 0}, NULL};
        bool end = true;
        assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
        assert_false(end);
        char expected[16];
        int length = snprintf(expected, sizeof(expected), "%d", i);
        assert_int_equal(reply.bytes.size, length);
        assert_memory_equal(reply.bytes.data, expected, (size_t)length);
        rpc_payload_fini(&reply);
    }
    bool end = false;
    struct rpc_payload reply = {{NULL, 0}, NULL};
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_true(end);
    end = false;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_true(end);
    rpc_client_call_free(call);
}

static void empty_server_stream_is_success(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = call_with(f.channel, "/t.T/Count", "0", 5000);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_true(end);
    assert_null(reply.owner);
    rpc_client_call_free(call);
}

static void upload_counts_every_message(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Upload", NULL, 0, 30000, &call, &err), &err);
    for (int i = 0; i < 500; i++) {
        struct rpc_part parts[3] = {
            copy_of(bytes_of("ab")), {.data = "static", .size = 6}, {.data = NULL, .size = 0}};
        assert_ok(rpc_client_call_send(call, parts, 3, &err), &err);
    }
    assert_ok(rpc_client_call_finish_sending(call, &err), &err);
    assert_ok(rpc_client_call_finish_sending(call, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = true;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_false(end);
    assert_int_equal(reply.bytes.size, strlen("500 4000"));
    assert_memory_equal(reply.bytes.data, "500 4000", reply.bytes.size);
    rpc_payload_fini(&reply);
    struct rpc_part late = copy_of(bytes_of("late"));
    assert_failed(LAKE_FAILED_PRECONDITION, "finished", rpc_client_call_send(call, &late, 1, &err),
                  &err);
    rpc_client_call_free(call);
}

static void call_without_any_request_message_reaches_the_handler(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Upload", NULL, 0, 5000, &call, &err), &err);
    assert_ok(rpc_client_call_finish_sending(call, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = true;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_memory_equal(reply.bytes.data, "0 0", 3);
    rpc_payload_fini(&reply);
    rpc_client_call_free(call);
}

static void bidirectional_call_answers_before_the_next_request(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Chat", NULL, 0, 30000, &call, &err), &err);
    for (int i = 0; i < 100; i++) {
        char text[16];
        snprintf(text, sizeof(text), "line %d", i);
        struct rpc_part part = copy_of(bytes_of(text));
        assert_ok(rpc_client_call_send(call, &part, 1, &err), &err);
        struct rpc_payload reply = {{NULL, 0}, NULL};
        bool end = true;
        assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
        assert_false(end);
        assert_memory_equal(reply.bytes.data, text, strlen(text));
        rpc_payload_fini(&reply);
    }
    assert_ok(rpc_client_call_finish_sending(call, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_true(end);
    rpc_client_call_free(call);
}

static void count_release(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void every_part_is_released_once_also_when_the_call_fails(void **state)
{
    (void)state;
    static uint8_t data[100000];
    static atomic_int released;
    struct lake_error err = {0};
    enum {
        PARTS = 40,
        MESSAGES = 20
    };
    const char *methods[] = {"/t.T/Upload", "/t.T/None", "/t.T/Fail"};
    for (size_t m = 0; m < BASE_ARRAY_LEN(methods); m++) {
        atomic_store(&released, 0);
        struct rpc_client_call *call = NULL;
        assert_ok(rpc_client_call_start(f.channel, methods[m], NULL, 0, 10000, &call, &err), &err);
        for (int i = 0; i < MESSAGES; i++) {
            struct rpc_part parts[PARTS];
            for (int p = 0; p < PARTS; p++) {
                parts[p] = (struct rpc_part){.data = data,
                                             .size = p == 7 ? 0 : 1000,
                                             .release = count_release,
                                             .context = &released,
                                             .copy = p == 3};
            }
            (void)rpc_client_call_send(call, parts, PARTS, &err);
        }
        rpc_client_call_free(call);
        wait_for(&released, PARTS * MESSAGES);
        base_sleep_ms(20);
        assert_int_equal(atomic_load(&released), PARTS * MESSAGES);
    }
}

static void handler_errors_arrive_with_code_and_message(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++) {
        struct lake_error err = {0};
        char request[8];
        char reply[64];
        char expected[64];
        snprintf(request, sizeof(request), "%d", code);
        snprintf(expected, sizeof(expected), "the robot's arm — %d%% — is stuck\nnow", code);
        lake_status status =
            unary_text(f.channel, "/t.T/Fail", request, 5000, reply, sizeof(reply), &err);
        assert_int_equal(status, code);
        assert_string_equal(err.message, expected);
    }
}

static void what_was_sent_before_an_error_still_arrives(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = call_with(f.channel, "/t.T/Partial", "x", 5000);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = true;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_memory_equal(reply.bytes.data, "a part", 6);
    rpc_payload_fini(&reply);
    assert_failed(LAKE_DATA_LOSS, "the rest is gone",
                  rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_failed(LAKE_DATA_LOSS, "the rest is gone",
                  rpc_client_call_receive(call, &reply, &end, &err), &err);
    rpc_client_call_free(call);
}

static void outcome_unknown_survives_the_wire(void **state)
{
    (void)state;
    struct lake_error err = {0};
    char reply[64];
    assert_failed(LAKE_OUTCOME_UNKNOWN, "32%",
                  unary_text(f.channel, "/t.T/Fail", "32", 5000, reply, sizeof(reply), &err), &err);
    /* …also for a call in pieces. */
    struct rpc_client_call *call = call_with(f.channel, "/t.T/Fail", "32", 5000);
    struct rpc_payload payload = {{NULL, 0}, NULL};
    bool end = false;
    assert_failed(LAKE_OUTCOME_UNKNOWN, "32%", rpc_client_call_receive(call, &payload, &end, &err),
                  &err);
    assert_null(payload.owner);
    rpc_client_call_free(call);
}

static void sending_into_an_ended_call_gives_the_servers_status(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Fail", NULL, 0, 10000, &call, &err), &err);
    lake_status status = LAKE_OK;
    for (int i = 0; i < 2000 && status == LAKE_OK; i++) {
        struct rpc_part part = copy_of(bytes_of("9"));
        status = rpc_client_call_send(call, &part, 1, &err);
        base_sleep_ms(1);
    }
    assert_failed(LAKE_FAILED_PRECONDITION, "the robot's arm — 9%", status, &err);
    rpc_client_call_free(call);
}

static void unknown_method_is_unimplemented(void **state)
{
    (void)state;
    struct lake_error err = {0};
    char reply[8];
    assert_failed(LAKE_UNIMPLEMENTED, "/t.T/Nothing",
                  unary_text(f.channel, "/t.T/Nothing", "x", 5000, reply, sizeof(reply), &err),
                  &err);
}

static void headers_deadline_and_principal_reach_the_handler(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    struct rpc_header header = {"x-lake", LAKE_STR("some value")};
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Describe", &header, 1, 60000, &call, &err),
              &err);
    assert_ok(rpc_client_call_finish_sending(call, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = true;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    const char *expected = "development development 3 ipv4 bounded some value";
    assert_int_equal(reply.bytes.size, strlen(expected));
    assert_memory_equal(reply.bytes.data, expected, strlen(expected));
    assert_true(base_str_equal_c(rpc_client_call_reply_header(call, "x-reply"), "set"));
    assert_int_equal(rpc_client_call_reply_header(call, "x-none").size, 0);
    rpc_payload_fini(&reply);
    rpc_client_call_free(call);

    char text[128];
    assert_ok(unary_text(f.channel, "/t.T/Describe", "", INT64_MAX, text, sizeof(text), &err),
              &err);
    assert_string_equal(text, "development development 3 ipv4 forever ");
}

static void illegal_request_headers_are_refused_before_anything_is_sent(void **state)
{
    (void)state;
    struct rpc_header headers[] = {{"Upper", LAKE_STR("x")},
                                   {"", LAKE_STR("x")},
                                   {"grpc-timeout", LAKE_STR("1S")},
                                   {"x-bin", LAKE_STR("x")},
                                   {"ok", LAKE_STR("line\nbreak")}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(headers); i++) {
        struct lake_error err = {0};
        struct rpc_client_call *call = NULL;
        assert_failed(
            LAKE_INVALID_ARGUMENT, "not legal",
            rpc_client_call_start(f.channel, "/t.T/Echo", &headers[i], 1, 1000, &call, &err), &err);
        assert_null(call);
    }
}

static lake_status echo_with_header(struct rpc_channel *channel, size_t value_bytes,
                                    struct lake_error *err)
{
    char *value = base_alloc(value_bytes);
    assert_non_null(value);
    memset(value, 'v', value_bytes);
    struct rpc_header header = {"x-long", {value, value_bytes}};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(channel, "/t.T/Echo", &header, 1, 5000, &call, err), err);
    struct rpc_part part = copy_of(bytes_of("x"));
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    lake_status status = rpc_client_call_send_last(call, &part, 1, err);
    if (status == LAKE_OK) {
        status = rpc_client_call_receive(call, &reply, &end, err);
    }
    rpc_payload_fini(&reply);
    rpc_client_call_free(call);
    base_free(value);
    return status;
}

/* F09 */
static void twelve_kib_of_headers_pass_and_more_than_the_limit_is_named(void **state)
{
    (void)state;
    struct lake_error err = {0};
    assert_ok(echo_with_header(f.channel, 12 * 1024, &err), &err);
    assert_failed(LAKE_RESOURCE_EXHAUSTED, "at most 16384",
                  echo_with_header(f.channel, 20 * 1024, &err), &err);
    assert_ok(echo_with_header(f.channel, 100, &err), &err);
    /* Far above it gRPC itself refuses, at worst with the whole connection: that of the offender.
     */
    struct rpc_channel *offender = channel_to(f.target, NULL);
    assert_int_not_equal(echo_with_header(offender, 200 * 1024, &err), LAKE_OK);
    rpc_channel_unref(offender);
    assert_ok(echo_with_header(f.channel, 100, &err), &err);
}

static void request_above_the_limit_is_resource_exhausted(void **state)
{
    (void)state;
    struct fixture small;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.max_receive_bytes = 10000;
    fixture_start(&small, &options, NULL);
    struct lake_error err = {0};
    static uint8_t data[10001];
    struct rpc_payload reply = {{NULL, 0}, NULL};
    assert_ok(
        rpc_unary(small.channel, "/t.T/Echo", (struct lake_bytes){data, 10000}, 5000, &reply, &err),
        &err);
    rpc_payload_fini(&reply);
    assert_failed(
        LAKE_RESOURCE_EXHAUSTED, "10001",
        rpc_unary(small.channel, "/t.T/Echo", (struct lake_bytes){data, 10001}, 5000, &reply, &err),
        &err);
    assert_int_equal(atomic_load(&small.started), 1);
    fixture_stop(&small);
}

static void reply_above_the_channels_limit_is_resource_exhausted(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_channel *channel = NULL;
    struct rpc_channel_options options = {.target = f.target, .max_receive_bytes = 4};
    assert_ok(rpc_channel_open(&options, &channel, &err), &err);
    char reply[16];
    assert_ok(unary_text(channel, "/t.T/Echo", "four", 5000, reply, sizeof(reply), &err), &err);
    assert_failed(LAKE_RESOURCE_EXHAUSTED, "5",
                  unary_text(channel, "/t.T/Echo", "fives", 5000, reply, sizeof(reply), &err),
                  &err);
    rpc_channel_unref(channel);
}

static void unreachable_server_is_unavailable_names_the_target_and_nothing_was_sent(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_channel *channel = channel_to("127.0.0.1:1", NULL);
    struct rpc_client_call *call = call_with(channel, "/t.T/Echo", "x", 5000);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_failed(LAKE_UNAVAILABLE, "127.0.0.1:1",
                  rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_false(rpc_client_call_was_sent(call));
    rpc_client_call_free(call);
    rpc_channel_unref(channel);
}

static void a_call_that_reached_the_server_was_sent(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct rpc_client_call *call = NULL;
    assert_ok(rpc_client_call_start(f.channel, "/t.T/Fail", NULL, 0, 5000, &call, &err), &err);
    assert_false(rpc_client_call_was_sent(call));
    struct rpc_part part = copy_of(bytes_of("14"));
    assert_ok(rpc_client_call_send_last(call, &part, 1, &err), &err);
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_failed(LAKE_UNAVAILABLE, "the robot's arm",
                  rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_true(rpc_client_call_was_sent(call));
    rpc_client_call_free(call);
}

/* By gRPC itself, as a client of ours never does it. */
static grpc_status_code send_compressed(const char *target, const uint8_t *data, size_t size)
{
    grpc_init();
    grpc_arg arg = {.type = GRPC_ARG_INTEGER,
                    .key = GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
                    .value = {.integer = GRPC_COMPRESS_GZIP}};
    grpc_channel_args args = {1, &arg};
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, credentials, &args);
    grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_call *call = grpc_channel_create_call(
        channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, grpc_slice_from_static_string("/t.T/Echo"),
        NULL, gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN)),
        NULL);
    grpc_slice slice = grpc_slice_from_static_buffer(data, size);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    grpc_status_code code = GRPC_STATUS_OK;
    grpc_slice details = grpc_empty_slice();
    grpc_op ops[5] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_SEND_MESSAGE},
                      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
                      {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
                      {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    ops[1].data.send_message.send_message = message;
    ops[3].data.recv_status_on_client.status = &code;
    ops[3].data.recv_status_on_client.status_details = &details;
    ops[3].data.recv_status_on_client.trailing_metadata = &trailing;
    ops[4].data.recv_initial_metadata.recv_initial_metadata = &initial;
    assert_int_equal(grpc_call_start_batch(call, ops, 5, &code, NULL), GRPC_CALL_OK);
    grpc_completion_queue_pluck(queue, &code, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_slice_unref(details);
    grpc_metadata_array_destroy(&trailing);
    grpc_metadata_array_destroy(&initial);
    grpc_byte_buffer_destroy(message);
    grpc_call_unref(call);
    grpc_channel_destroy(channel);
    grpc_channel_credentials_release(credentials);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_pluck(queue, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_completion_queue_destroy(queue);
    grpc_shutdown_blocking();
    return code;
}

/* A few kilobytes can unfold to gigabytes: they are not unfolded at all. */
static void compressed_requests_are_refused(void **state)
{
    (void)state;
    static const uint8_t zeros[100000];
    int started = atomic_load(&f.started);
    assert_int_equal(send_compressed(f.target, zeros, sizeof(zeros)), GRPC_STATUS_UNIMPLEMENTED);
    assert_int_equal(atomic_load(&f.started), started);
}

/* Whichever allocation fails, on either side: the call succeeds or says that memory is missing, and
 * the server goes on. */
static void each_failed_allocation_is_an_error_and_nothing_more(void **state)
{
    (void)state;
    struct fixture own;
    fixture_start(&own, NULL, NULL);
    int failures = 0;
    for (int round = 0; round < 5; round++) {
        for (uint64_t n = 1; n <= 12; n++) {
            struct lake_error err = {0};
            char reply[32] = "";
            base_fault_fail_nth_alloc(n);
            lake_status status =
                unary_text(own.channel, "/t.T/Echo", "again", 5000, reply, sizeof(reply), &err);
            base_fault_fail_nth_alloc(0);
            if (status == LAKE_OK) {
                assert_string_equal(reply, "again");
            } else {
                assert_int_equal(status, LAKE_RESOURCE_EXHAUSTED);
                failures++;
            }
        }
    }
    assert_true(failures > 0);
    for (int i = 0; i < 100; i++) {
        struct lake_error err = {0};
        char reply[32];
        assert_ok(unary_text(own.channel, "/t.T/Echo", "on", 5000, reply, sizeof(reply), &err),
                  &err);
    }
    fixture_stop(&own);
}

static size_t resident_bytes(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    char *second = strchr(line, ' ');
    assert_non_null(second);
    return (size_t)strtoull(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Under ASan the leak check at the end of the process sees single lost bytes. */
static void ten_thousand_calls_do_not_grow_the_process(void **state)
{
    (void)state;
    struct lake_error err = {0};
    char reply[16];
    size_t before = 0;
    for (int i = 0; i < 10000; i++) {
        assert_ok(unary_text(f.channel, "/t.T/Echo", "again", 30000, reply, sizeof(reply), &err),
                  &err);
        if (i == 2000) {
            before = resident_bytes();
        }
    }
#ifdef LAKE_SANITIZED
    const size_t allowed = (size_t)300 << 20; /* ASan's quarantine of freed memory */
#else
    const size_t allowed = (size_t)4 << 20;
#endif
    assert_true(resident_bytes() < before + allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_call_returns_the_reply),
        cmocka_unit_test(large_payload_arrives_whole_and_aligned),
        cmocka_unit_test(server_stream_keeps_order_and_ends),
        cmocka_unit_test(empty_server_stream_is_success),
        cmocka_unit_test(upload_counts_every_message),
        cmocka_unit_test(call_without_any_request_message_reaches_the_handler),
        cmocka_unit_test(bidirectional_call_answers_before_the_next_request),
        cmocka_unit_test(every_part_is_released_once_also_when_the_call_fails),
        cmocka_unit_test(handler_errors_arrive_with_code_and_message),
        cmocka_unit_test(what_was_sent_before_an_error_still_arrives),
        cmocka_unit_test(outcome_unknown_survives_the_wire),
        cmocka_unit_test(sending_into_an_ended_call_gives_the_servers_status),
        cmocka_unit_test(unknown_method_is_unimplemented),
        cmocka_unit_test(headers_deadline_and_principal_reach_the_handler),
        cmocka_unit_test(illegal_request_headers_are_refused_before_anything_is_sent),
        cmocka_unit_test(twelve_kib_of_headers_pass_and_more_than_the_limit_is_named),
        cmocka_unit_test(request_above_the_limit_is_resource_exhausted),
        cmocka_unit_test(reply_above_the_channels_limit_is_resource_exhausted),
        cmocka_unit_test(unreachable_server_is_unavailable_names_the_target_and_nothing_was_sent),
        cmocka_unit_test(a_call_that_reached_the_server_was_sent),
        cmocka_unit_test(compressed_requests_are_refused),
        cmocka_unit_test(each_failed_allocation_is_an_error_and_nothing_more),
        cmocka_unit_test(ten_thousand_calls_do_not_grow_the_process),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
