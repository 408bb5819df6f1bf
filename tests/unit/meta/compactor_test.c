/* Compaction in the background, and clean-up, beside appends. */
/* labels: concurrent */
#include "meta_fixture.h"

#define APPENDERS 3
#define APPENDS   50
#define RUN       64 /* neighbours that become one fragment */
#define QUIET_MS  60000

static uint64_t fragments_of(struct fixture *fixture, const struct meta_name *name)
{
    struct storage_store *store = NULL;
    struct lance_dataset *dataset = NULL;
    OK(fixture, meta_table_store(fixture->authority, name, &store, &fixture->err));
    OK(fixture, lance_dataset_open(store, NULL, NULL, 0, &dataset, &fixture->err));
    uint64_t count = lance_dataset_fragment_count(dataset);
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    return count;
}

static void append_one(struct fixture *fixture, const struct meta_name *name, int64_t row)
{
    struct meta_append_result result;
    char id[BASE_UUID_TEXT_BYTES];
    new_operation_id(id);
    OK(fixture, append_rows(fixture, &fixture->anna, name, id, row, 1, false, NULL, &result));
}

static void wait_for_few(struct fixture *fixture, const struct meta_name *name)
{
    for (int waited = 0; fragments_of(fixture, name) >= RUN; waited += 10) {
        assert_true(waited < QUIET_MS);
        base_sleep_ms(10);
    }
}

static lake_status clean_up(struct fixture *fixture, const struct meta_name *name,
                            LakePb__CleanupTableReply **out)
{
    LakePb__CleanupTableRequest request = LAKE_PB__CLEANUP_TABLE_REQUEST__INIT;
    LakePb__TableName table = LAKE_PB__TABLE_NAME__INIT;
    struct base_buffer reply;
    table.has_namespace_name = table.has_table = true;
    table.namespace_name = meta_pb_of_str(name->namespace_name);
    table.table = meta_pb_of_str(name->table);
    request.name = &table;
    request.has_older_than_ms = true;
    base_buffer_init(&reply, 4096);
    lake_status status = meta_table_cleanup(fixture->authority, &fixture->anna, &patient, &request,
                                            &reply, &fixture->err);
    if (status == LAKE_OK)
        *out = lake_pb__cleanup_table_reply__unpack(NULL, reply.size, reply.data);
    base_buffer_fini(&reply);
    return status;
}

struct appender {
    struct fixture *fixture;
    struct meta_name name;
};

static void *append_many(void *context)
{
    struct appender *appender = context;
    struct fixture own = *appender->fixture; /* an error record of its own */
    for (int i = 0; i < APPENDS; i++)
        append_one(&own, &appender->name, i);
    return NULL;
}

static void *clean_up_again_and_again(void *context)
{
    struct appender *cleaner = context;
    struct fixture own = *cleaner->fixture;
    for (int i = 0; i < 10; i++) {
        LakePb__CleanupTableReply *reply = NULL;
        OK(&own, clean_up(&own, &cleaner->name, &reply));
        lake_pb__cleanup_table_reply__free_unpacked(reply, NULL);
        base_sleep_ms(5);
    }
    return NULL;
}

static void appends_compactions_and_clean_ups_at_once_keep_every_row(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    struct appender appenders[APPENDERS + 1];
    pthread_t threads[APPENDERS + 1];
    create_table(fixture, &name, false);
    OK(fixture,
       meta_compactor_start(fixture->authority, &fixture->authority->compactor, &fixture->err));
    for (int i = 0; i <= APPENDERS; i++) {
        appenders[i] = (struct appender){.fixture = fixture, .name = name};
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < APPENDERS ? append_many : clean_up_again_and_again,
                                        &appenders[i]),
                         0);
    }
    for (int i = 0; i <= APPENDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    append_one(fixture, &name, 0); /* offers what a clean-up had kept from being compacted */
    struct meta_compactor *compactor = fixture->authority->compactor;
    fixture->authority->compactor = NULL;
    meta_compactor_free(compactor);
    assert_int_equal(row_count_of(fixture, &name, NULL), APPENDERS * APPENDS + 1);
}

static void a_table_that_grows_is_compacted_and_one_that_failed_rests(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name arm = name_of("robots", "arm");
    struct meta_name leg = name_of("robots", "leg");
    struct meta_compactor *compactor = NULL;
    create_table(fixture, &arm, false);
    create_table(fixture, &leg, false);
    OK(fixture, base_fault_configure("lance.compact.after_data:1:error", &fixture->err));
    OK(fixture, meta_compactor_start(fixture->authority, &compactor, &fixture->err));
    fixture->authority->compactor = compactor;
    for (int i = 0; i < RUN + 10; i++)
        append_one(fixture, &arm, i);
    for (int i = 0; i < RUN + 1; i++)
        append_one(fixture, &leg, i);
    wait_for_few(fixture, &leg);
    append_one(fixture, &arm, 99);
    assert_int_equal(fragments_of(fixture, &arm), RUN + 11);
    fixture->authority->compactor = NULL;
    meta_compactor_free(compactor);
    assert_int_equal(row_count_of(fixture, &arm, NULL), RUN + 11);
    assert_int_equal(row_count_of(fixture, &leg, NULL), RUN + 1);
}

static void a_clean_up_without_memory_leaves_a_whole_table(void **state)
{
    struct fixture *fixture = *state;
    struct meta_name name = name_of("robots", "arm");
    LakePb__CleanupTableReply *reply = NULL;
    create_table(fixture, &name, false);
    for (int i = 0; i < 14; i++)
        append_one(fixture, &name, i);
    lake_status status = LAKE_RESOURCE_EXHAUSTED;
    uint64_t nth = 0;
    while (status != LAKE_OK && nth < 100000) {
        nth += 1 + nth / 16;
        base_fault_fail_nth_alloc(nth);
        status = clean_up(fixture, &name, &reply);
        base_fault_fail_nth_alloc(0);
        assert_int_equal(row_count_of(fixture, &name, NULL), 14);
    }
    assert_true(status == LAKE_OK && nth > 1);
    assert_int_equal(reply->versions_kept, META_RETAIN_VERSIONS);
    lake_pb__cleanup_table_reply__free_unpacked(reply, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(appends_compactions_and_clean_ups_at_once_keep_every_row),
        TEST(a_table_that_grows_is_compacted_and_one_that_failed_rests),
        TEST(a_clean_up_without_memory_leaves_a_whole_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
