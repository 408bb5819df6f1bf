/* labels: concurrent */
/* The catalog in memory (CAT-1), against a Metasrv of the test's own whose directory changes. */
#include "query_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_server.h"

static struct {
    struct fake_server server;
    struct query_metasrv *metasrv;
    struct query_directory *directory;
    atomic_int asked;
    atomic_int unchanged;        /* answers that said so */
    _Atomic uint64_t generation; /* has as many tables */
    atomic_bool broken;          /* answers bytes that are none */
} fake;

/* Tables "Ns<i>.Table<i>", in an order that is not theirs. */
static lake_status send_tables(struct rpc_call *call, uint64_t generation, struct lake_error *err)
{
    enum {
        MOST = 64
    };
    LakePb__Registration tables[MOST];
    LakePb__TableName names[MOST];
    LakePb__Registration *pointers[MOST];
    char text[MOST][2][32];
    LakePb__CatalogSnapshotReply reply = LAKE_PB__CATALOG_SNAPSHOT_REPLY__INIT;
    size_t count = (size_t)BASE_MIN(generation, (uint64_t)MOST);
    for (size_t i = 0; i < count; i++) {
        size_t number = count - 1 - i;
        lake_pb__registration__init(&tables[i]);
        lake_pb__table_name__init(&names[i]);
        snprintf(text[i][0], sizeof(text[i][0]), "Ns%zu", number);
        snprintf(text[i][1], sizeof(text[i][1]), "Table%zu", number);
        names[i].has_namespace_name = names[i].has_table = 1;
        names[i].namespace_name = fake_binary(text[i][0]);
        names[i].table = fake_binary(text[i][1]);
        tables[i].name = &names[i];
        tables[i].has_location = 1;
        tables[i].location = fake_binary("file:///somewhere");
        pointers[i] = &tables[i];
    }
    reply.has_authority = reply.has_generation = 1;
    reply.authority = fake_binary("registry-1");
    reply.generation = generation;
    reply.n_tables = count;
    reply.tables = pointers;
    return fake_send_message(call, &reply.base, err);
}

static lake_status answer(struct rpc_call *call, const struct flight_action *asked,
                          struct lake_error *err)
{
    lake_status status;
    LakePb__CatalogSnapshotRequest *request =
        lake_pb__catalog_snapshot_request__unpack(NULL, asked->body.size, asked->body.data);
    assert_non_null(request);
    uint64_t generation = atomic_load(&fake.generation);
    atomic_fetch_add(&fake.asked, 1);
    if (atomic_load(&fake.broken)) {
        status = fake_send(call, (struct lake_bytes){(const uint8_t *)"\xff\xff", 2}, err);
    } else if (request->has_known_generation && request->known_generation == generation) {
        LakePb__CatalogSnapshotReply reply = LAKE_PB__CATALOG_SNAPSHOT_REPLY__INIT;
        reply.has_not_modified = reply.not_modified = 1;
        atomic_fetch_add(&fake.unchanged, 1);
        status = fake_send_message(call, &reply.base, err);
    } else {
        status = send_tables(call, generation, err);
    }
    lake_pb__catalog_snapshot_request__free_unpacked(request, NULL);
    return status;
}

static int start(void **state)
{
    struct query_options query;
    (void)state;
    base_log_set_level(BASE_LOG_ERROR);
    fake_server_start(&fake.server, answer, NULL);
    assert_int_equal(query_options_from_environment(&query, NULL), LAKE_OK);
    query.meta_address = fake.server.address;
    assert_int_equal(query_metasrv_open(&query, &fake.metasrv, NULL), LAKE_OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    query_metasrv_free(fake.metasrv);
    fake_server_stop(&fake.server);
    return 0;
}

static int open_directory(void **state)
{
    (void)state;
    atomic_store(&fake.generation, 3);
    atomic_store(&fake.asked, 0);
    atomic_store(&fake.unchanged, 0);
    atomic_store(&fake.broken, false);
    return query_directory_open(fake.metasrv, &fake.directory, NULL) == LAKE_OK ? 0 : -1;
}

static int close_directory(void **state)
{
    (void)state;
    query_directory_free(fake.directory);
    return 0;
}

static void names_are_found_without_regard_to_case(void **state)
{
    (void)state;
    const struct query_snapshot *snapshot = query_directory_snapshot(fake.directory);
    assert_int_equal(snapshot->count, 3);
    assert_int_equal(snapshot->generation, 3);
    assert_true(base_str_equal_c(snapshot->authority, "registry-1"));
    for (size_t i = 1; i < snapshot->count; i++)
        assert_true(snapshot->tables[i - 1].namespace_name.data[2] <
                    snapshot->tables[i].namespace_name.data[2]);
    const struct query_registration *found =
        query_snapshot_find(snapshot, LAKE_STR("nS1"), LAKE_STR("TABLE1"));
    assert_non_null(found);
    assert_true(base_str_equal_c(found->table, "Table1"));
    assert_null(query_snapshot_find(snapshot, LAKE_STR("ns1"), LAKE_STR("table2")));
    assert_null(query_snapshot_find(snapshot, LAKE_STR("ns"), LAKE_STR("table1")));
    assert_null(query_snapshot_find(snapshot, LAKE_STR(""), LAKE_STR("")));
    query_snapshot_unref(snapshot);
}

static void an_unchanged_directory_is_kept_and_a_changed_one_replaced(void **state)
{
    (void)state;
    const struct query_snapshot *before = query_directory_snapshot(fake.directory);
    assert_int_equal(query_directory_refresh(fake.directory, NULL), LAKE_OK);
    const struct query_snapshot *same = query_directory_snapshot(fake.directory);
    assert_ptr_equal(before, same);
    assert_true(atomic_load(&fake.unchanged) >= 1);
    query_snapshot_unref(same);
    atomic_store(&fake.generation, 5);
    assert_int_equal(query_directory_refresh(fake.directory, NULL), LAKE_OK);
    const struct query_snapshot *after = query_directory_snapshot(fake.directory);
    assert_int_equal(after->count, 5);
    assert_int_equal(before->count, 3); /* who has it still reads it */
    assert_non_null(query_snapshot_find(before, LAKE_STR("ns2"), LAKE_STR("table2")));
    query_snapshot_unref(before);
    query_snapshot_unref(after);
}

static void changes_are_followed_without_being_asked_for(void **state)
{
    (void)state;
    atomic_store(&fake.generation, 7);
    size_t count = 0;
    for (int i = 0; i < 100 && count != 7; i++) {
        base_sleep_ms(100);
        const struct query_snapshot *snapshot = query_directory_snapshot(fake.directory);
        count = snapshot->count;
        query_snapshot_unref(snapshot);
    }
    assert_int_equal(count, 7);
}

static void what_is_known_stays_while_metasrv_fails(void **state)
{
    (void)state;
    struct lake_error err = {0};
    atomic_store(&fake.broken, true);
    assert_int_equal(query_directory_refresh(fake.directory, &err), LAKE_INTERNAL);
    assert_non_null(strstr(err.message, "snapshot"));
    const struct query_snapshot *snapshot = query_directory_snapshot(fake.directory);
    assert_int_equal(snapshot->count, 3);
    query_snapshot_unref(snapshot);
    atomic_store(&fake.broken, false);
    assert_int_equal(query_directory_refresh(fake.directory, &err), LAKE_OK);
}

static atomic_bool reading;

static void *read_always(void *context)
{
    (void)context;
    while (atomic_load(&reading)) {
        const struct query_snapshot *snapshot = query_directory_snapshot(fake.directory);
        for (size_t i = 0; i < snapshot->count; i++)
            assert_non_null(query_snapshot_find(snapshot, snapshot->tables[i].namespace_name,
                                                snapshot->tables[i].table));
        assert_int_equal(snapshot->count, snapshot->generation);
        query_snapshot_unref(snapshot);
    }
    return NULL;
}

static void *refresh_always(void *context)
{
    (void)context;
    while (atomic_load(&reading))
        assert_int_equal(query_directory_refresh(fake.directory, NULL), LAKE_OK);
    return NULL;
}

static void readers_and_refreshers_go_together(void **state)
{
    (void)state;
    pthread_t threads[8];
    atomic_store(&reading, true);
    for (int i = 0; i < 8; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < 5 ? read_always : refresh_always, NULL), 0);
    for (uint64_t generation = 4; generation <= 40; generation++) {
        atomic_store(&fake.generation, generation);
        base_sleep_ms(20);
    }
    atomic_store(&reading, false);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    const struct query_snapshot *snapshot = query_directory_snapshot(fake.directory);
    assert_true(snapshot->count > 4);
    query_snapshot_unref(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_found_without_regard_to_case, open_directory,
                                        close_directory),
        cmocka_unit_test_setup_teardown(an_unchanged_directory_is_kept_and_a_changed_one_replaced,
                                        open_directory, close_directory),
        cmocka_unit_test_setup_teardown(changes_are_followed_without_being_asked_for,
                                        open_directory, close_directory),
        cmocka_unit_test_setup_teardown(what_is_known_stays_while_metasrv_fails, open_directory,
                                        close_directory),
        cmocka_unit_test_setup_teardown(readers_and_refreshers_go_together, open_directory,
                                        close_directory),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
