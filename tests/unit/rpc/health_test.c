/* libs: rpc */
/* labels: concurrent */
/* gRPC's health protocol (OPS-2). Expected bytes: field 1, varint 1 SERVING, 2 NOT_SERVING, 3
 * SERVICE_UNKNOWN, as in grpc.health.v1. */
#include "fixture.h"

#define CHECK "/grpc.health.v1.Health/Check"
#define WATCH "/grpc.health.v1.Health/Watch"

static const char request_t[] = "\x0a\x03t.T";

static int check(struct fixture *f, const char *request)
{
    struct lake_error err = {0};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    assert_ok(rpc_unary(f->channel, CHECK, bytes_of(request), 5000, &reply, &err), &err);
    assert_int_equal(reply.bytes.size, 2);
    assert_int_equal(reply.bytes.data[0], 0x08);
    int health = reply.bytes.data[1];
    rpc_payload_fini(&reply);
    return health;
}

static void check_follows_set_serving(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    assert_int_equal(check(&f, ""), 2);
    rpc_server_set_serving(f.server, true);
    assert_int_equal(check(&f, ""), 1);
    assert_int_equal(check(&f, request_t), 1);
    rpc_server_set_serving(f.server, false);
    assert_int_equal(check(&f, request_t), 2);
    fixture_stop(&f);
}

static void check_of_an_unknown_service_is_not_found(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct lake_error err = {0};
    char reply[8];
    assert_failed(LAKE_NOT_FOUND, "does not offer",
                  unary_text(f.channel, CHECK, "\x0a\x03t.U", 5000, reply, sizeof(reply), &err),
                  &err);
    const char *malformed[] = {"\x0a", "\x0a\x7fx", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(malformed); i++) {
        assert_failed(LAKE_INVALID_ARGUMENT, "HealthCheckRequest",
                      unary_text(f.channel, CHECK, malformed[i], 5000, reply, sizeof(reply), &err),
                      &err);
    }
    fixture_stop(&f);
}

static int next_health(struct rpc_client_call *call)
{
    struct lake_error err = {0};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = true;
    assert_ok(rpc_client_call_receive(call, &reply, &end, &err), &err);
    assert_false(end);
    assert_int_equal(reply.bytes.size, 2);
    int health = reply.bytes.data[1];
    rpc_payload_fini(&reply);
    return health;
}

static void watch_tells_every_change_and_ends_with_the_server(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct rpc_client_call *call = call_with(f.channel, WATCH, "", INT64_MAX);
    assert_int_equal(next_health(call), 2);
    for (int i = 0; i < 20; i++) {
        rpc_server_set_serving(f.server, true);
        assert_int_equal(next_health(call), 1);
        rpc_server_set_serving(f.server, false);
        assert_int_equal(next_health(call), 2);
    }
    struct lake_error err = {0};
    assert_ok(rpc_server_stop(f.server, 5000, &err), &err); /* a watch is no reason to wait */
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_int_equal(rpc_client_call_receive(call, &reply, &end, &err), LAKE_UNAVAILABLE);
    rpc_client_call_free(call);
    fixture_stop(&f);
}

static void watch_of_an_unknown_service_says_so_and_stays_open(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct rpc_client_call *call = call_with(f.channel, WATCH, "\x0a\x03t.U", 300);
    assert_int_equal(next_health(call), 3);
    rpc_server_set_serving(f.server, true);
    struct lake_error err = {0};
    struct rpc_payload reply = {{NULL, 0}, NULL};
    bool end = false;
    assert_int_equal(rpc_client_call_receive(call, &reply, &end, &err), LAKE_DEADLINE_EXCEEDED);
    rpc_client_call_free(call);
    fixture_stop(&f);
}

static void watches_hold_no_worker(void **state)
{
    (void)state;
    struct fixture f;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.worker_count = 1;
    options.queue_limit = 1;
    fixture_start(&f, &options, NULL);
    struct rpc_client_call *watches[20];
    for (size_t i = 0; i < BASE_ARRAY_LEN(watches); i++) {
        watches[i] = call_with(f.channel, WATCH, "", INT64_MAX);
        assert_int_equal(next_health(watches[i]), 2);
    }
    struct lake_error err = {0};
    char reply[8];
    assert_ok(unary_text(f.channel, "/t.T/Echo", "x", 5000, reply, sizeof(reply), &err), &err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(watches); i += 2) {
        rpc_client_call_free(watches[i]);
    }
    rpc_server_set_serving(f.server, true);
    for (size_t i = 1; i < BASE_ARRAY_LEN(watches); i += 2) {
        assert_int_equal(next_health(watches[i]), 1);
        rpc_client_call_free(watches[i]);
    }
    fixture_stop(&f);
}

static void *flip(void *context)
{
    struct fixture *f = context;
    for (int i = 0; i < 2000; i++) {
        rpc_server_set_serving(f->server, i % 2 == 0);
    }
    return NULL;
}

static void changes_from_several_threads_race_with_watches_that_come_and_go(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    pthread_t threads[2];
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, flip, &f), 0);
    }
    for (int i = 0; i < 100; i++) {
        struct rpc_client_call *call = call_with(f.channel, WATCH, "", INT64_MAX);
        int health = next_health(call);
        assert_in_range(health, 1, 2);
        rpc_client_call_free(call);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    struct lake_error err = {0};
    assert_ok(rpc_server_stop(f.server, 5000, &err), &err);
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_follows_set_serving),
        cmocka_unit_test(check_of_an_unknown_service_is_not_found),
        cmocka_unit_test(watch_tells_every_change_and_ends_with_the_server),
        cmocka_unit_test(watch_of_an_unknown_service_says_so_and_stays_open),
        cmocka_unit_test(watches_hold_no_worker),
        cmocka_unit_test(changes_from_several_threads_race_with_watches_that_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
