/* libs: meta query */
/*
 * The Nth allocation fails, for every N, over whole operations: of the client and of the servers in
 * this process together. Each ends with a typed error or well, nothing is lost or there twice, and
 * the next operation works. Leaks are the sanitizers' to find.
 */
#include "client_fixture.h"

/* Instrumented code is slow, and its arenas allocate every piece: there not every one fails. */
#if defined(LAKE_SANITIZED) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS_MAX 150
#else
#define ROUNDS_MAX 20000
#endif

/* One operation; may fail when an allocation does. */
typedef lake_status (*operation)(struct fixture *fixture);

static bool is_typed(lake_status status)
{
    return status == LAKE_RESOURCE_EXHAUSTED || status == LAKE_OUTCOME_UNKNOWN ||
           status == LAKE_INTERNAL || status == LAKE_UNAVAILABLE || status == LAKE_CANCELLED ||
           status == LAKE_UNKNOWN || status == LAKE_DATA_LOSS || status == LAKE_NOT_FOUND;
}

/* Runs with the 1st, 2nd, … allocation failing until one round needs fewer. `check` looks at what a
 * round has left, with all allocations working. */
static void every_allocation(struct fixture *fixture, operation run,
                             void (*check)(struct fixture *fixture, lake_status status))
{
    uint64_t failures = 0;
    base_fault_fail_nth_alloc(UINT64_MAX);
    lake_status clean = run(fixture);
    uint64_t step = base_fault_alloc_count() / ROUNDS_MAX + 1;
    base_fault_fail_nth_alloc(0);
    OK(fixture, clean);
    check(fixture, clean);
    for (uint64_t nth = 1;; nth += step) {
        lake_error_clear(&fixture->err);
        base_fault_fail_nth_alloc(nth);
        lake_status status = run(fixture);
        uint64_t count = base_fault_alloc_count();
        base_fault_fail_nth_alloc(0);
        if (status != LAKE_OK) {
            if (!is_typed(status) || fixture->err.message[0] == '\0')
                print_error("allocation %llu: %s \"%s\"\n", (unsigned long long)nth,
                            lake_status_name(status), fixture->err.message);
            assert_true(is_typed(status));
            assert_true(fixture->err.message[0] != '\0');
            failures++;
        }
        check(fixture, status);
        if (count < nth)
            break;
    }
    assert_true(failures > 10); /* the faults did reach the operation */
}

static void nothing_to_check(struct fixture *fixture, lake_status status)
{
    (void)fixture;
    (void)status;
}

/* ---- connecting ---- */

static lake_status connect_once(struct fixture *fixture)
{
    lake_client *client = NULL;
    lake_status status = lake_connect(fixture->address, NULL, &client, &fixture->err);
    if (status == LAKE_OK)
        lake_client_unref(client);
    return status;
}

static void connecting(void **state)
{
    every_allocation(*state, connect_once, nothing_to_check);
}

/* ---- inserting ---- */

static int64_t rows_before;
static int objects_before;

static lake_status insert_once(struct fixture *fixture)
{
    static const double numbers[] = {1, 2};
    struct memory_source source = {(const uint8_t *)"abc", 3, 0, 0, 0};
    struct lake_value values[] = {
        whole(1), text("text"), {.kind = LAKE_VALUE_FLOAT_LIST}, {.kind = LAKE_VALUE_FILE_SOURCE}};
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    values[2].as.floats.data = numbers;
    values[2].as.floats.count = 2;
    values[3].as.file_source.source = (struct lake_source){memory_read, &source};
    lake_schema_cache_clear(fixture->client);
    lake_status status =
        lake_insert(fixture->client, "INSERT INTO memory.t (id, s, v, a) VALUES (?, ?, ?, ?)",
                    values, 4, &result, &fixture->err);
    lake_insert_result_fini(&result);
    return status;
}

/* Acknowledged rows are there once, refused ones are not, and neither are the refused ones' files.
 */
static void check_insert(struct fixture *fixture, lake_status status)
{
    struct lake_error failure = fixture->err;
    int64_t rows = count_rows(fixture, "memory.t");
    int objects = count_objects(fixture);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN && rows != rows_before)
        print_error("%s, but the row is there: %s (%s)\n", lake_status_name(status),
                    failure.message, failure.cause);
    if (status == LAKE_OK)
        assert_int_equal(rows, rows_before + 1);
    else if (status == LAKE_OUTCOME_UNKNOWN)
        assert_true(rows == rows_before || rows == rows_before + 1);
    else
        assert_int_equal(rows, rows_before);
    if (status == LAKE_OK)
        assert_int_equal(objects, objects_before + 1);
    assert_true(objects <= objects_before + 1);
    rows_before = rows;
    objects_before = objects;
}

static void inserting(void **state)
{
    struct fixture *fixture = *state;
    CREATE(fixture, "memory.t", "id:int64!", "s:utf8", "v:float[2]", "a:FILE");
    rows_before = 0;
    objects_before = count_objects(fixture);
    every_allocation(fixture, insert_once, check_insert);
}

/* ---- querying ---- */

static lake_status query_once(struct fixture *fixture)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema = {0};
    int64_t rows = 0;
    lake_status status =
        lake_query(fixture->client, "SELECT * FROM memory.q ORDER BY id", &stream, &fixture->err);
    if (status != LAKE_OK)
        return status;
    int code = stream.get_schema(&stream, &schema);
    while (code == 0) {
        struct ArrowArray batch = {0};
        code = stream.get_next(&stream, &batch);
        if (code != 0 || batch.release == NULL)
            break;
        rows += batch.length;
        batch.release(&batch);
    }
    if (code == 0)
        assert_int_equal(rows, 3);
    else
        status = lake_fail(&fixture->err,
                           lake_query_status(&stream) == LAKE_OK ? LAKE_RESOURCE_EXHAUSTED
                                                                 : lake_query_status(&stream),
                           "stream: %s", stream.get_last_error(&stream));
    if (schema.release != NULL)
        schema.release(&schema);
    stream.release(&stream);
    return status;
}

static void querying(void **state)
{
    struct fixture *fixture = *state;
    struct lake_value values[] = {whole(1), text("a"), whole(2), text("b"), whole(3), text("c")};
    CREATE(fixture, "memory.q", "id:int64!", "s:utf8");
    OK(fixture, lake_insert_many(fixture->client, "INSERT INTO memory.q (id, s) VALUES (?, ?)",
                                 values, 3, 2, NULL, &fixture->err));
    every_allocation(fixture, query_once, nothing_to_check);
    OK(fixture, query_once(fixture));
}

/* ---- objects ---- */

static lake_status upload_and_read_once(struct fixture *fixture)
{
    struct memory_source source = {(const uint8_t *)"abcdef", 6, 0, 4, 0};
    struct lake_data_location location = {0};
    lake_reader *reader = NULL;
    char bytes[16];
    size_t got = 1;
    lake_status status =
        lake_upload_source(fixture->client, (struct lake_source){memory_read, &source},
                           "text/plain", NULL, NULL, &location, &fixture->err);
    if (status == LAKE_OK)
        status = lake_open(fixture->client, &location, &reader, &fixture->err);
    while (status == LAKE_OK && got > 0)
        status = lake_reader_read(reader, bytes, sizeof(bytes), &got, &fixture->err);
    lake_reader_free(reader);
    lake_data_location_fini(&location);
    return status;
}

static void check_objects(struct fixture *fixture, lake_status status)
{
    int objects = count_objects(fixture);
    assert_true(objects == objects_before || objects == objects_before + 1);
    if (status == LAKE_OK)
        assert_int_equal(objects, objects_before + 1);
    objects_before = objects;
}

static void uploading_and_reading(void **state)
{
    struct fixture *fixture = *state;
    objects_before = count_objects(fixture);
    every_allocation(fixture, upload_and_read_once, check_objects);
}

/* Two chunks, so that there is a record of their digests. */
static lake_status upload_and_verify_parts_once(struct fixture *fixture)
{
    static uint8_t data[100000];
    struct memory_source source = {data, sizeof(data), 0, 0, 0};
    struct lake_data_location location = {0};
    lake_reader *reader = NULL;
    lake_seekable *seekable = NULL;
    size_t got = 1;
    lake_status status =
        lake_upload_source(fixture->client, (struct lake_source){memory_read, &source}, NULL, NULL,
                           NULL, &location, &fixture->err);
    if (status == LAKE_OK)
        status = lake_open_range(fixture->client, &location, 1, 80000, &reader, &fixture->err);
    while (status == LAKE_OK && got > 0)
        status = lake_reader_read(reader, data, sizeof(data), &got, &fixture->err);
    if (status == LAKE_OK)
        status = lake_open_seekable(fixture->client, &location, &seekable, &fixture->err);
    if (status == LAKE_OK)
        status = lake_seekable_read_at(seekable, 65530, data, 100, &got, &fixture->err);
    if (status == LAKE_OK)
        assert_true(lake_seekable_is_verified(seekable) && lake_reader_is_verified(reader));
    lake_seekable_free(seekable);
    lake_reader_free(reader);
    lake_data_location_fini(&location);
    return status;
}

static void check_object_and_record(struct fixture *fixture, lake_status status)
{
    int objects = count_objects(fixture);
    assert_true(objects == objects_before || objects == objects_before + 2);
    if (status == LAKE_OK)
        assert_int_equal(objects, objects_before + 2);
    objects_before = objects;
}

static void verifying_parts_of_objects(void **state)
{
    struct fixture *fixture = *state;
    objects_before = count_objects(fixture);
    every_allocation(fixture, upload_and_verify_parts_once, check_object_and_record);
}

/* ---- tables ---- */

static lake_status make_and_drop_once(struct fixture *fixture)
{
    static const char *const columns[] = {"id:int64!", "video:FILE", "v:float[3]"};
    struct ArrowSchema schema = {0};
    struct lake_table_info info = {0};
    struct lake_table_list list = {0};
    lake_status status = lake_schema_parse(columns, 3, &schema, &fixture->err);
    if (status == LAKE_OK)
        status = lake_create_table(fixture->client, "memory.made", &schema, &fixture->err);
    if (status == LAKE_OK)
        status = lake_describe_table(fixture->client, "memory.made", &info, &fixture->err);
    if (status == LAKE_OK)
        status = lake_list_tables(fixture->client, "memory", &list, &fixture->err);
    if (status == LAKE_OK)
        status = lake_drop_table(fixture->client, "memory.made", &fixture->err);
    lake_table_list_fini(&list);
    lake_table_info_fini(&info);
    if (schema.release != NULL)
        schema.release(&schema);
    return status;
}

static void check_tables(struct fixture *fixture, lake_status status)
{
    struct lake_error ignored;
    (void)status;
    (void)lake_drop_table(fixture->client, "memory.made", &ignored);
    struct lake_table_list list;
    OK(fixture, lake_list_tables(fixture->client, "memory", &list, &fixture->err));
    for (size_t i = 0; i < list.count; i++)
        assert_string_not_equal(list.tables[i], "memory.made");
    lake_table_list_fini(&list);
}

static void making_describing_listing_and_dropping(void **state)
{
    every_allocation(*state, make_and_drop_once, check_tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connecting),
        cmocka_unit_test(inserting),
        cmocka_unit_test(querying),
        cmocka_unit_test(uploading_and_reading),
        cmocka_unit_test(verifying_parts_of_objects),
        cmocka_unit_test(making_describing_listing_and_dropping),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
