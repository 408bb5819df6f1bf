/* labels: concurrent */
/* The schema cache (SDK-2) and the stage (OBJ-2), against a server of the test's own that counts
 * what it is asked. */
#include "client_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_server.h"

/* ---- a server that knows the schema of every table but those called "missing…" ---- */

static struct {
    struct fake_server server;
    atomic_int lookups;
    atomic_int in_flight;
    atomic_int most_in_flight;
    atomic_int delay_ms;
    atomic_int stages;
    atomic_uint stage_version;
} fake;

static lake_status answer_stage(struct rpc_call *call, struct lake_error *err)
{
    LakePb__StageDescriptor stage = LAKE_PB__STAGE_DESCRIPTOR__INIT;
    stage.has_format_version = stage.has_root_uri = 1;
    atomic_fetch_add(&fake.stages, 1);
    stage.format_version = atomic_load(&fake.stage_version);
    stage.root_uri = client_binary(LAKE_STR("file:///nowhere/tenants/t"));
    return fake_send_message(call, &stage.base, err);
}

static lake_status answer_schema(struct rpc_call *call, struct lake_bytes body,
                                 struct lake_error *err)
{
    LakePb__TableName *name = lake_pb__table_name__unpack(NULL, body.size, body.data);
    assert_non_null(name);
    bool missing = name->table.len >= 7 && memcmp(name->table.data, "missing", 7) == 0;
    lake_pb__table_name__free_unpacked(name, NULL);
    atomic_fetch_add(&fake.lookups, 1);
    int now = atomic_fetch_add(&fake.in_flight, 1) + 1;
    int most = atomic_load(&fake.most_in_flight);
    while (now > most && !atomic_compare_exchange_weak(&fake.most_in_flight, &most, now))
        continue;
    base_sleep_ms(atomic_load(&fake.delay_ms));
    atomic_fetch_sub(&fake.in_flight, 1);
    if (missing)
        return lake_fail(err, LAKE_NOT_FOUND, "there is no such table");

    static const char *const columns[] = {"id:int64"};
    struct ArrowSchema schema;
    struct base_buffer ipc;
    base_buffer_init(&ipc, 4000);
    assert_int_equal(lake_schema_parse(columns, 1, &schema, NULL), LAKE_OK);
    assert_int_equal(arrow_ipc_schema_to_bytes(&schema, &ipc, NULL), LAKE_OK);
    schema.release(&schema);
    LakePb__Registration registration = LAKE_PB__REGISTRATION__INIT;
    registration.has_schema_ipc = 1;
    registration.schema_ipc = (ProtobufCBinaryData){ipc.size, ipc.data};
    lake_status status = fake_send_message(call, &registration.base, err);
    base_buffer_fini(&ipc);
    return status;
}

static lake_status answer(struct rpc_call *call, const struct flight_action *asked,
                          struct lake_error *err)
{
    return base_str_equal_c(asked->type, "lake.stage") ? answer_stage(call, err)
                                                       : answer_schema(call, asked->body, err);
}

static int start_server(void **state)
{
    (void)state;
    atomic_store(&fake.stage_version, 1);
    fake_server_start(&fake.server, answer, NULL);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    fake_server_stop(&fake.server);
    return 0;
}

static lake_client *connect_with(uint32_t tables, uint32_t ttl_ms)
{
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    lake_client *client = NULL;
    options.schema_cache_tables = tables;
    options.schema_cache_ttl_ms = ttl_ms;
    assert_int_equal(lake_connect(fake.server.address, &options, &client, NULL), LAKE_OK);
    atomic_store(&fake.lookups, 0);
    atomic_store(&fake.most_in_flight, 0);
    atomic_store(&fake.delay_ms, 0);
    return client;
}

static lake_status look_up(lake_client *client, const char *table)
{
    struct client_schema *schema = NULL;
    struct lake_str namespace_name, name;
    struct lake_error err = {0};
    assert_int_equal(client_split_name(table, &namespace_name, &name, NULL), LAKE_OK);
    lake_status status = client_table_schema(client, namespace_name, name, &schema, &err);
    if (status == LAKE_OK)
        assert_string_equal(schema->arrow.children[0]->name, "id");
    else
        assert_true(err.message[0] != '\0');
    client_schema_unref(schema);
    return status;
}

static void assert_lookups(lake_client *client, const char *table, int more)
{
    int before = atomic_load(&fake.lookups);
    assert_int_equal(look_up(client, table), LAKE_OK);
    assert_int_equal(atomic_load(&fake.lookups) - before, more);
}

/* ---- what must hold ---- */

static void a_known_table_costs_no_request_whatever_its_case(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 0);
    assert_lookups(client, "a.t", 1);
    assert_lookups(client, "a.t", 0);
    assert_lookups(client, "A.T", 0);
    assert_lookups(client, "a.u", 1);
    lake_client_unref(client);
}

static void invalidated_and_cleared_tables_are_asked_for_again(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 0);
    assert_lookups(client, "a.t", 1);
    assert_lookups(client, "a.u", 1);
    lake_schema_cache_invalidate(client, "a.T");
    assert_lookups(client, "a.u", 0);
    assert_lookups(client, "a.t", 1);
    lake_schema_cache_clear(client);
    assert_lookups(client, "a.t", 1);
    assert_lookups(client, "a.u", 1);
    lake_schema_cache_invalidate(client, "never.seen");
    lake_schema_cache_invalidate(client, "no name");
    lake_schema_cache_invalidate(client, NULL);
    lake_client_unref(client);
}

static void an_entry_lives_for_its_time(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 150);
    assert_lookups(client, "a.t", 1);
    assert_lookups(client, "a.t", 0);
    base_sleep_ms(200);
    assert_lookups(client, "a.t", 1);
    lake_client_unref(client);
}

static void a_full_cache_drops_what_expires_first(void **state)
{
    (void)state;
    lake_client *client = connect_with(3, 0);
    assert_lookups(client, "a.one", 1);
    base_sleep_ms(2);
    assert_lookups(client, "a.two", 1);
    assert_lookups(client, "a.three", 1);
    assert_lookups(client, "a.four", 1); /* drops one */
    assert_lookups(client, "a.two", 0);
    assert_lookups(client, "a.three", 0);
    assert_lookups(client, "a.four", 0);
    assert_lookups(client, "a.one", 1);
    lake_client_unref(client);
}

static void failures_are_not_kept(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(look_up(client, "a.missing"), LAKE_NOT_FOUND);
        assert_int_equal(atomic_load(&fake.lookups), i);
    }
    lake_client_unref(client);
}

/* ---- sixteen threads at once ---- */

struct looker {
    lake_client *client;
    const char *table;
    lake_status status;
};

static void *look_once(void *context)
{
    struct looker *looker = context;
    looker->status = look_up(looker->client, looker->table);
    return NULL;
}

static void sixteen_look(lake_client *client, const char *table, lake_status expected)
{
    pthread_t threads[16];
    struct looker lookers[16];
    for (int i = 0; i < 16; i++) {
        lookers[i] = (struct looker){client, table, LAKE_UNKNOWN};
        assert_int_equal(pthread_create(&threads[i], NULL, look_once, &lookers[i]), 0);
    }
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(lookers[i].status, expected);
    }
}

static void sixteen_threads_ask_once(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 0);
    atomic_store(&fake.delay_ms, 300);
    sixteen_look(client, "a.t", LAKE_OK);
    assert_int_equal(atomic_load(&fake.lookups), 1);
    assert_lookups(client, "a.t", 0);
    lake_client_unref(client);
}

static void sixteen_threads_share_one_failure(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 0);
    atomic_store(&fake.delay_ms, 1000);
    int64_t started_us = base_clock_monotonic_us();
    sixteen_look(client, "a.missing", LAKE_NOT_FOUND);
    /* One after the other they would take sixteen seconds. A late starter may ask by itself. */
    assert_true(base_clock_monotonic_us() - started_us < 8000000);
    assert_int_equal(atomic_load(&fake.most_in_flight), 1);
    atomic_store(&fake.delay_ms, 0);
    assert_int_equal(look_up(client, "a.missing"), LAKE_NOT_FOUND);
    lake_client_unref(client);
}

static void what_is_invalidated_in_flight_is_given_but_not_kept(void **state)
{
    (void)state;
    lake_client *client = connect_with(0, 0);
    atomic_store(&fake.delay_ms, 400);
    struct looker looker = {client, "a.t", LAKE_UNKNOWN};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look_once, &looker), 0);
    for (int i = 0; i < 2000 && atomic_load(&fake.in_flight) == 0; i++)
        base_sleep_ms(1);
    lake_schema_cache_invalidate(client, "a.t");
    atomic_store(&fake.delay_ms, 0);
    assert_lookups(client, "a.t", 1); /* does not join the one that began before */
    pthread_join(thread, NULL);
    assert_int_equal(looker.status, LAKE_OK);
    assert_lookups(client, "a.t", 0);
    assert_int_equal(atomic_load(&fake.lookups), 2);
    lake_client_unref(client);
}

static atomic_bool churning;

static void *churn(void *context)
{
    lake_client *client = context;
    for (unsigned i = 0; atomic_load(&churning); i++) {
        char table[32];
        snprintf(table, sizeof(table), "a.%s%u", i % 5 == 0 ? "missing" : "t", i % 7);
        lake_status status = look_up(client, table);
        assert_true(status == LAKE_OK || i % 5 == 0);
        if (i % 11 == 0)
            lake_schema_cache_invalidate(client, table);
        if (i % 97 == 0)
            lake_schema_cache_clear(client);
    }
    return NULL;
}

static void lookups_expiry_and_forgetting_go_together(void **state)
{
    (void)state;
    pthread_t threads[8];
    lake_client *client = connect_with(4, 1);
    atomic_store(&churning, true);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, client), 0);
    base_sleep_ms(1500);
    atomic_store(&churning, false);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&fake.lookups) > 10);
    lake_client_unref(client);
}

/* ---- the stage ---- */

static void the_stage_is_asked_for_once_a_client(void **state)
{
    (void)state;
    struct lake_data_location location = {
        .uri = (char *)(uintptr_t) "file:///nowhere/tenants/t/aa/object",
        .media_type = (char *)(uintptr_t) "a/b",
        .size_bytes = 3};
    lake_reader *reader = NULL;
    memset(location.sha256_hex, 'a', 64);
    atomic_store(&fake.stages, 0);
    lake_client *client = connect_with(0, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(lake_open(client, &location, &reader, NULL), LAKE_NOT_FOUND);
    location.uri = (char *)(uintptr_t) "file:///nowhere/tenants/u/aa/object";
    assert_int_equal(lake_open(client, &location, &reader, NULL), LAKE_PERMISSION_DENIED);
    assert_int_equal(atomic_load(&fake.stages), 1);
    lake_client_unref(client);
}

static void a_stage_of_a_later_version_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    lake_client *client = NULL;
    atomic_store(&fake.stage_version, 2);
    assert_int_equal(lake_connect(fake.server.address, NULL, &client, &err), LAKE_UNIMPLEMENTED);
    assert_non_null(strstr(err.message, "newer than this library"));
    atomic_store(&fake.stage_version, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_table_costs_no_request_whatever_its_case),
        cmocka_unit_test(invalidated_and_cleared_tables_are_asked_for_again),
        cmocka_unit_test(an_entry_lives_for_its_time),
        cmocka_unit_test(a_full_cache_drops_what_expires_first),
        cmocka_unit_test(failures_are_not_kept),
        cmocka_unit_test(sixteen_threads_ask_once),
        cmocka_unit_test(sixteen_threads_share_one_failure),
        cmocka_unit_test(what_is_invalidated_in_flight_is_given_but_not_kept),
        cmocka_unit_test(lookups_expiry_and_forgetting_go_together),
        cmocka_unit_test(the_stage_is_asked_for_once_a_client),
        cmocka_unit_test(a_stage_of_a_later_version_is_refused),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
