/* libs: meta query */
/* Connecting, tables and result streams against real servers (SDK-1, SDK-6, ADM-4, SQL-9). */
#include "client_fixture.h"

#include <query/query.h>

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Made so that its first rows come at once and its last ones never: 10^14 of them. */
#define ENDLESS "SELECT a.range FROM range(10000000) a, range(10000000) b"
/* Gives nothing for a very long time. */
#define SILENT \
    "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range < 0"

/* ---- connecting ---- */

/* A port on loopback that nobody listens at. */
static int closed_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&address, &size), 0);
    close(descriptor);
    return ntohs(address.sin_port);
}

static void nobody_there_is_said_at_once(void **state)
{
    struct fixture *fixture = *state;
    char address[64];
    lake_client *client = NULL;
    snprintf(address, sizeof(address), "127.0.0.1:%d", closed_port());
    int64_t started_us = base_clock_monotonic_us();
    FAILS(fixture, LAKE_UNAVAILABLE, address, lake_connect(address, NULL, &client, &fixture->err));
    FAILS(fixture, LAKE_UNAVAILABLE, address,
          lake_connect_query_only(address, NULL, &client, &fixture->err));
    assert_true(base_clock_monotonic_us() - started_us < 5000000);
    assert_null(client);
}

static void wrong_options_are_refused_before_anything_is_asked(void **state)
{
    struct fixture *fixture = *state;
    lake_client *client = NULL;
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "host:port",
          lake_connect("localhost", &options, &client, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "host:port",
          lake_connect(NULL, &options, &client, &fixture->err));
    options.version = 2;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "version 2",
          lake_connect(fixture->address, &options, &client, &fixture->err));
    options = (struct lake_connect_options)LAKE_CONNECT_OPTIONS_INIT;
    options.timeout_ms = -1;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "timeout_ms",
          lake_connect(fixture->address, &options, &client, &fixture->err));
    options.timeout_ms = 0;
    options.schema_cache_tables = 65537;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "65536 tables",
          lake_connect(fixture->address, &options, &client, &fixture->err));
    options.schema_cache_tables = 65536;
    options.schema_cache_ttl_ms = 3600001;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "3600000 ms",
          lake_connect(fixture->address, &options, &client, &fixture->err));
    options.schema_cache_ttl_ms = 3600000;
    options.upload_parts_in_flight = 17;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "at most 16",
          lake_connect(fixture->address, &options, &client, &fixture->err));
    options.upload_parts_in_flight = 16;
    options.bearer_token = "two\nlines";
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "token",
          lake_connect(fixture->address, &options, &client, &fixture->err));
    assert_null(strstr(fixture->err.message, "two"));
    options.bearer_token = NULL;
    OK(fixture, lake_connect(fixture->address, &options, &client, &fixture->err));
    lake_client_unref(client);
}

static void a_reference_keeps_the_client(void **state)
{
    struct fixture *fixture = *state;
    lake_client *client = NULL;
    struct lake_table_list list;
    OK(fixture, lake_connect(fixture->address, NULL, &client, &fixture->err));
    lake_client *second = lake_client_ref(client);
    assert_ptr_equal(second, client);
    lake_client_unref(client);
    OK(fixture, lake_list_tables(second, NULL, &list, &fixture->err));
    lake_table_list_fini(&list);
    lake_client_unref(second);
    lake_client_unref(NULL);
}

/* ---- tables ---- */

static void tables_are_made_described_listed_and_dropped(void **state)
{
    struct fixture *fixture = *state;
    lake_client *client = fixture->client;
    struct lake_error *err = &fixture->err;
    struct lake_table_info info;
    struct lake_table_list list;
    CREATE(fixture, "shop.b", "id:int64!", "video:FILE");
    CREATE(fixture, "shop.a", "id:int64!");
    OK(fixture, lake_describe_table(client, "shop.b", &info, err));
    assert_string_equal(info.table, "shop.b");
    assert_int_equal(info.version, 1);
    assert_non_null(strstr(info.location, "shop/b.lance"));
    assert_int_equal(strlen(info.incarnation), 36);
    assert_int_equal(info.schema.n_children, 2);
    assert_int_equal(info.schema.children[0]->flags & ARROW_FLAG_NULLABLE, 0);
    assert_true(arrow_file_schema_is(info.schema.children[1]));
    OK(fixture, lake_list_tables(client, "shop", &list, err));
    assert_int_equal(list.count, 2);
    assert_string_equal(list.tables[0], "shop.a");
    assert_string_equal(list.tables[1], "shop.b");
    lake_table_list_fini(&list);

    struct ArrowSchema again;
    static const char *const columns[] = {"id:int64"};
    OK(fixture, lake_schema_parse(columns, 1, &again, err));
    FAILS(fixture, LAKE_ALREADY_EXISTS, "shop.b", lake_create_table(client, "shop.b", &again, err));
    FAILS(fixture, LAKE_ALREADY_EXISTS, "Shop.B", lake_create_table(client, "Shop.B", &again, err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "namespace.table",
          lake_create_table(client, "b", &again, err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "namespace.table",
          lake_create_table(client, NULL, &again, err));
    assert_int_not_equal(lake_create_table(client, "shop/x.y", &again, err), LAKE_OK);
    OK(fixture, lake_drop_table(client, "shop.b", err));
    FAILS(fixture, LAKE_NOT_FOUND, "shop.b", lake_drop_table(client, "shop.b", err));
    FAILS(fixture, LAKE_NOT_FOUND, "shop.b", lake_describe_table(client, "shop.b", &info, err));
    struct lake_table_info second;
    OK(fixture, lake_create_table(client, "shop.b", &again, err));
    OK(fixture, lake_describe_table(client, "shop.b", &second, err));
    assert_string_not_equal(second.incarnation, info.incarnation);
    lake_table_info_fini(&second);
    lake_table_info_fini(&info);
    again.release(&again);
    OK(fixture, lake_list_tables(client, "nowhere", &list, err));
    assert_int_equal(list.count, 0);
    lake_table_list_fini(&list);
}

static void columns_are_parsed_as_on_the_command_line(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    static const struct {
        const char *column;
        const char *said;
    } bad[] = {{"id", "name:type"},       {":int64", "name:type"}, {"id:int65", "column id"},
               {"id:list<", "column id"}, {NULL, "name:type"},     {"id:", "column id"}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        FAILS(fixture, LAKE_INVALID_ARGUMENT, bad[i].said,
              lake_schema_parse(&bad[i].column, 1, &schema, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "at least one column",
          lake_schema_parse(NULL, 0, &schema, &fixture->err));
    OK(fixture, lake_file_schema_init(&schema, "video", false, &fixture->err));
    assert_string_equal(schema.name, "video");
    assert_true(arrow_file_schema_is(&schema));
    schema.release(&schema);
    assert_string_equal(lake_version(), LAKE_VERSION);
}

/* ---- results ---- */

static void a_wrong_statement_fails_at_once_with_the_engines_words(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowArrayStream stream = {0};
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "syntax error",
          lake_query(fixture->client, "SELEC 1", &stream, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "read-only",
          lake_query(fixture->client, "DROP TABLE a.b", &stream, &fixture->err));
    FAILS(fixture, LAKE_NOT_FOUND, "no.such",
          lake_query(fixture->client, "SELECT * FROM no.such", &stream, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "no statement",
          lake_query(fixture->client, NULL, &stream, &fixture->err));
    assert_null(stream.release);
}

static void a_failure_in_the_middle_is_kept_by_the_stream(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    int64_t rows = 0;
    int code;
    /* The last of many rows cannot be cast. */
    OK(fixture, lake_query(fixture->client,
                           "SELECT (CASE WHEN i = 2999999 THEN 'x' ELSE i::VARCHAR END)::INTEGER "
                           "FROM range(3000000) t(i)",
                           &stream, &fixture->err));
    assert_int_equal(lake_query_status(&stream), LAKE_OK);
    while ((code = stream.get_next(&stream, &batch)) == 0) {
        assert_non_null(batch.release);
        rows += batch.length;
        batch.release(&batch);
    }
    assert_true(rows < 3000000);
    assert_int_equal(code, EINVAL);
    assert_int_equal(lake_query_status(&stream), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(stream.get_last_error(&stream), "'x'"));
    assert_int_equal(stream.get_next(&stream, &batch), EINVAL);
    stream.release(&stream);
    assert_null(stream.release);
    assert_int_equal(lake_query_status(&stream), LAKE_OK);
}

static void an_empty_result_has_a_schema_and_an_end(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    int64_t rows = 0;
    OK(fixture, lake_query(fixture->client, "SELECT 1::INTEGER AS one, 'x' AS x WHERE false",
                           &stream, &fixture->err));
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_string_equal(schema.children[0]->name, "one");
    assert_string_equal(schema.children[0]->format, "i");
    schema.release(&schema);
    for (;;) {
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        if (batch.release == NULL)
            break;
        rows += batch.length;
        batch.release(&batch);
    }
    assert_int_equal(rows, 0);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    assert_null(batch.release);
    stream.release(&stream);
}

static void file_values_of_a_result_are_decoded(void **state)
{
    struct fixture *fixture = *state;
    struct memory_source source = {(const uint8_t *)"abc", 3, 0, 0, 0};
    struct lake_value values[] = {
        whole(1), {.kind = LAKE_VALUE_FILE_SOURCE}, whole(2), {.kind = LAKE_VALUE_NULL}};
    values[1].as.file_source.source = (struct lake_source){memory_read, &source};
    values[1].as.file_source.media_type = "text/plain";
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    CREATE(fixture, "results.files", "id:int64!", "a:FILE");
    OK(fixture, lake_insert_many(fixture->client, "INSERT INTO results.files (id, a) VALUES (?, ?)",
                                 values, 2, 2, &result, &fixture->err));
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct lake_data_location location;
    OK(fixture, lake_query(fixture->client, "SELECT a, id FROM results.files ORDER BY id", &stream,
                           &fixture->err));
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    OK(fixture, lake_data_location_get(&schema, &batch, 0, 0, &location, &fixture->err));
    assert_string_equal(location.uri, result.locations[0].uri);
    assert_string_equal(location.media_type, "text/plain");
    assert_string_equal(location.sha256_hex, result.locations[0].sha256_hex);
    assert_int_equal(location.size_bytes, 3);
    lake_data_location_fini(&location);
    FAILS(fixture, LAKE_NOT_FOUND, "null",
          lake_data_location_get(&schema, &batch, 0, 1, &location, &fixture->err));
    FAILS(fixture, LAKE_OUT_OF_RANGE, "2 rows",
          lake_data_location_get(&schema, &batch, 0, 2, &location, &fixture->err));
    FAILS(fixture, LAKE_OUT_OF_RANGE, "2 rows",
          lake_data_location_get(&schema, &batch, 0, -1, &location, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not a FILE",
          lake_data_location_get(&schema, &batch, 1, 0, &location, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "2 columns",
          lake_data_location_get(&schema, &batch, 2, 0, &location, &fixture->err));
    batch.release(&batch);
    schema.release(&schema);
    stream.release(&stream);
    lake_insert_result_fini(&result);
}

static void memory_of_a_batch_outlives_its_stream_and_client(void **state)
{
    struct fixture *fixture = *state;
    lake_client *client;
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    OK(fixture, lake_connect(fixture->address, NULL, &client, &fixture->err));
    OK(fixture, lake_query(client, "SELECT range FROM range(10000)", &stream, &fixture->err));
    lake_client_unref(client);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    stream.release(&stream);
    const int64_t *values = batch.children[0]->buffers[1];
    assert_int_equal(values[batch.children[0]->offset + 777], 777);
    batch.release(&batch);
}

/* ---- places (ADM-3, ADM-4) ---- */

static lake_status one_statement(struct fixture *fixture)
{
    struct ArrowArrayStream stream;
    lake_status status = lake_query(fixture->client, "SELECT 1", &stream, &fixture->err);
    if (status == LAKE_OK)
        stream.release(&stream);
    return status;
}

static void a_released_stream_frees_its_place(void **state)
{
    (void)state;
    const struct fixture_options options = {.max_concurrent = 1};
    struct fixture *fixture = fixture_new(&options);
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    for (int i = 0; i < 5; i++) {
        OK(fixture, lake_query(fixture->client, ENDLESS, &stream, &fixture->err));
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        batch.release(&batch);
        FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "statements", one_statement(fixture));
        stream.release(&stream);
        /* The server hears of it a moment later. */
        lake_status status = LAKE_RESOURCE_EXHAUSTED;
        for (int tries = 0; tries < 50 && status == LAKE_RESOURCE_EXHAUSTED; tries++)
            status = one_statement(fixture);
        assert_int_equal(status, LAKE_OK);
    }
    fixture_free(fixture);
}

static void a_statement_past_its_time_ends_with_deadline_exceeded(void **state)
{
    (void)state;
    const struct fixture_options options = {.max_concurrent = 2, .execution_timeout_ms = 300};
    struct fixture *fixture = fixture_new(&options);
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    int64_t started_us = base_clock_monotonic_us();
    lake_status status = lake_query(fixture->client, SILENT, &stream, &fixture->err);
    if (status == LAKE_OK) {
        assert_int_not_equal(stream.get_next(&stream, &batch), 0);
        status = lake_query_status(&stream);
        stream.release(&stream);
    }
    assert_int_equal(status, LAKE_DEADLINE_EXCEEDED);
    assert_true(base_clock_monotonic_us() - started_us < 20000000);
    OK(fixture, one_statement(fixture));
    fixture_free(fixture);
}

/* ---- threads ---- */

struct sharing {
    struct fixture *fixture;
    int number;
};

static void *insert_and_query(void *context)
{
    struct sharing *sharing = context;
    lake_client *client = lake_client_ref(sharing->fixture->client);
    for (int i = 0; i < 10; i++) {
        struct lake_value values[] = {whole(sharing->number), whole(i)};
        struct ArrowArrayStream stream;
        struct ArrowArray batch;
        struct lake_error err = {0};
        lake_status status = lake_insert(client, "INSERT INTO threads.t (who, n) VALUES (?, ?)",
                                         values, 2, NULL, &err);
        while (status == LAKE_OK) {
            status = lake_query(client, "SELECT count(*) FROM threads.t", &stream, &err);
            if (status != LAKE_RESOURCE_EXHAUSTED)
                break;
            status = LAKE_OK; /* sixteen threads of one tenant share eight places */
        }
        if (status != LAKE_OK) {
            print_error("%s\n", err.message);
            lake_client_unref(client);
            return context;
        }
        if (stream.get_next(&stream, &batch) == 0 && batch.release != NULL)
            batch.release(&batch);
        stream.release(&stream);
    }
    lake_client_unref(client);
    return NULL;
}

static void sixteen_threads_share_one_client(void **state)
{
    struct fixture *fixture = *state;
    pthread_t threads[16];
    struct sharing sharing[16];
    CREATE(fixture, "threads.t", "who:int64", "n:int64");
    for (int i = 0; i < 16; i++) {
        sharing[i] = (struct sharing){fixture, i};
        assert_int_equal(pthread_create(&threads[i], NULL, insert_and_query, &sharing[i]), 0);
    }
    for (int i = 0; i < 16; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(count_rows(fixture, "threads.t"), 160);
    assert_int_equal(query_number(fixture, "SELECT count(DISTINCT (who, n)) FROM threads.t"), 160);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_there_is_said_at_once),
        cmocka_unit_test(wrong_options_are_refused_before_anything_is_asked),
        cmocka_unit_test(a_reference_keeps_the_client),
        cmocka_unit_test(tables_are_made_described_listed_and_dropped),
        cmocka_unit_test(columns_are_parsed_as_on_the_command_line),
        cmocka_unit_test(a_wrong_statement_fails_at_once_with_the_engines_words),
        cmocka_unit_test(a_failure_in_the_middle_is_kept_by_the_stream),
        cmocka_unit_test(an_empty_result_has_a_schema_and_an_end),
        cmocka_unit_test(file_values_of_a_result_are_decoded),
        cmocka_unit_test(memory_of_a_batch_outlives_its_stream_and_client),
        cmocka_unit_test(a_released_stream_frees_its_place),
        cmocka_unit_test(a_statement_past_its_time_ends_with_deadline_exceeded),
        cmocka_unit_test(sixteen_threads_share_one_client),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
