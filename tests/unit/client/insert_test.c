/* libs: meta query */
/* insert and insert_many against real servers (SDK-3). */
#include "client_fixture.h"

#include <errno.h>
#include <math.h>

#define MIB ((size_t)1024 * 1024)

/* ---- every kind of value into every type that takes it, and back ---- */

enum expected_kind {
    NUMBER, /* as a whole number in the result's own unit */
    REAL,
    TEXT,
    BYTES,
    LIST /* of the two numbers 0.5 and -2 */
};

struct case_of_value {
    const char *type;
    struct lake_value value;
    enum expected_kind kind;
    int64_t number;
    double real;
    const char *text;
};

static const double two_numbers[] = {0.5, -2};

#define WHOLE(n)                                  \
    {                                             \
        .kind = LAKE_VALUE_INT64, .as.int64 = (n) \
    }
#define DOUBLE(d)                                    \
    {                                                \
        .kind = LAKE_VALUE_DOUBLE, .as.float64 = (d) \
    }
#define STRING(s)                                                 \
    {                                                             \
        .kind = LAKE_VALUE_TEXT, .as.text = {(s), sizeof(s) - 1 } \
    }
#define BLOB(s)                                                                      \
    {                                                                                \
        .kind = LAKE_VALUE_BYTES, .as.bytes = {(const uint8_t *)(s), sizeof(s) - 1 } \
    }
#define FLOATS                                                         \
    {                                                                  \
        .kind = LAKE_VALUE_FLOAT_LIST, .as.floats = { two_numbers, 2 } \
    }

/* Narrower types come back as the engine's: docs/types.md. */
static const struct case_of_value cases[] = {
    {"bool", {.kind = LAKE_VALUE_BOOL, .as.boolean = true}, NUMBER, 1, 0, NULL},
    {"bool", {.kind = LAKE_VALUE_BOOL, .as.boolean = false}, NUMBER, 0, 0, NULL},
    {"int8", WHOLE(INT8_MIN), NUMBER, INT8_MIN, 0, NULL},
    {"int16", WHOLE(INT16_MAX), NUMBER, INT16_MAX, 0, NULL},
    {"int32", WHOLE(INT32_MIN), NUMBER, INT32_MIN, 0, NULL},
    {"int64", WHOLE(INT64_MIN), NUMBER, INT64_MIN, 0, NULL},
    {"int64", WHOLE(INT64_MAX), NUMBER, INT64_MAX, 0, NULL},
    {"uint8", WHOLE(UINT8_MAX), NUMBER, UINT8_MAX, 0, NULL},
    {"uint16", WHOLE(UINT16_MAX), NUMBER, UINT16_MAX, 0, NULL},
    {"uint32", WHOLE(UINT32_MAX), NUMBER, UINT32_MAX, 0, NULL},
    {"uint64", WHOLE(INT64_MAX), NUMBER, INT64_MAX, 0, NULL},
    {"date32", WHOLE(-719162), NUMBER, -719162, 0, NULL},
    {"time32[s]", WHOLE(86399), NUMBER, 86399000000, 0, NULL},
    {"time32[ms]", WHOLE(1), NUMBER, 1000, 0, NULL},
    {"time64[us]", WHOLE(86399999999), NUMBER, 86399999999, 0, NULL},
    {"time64[ns]", WHOLE(86399999999999), NUMBER, 86399999999999, 0, NULL},
    {"timestamp[s]", WHOLE(-1), NUMBER, -1, 0, NULL},
    {"timestamp[ms]", WHOLE(-1), NUMBER, -1, 0, NULL},
    {"timestamp[us]", WHOLE(-1), NUMBER, -1, 0, NULL},
    {"timestamp[ns]", WHOLE(-1), NUMBER, -1, 0, NULL},
    {"timestamp[us, UTC]", WHOLE(1700000000123456), NUMBER, 1700000000123456, 0, NULL},
    {"float16", DOUBLE(-65504), REAL, 0, -65504, NULL},
    {"float", DOUBLE(0.1), REAL, 0, (double)0.1f, NULL},
    {"double", DOUBLE(5e-324), REAL, 0, 5e-324, NULL},
    {"double", DOUBLE(-INFINITY), REAL, 0, -INFINITY, NULL},
    {"utf8", STRING("gr\303\266\303\237e"), TEXT, 0, 0, "gr\303\266\303\237e"},
    {"utf8", STRING(""), TEXT, 0, 0, ""},
    {"large_utf8", STRING("a 'quoted' \"text\""), TEXT, 0, 0, "a 'quoted' \"text\""},
    {"binary", BLOB("\377\376xy"), BYTES, 0, 0, "\377\376xy"},
    {"large_binary", BLOB(""), BYTES, 0, 0, ""},
    {"fixed_size_binary[4]", BLOB("abcd"), BYTES, 0, 0, "abcd"},
    {"list<float>", FLOATS, LIST, 0, 0, NULL},
    {"list<float16>", FLOATS, LIST, 0, 0, NULL},
    {"large_list<double>", FLOATS, LIST, 0, 0, NULL},
    {"float[2]", FLOATS, LIST, 0, 0, NULL},
    {"double[2]", FLOATS, LIST, 0, 0, NULL},
    {"float16[2]", FLOATS, LIST, 0, 0, NULL},
};
#define CASES BASE_ARRAY_LEN(cases)

static void check_case(const struct case_of_value *expected, const struct ArrowArrayView *column,
                       int64_t row)
{
    struct ArrowStringView string;
    int64_t from;
    assert_false(ArrowArrayViewIsNull(column, row));
    switch (expected->kind) {
    case NUMBER:
        assert_int_equal(ArrowArrayViewGetIntUnsafe(column, row), expected->number);
        break;
    case REAL:
        assert_true(ArrowArrayViewGetDoubleUnsafe(column, row) == expected->real);
        break;
    case TEXT:
    case BYTES:
        string = ArrowArrayViewGetStringUnsafe(column, row);
        assert_int_equal(string.size_bytes, strlen(expected->text));
        assert_memory_equal(string.data, expected->text, strlen(expected->text));
        break;
    case LIST:
        from = column->storage_type == NANOARROW_TYPE_FIXED_SIZE_LIST
                   ? 2 * (column->offset + row)
                   : ArrowArrayViewListChildOffset(column, row);
        assert_true(ArrowArrayViewGetDoubleUnsafe(column->children[0], from) == 0.5);
        assert_true(ArrowArrayViewGetDoubleUnsafe(column->children[0], from + 1) == -2);
        break;
    }
}

/* One column a case: the value in row 0, null in row 1. */
static void every_kind_of_value_comes_back_exactly(void **state)
{
    struct fixture *fixture = *state;
    static char columns[CASES + 1][64];
    const char *pointers[CASES + 1];
    static char sql[8192];
    struct lake_value values[2 * (CASES + 1)];
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    snprintf(columns[0], sizeof(columns[0]), "row:int32!");
    snprintf(sql, sizeof(sql), "INSERT INTO kinds.all (row");
    values[0] = whole(0);
    values[CASES + 1] = whole(1);
    for (size_t i = 0; i < CASES; i++) {
        snprintf(columns[i + 1], sizeof(columns[0]), "c%zu:%s", i, cases[i].type);
        snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql), ", c%zu", i);
        values[i + 1] = cases[i].value;
        values[CASES + 1 + i + 1] = (struct lake_value){.kind = LAKE_VALUE_NULL};
    }
    snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql), ") VALUES (?");
    for (size_t i = 0; i < CASES; i++)
        strncat(sql, ", ?", sizeof(sql) - strlen(sql) - 1);
    strncat(sql, ")", sizeof(sql) - strlen(sql) - 1);
    for (size_t i = 0; i <= CASES; i++)
        pointers[i] = columns[i];
    create_table(fixture, "kinds.all", pointers, CASES + 1);
    OK(fixture,
       lake_insert_many(fixture->client, sql, values, 2, CASES + 1, &result, &fixture->err));
    assert_int_equal(result.version, 2);
    assert_int_equal(result.row_count, 2);
    assert_false(result.replayed);
    assert_int_equal(result.location_count, 0);
    assert_int_equal(strlen(result.operation_id), 36);
    lake_insert_result_fini(&result);

    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct ArrowArrayView view;
    OK(fixture,
       lake_query(fixture->client, "SELECT * FROM kinds.all ORDER BY row", &stream, &fixture->err));
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, &schema, NULL), 0);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    assert_int_equal(batch.length, 2);
    assert_int_equal(ArrowArrayViewSetArray(&view, &batch, NULL), 0);
    for (size_t i = 0; i < CASES; i++) {
        check_case(&cases[i], view.children[i + 1], 0);
        assert_true(ArrowArrayViewIsNull(view.children[i + 1], 1));
    }
    batch.release(&batch);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    assert_null(batch.release);
    ArrowArrayViewReset(&view);
    schema.release(&schema);
    stream.release(&stream);
}

static void values_that_do_not_fit_name_row_and_column(void **state)
{
    struct fixture *fixture = *state;
    CREATE(fixture, "kinds.fit", "id:int8!", "x:float", "h:float16", "t:time32[s]", "v:float[2]",
           "s:utf8", "d:decimal(10,2)", "k:dictionary<int32, utf8>");
    static const double three[] = {1, 2, 3};
    static const double huge[] = {1, 1e300};
    const struct {
        const char *column;
        struct lake_value value;
    } bad[] = {
        {"x", DOUBLE(1e39)},
        {"x", WHOLE(1)},
        {"h", DOUBLE(65520)},
        {"t", WHOLE(86400)},
        {"t", WHOLE(-1)},
        {"v", {.kind = LAKE_VALUE_FLOAT_LIST, .as.floats = {three, 3}}},
        {"v", {.kind = LAKE_VALUE_FLOAT_LIST, .as.floats = {huge, 2}}},
        {"v", {.kind = LAKE_VALUE_FLOAT_LIST, .as.floats = {NULL, 2}}},
        {"s", BLOB("x")},
        {"s", {.kind = LAKE_VALUE_TEXT, .as.text = {NULL, 3}}},
        {"s", STRING("\xff")},
        {"d", STRING("1.50")},
        {"d", WHOLE(1)},
        {"k", STRING("a")},
        {"s", {.kind = (enum lake_value_kind)99}},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++) {
        char sql[128];
        char place[32];
        struct lake_value values[] = {whole(1), {.kind = LAKE_VALUE_NULL}, whole(2), bad[i].value};
        snprintf(sql, sizeof(sql), "INSERT INTO kinds.fit (id, %s) VALUES (?, ?)", bad[i].column);
        snprintf(place, sizeof(place), "row 2, column %s:", bad[i].column);
        FAILS(fixture, LAKE_INVALID_ARGUMENT, place,
              lake_insert_many(fixture->client, sql, values, 2, 2, NULL, &fixture->err));
    }
    assert_int_equal(count_rows(fixture, "kinds.fit"), 0);
}

/* ---- statements and rows ---- */

static void statements_that_do_not_match_their_table_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct lake_value values[] = {whole(1), whole(2), whole(3)};
    CREATE(fixture, "rows.names", "id:int64!", "n:int64");
    lake_client *client = fixture->client;
    struct lake_error *err = &fixture->err;
    FAILS(fixture, LAKE_NOT_FOUND, "rows.missing",
          lake_insert(client, "INSERT INTO rows.missing (id) VALUES (?)", values, 1, NULL, err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "no column nope",
          lake_insert(client, "INSERT INTO rows.names (id, nope) VALUES (?, ?)", values, 2, NULL,
                      err));
    FAILS(
        fixture, LAKE_INVALID_ARGUMENT, "twice",
        lake_insert(client, "INSERT INTO rows.names (id, id) VALUES (?, ?)", values, 2, NULL, err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "column id takes no nulls",
          lake_insert(client, "INSERT INTO rows.names (n) VALUES (?)", values, 1, NULL, err));
    FAILS(
        fixture, LAKE_INVALID_ARGUMENT, "3 values were given",
        lake_insert(client, "INSERT INTO rows.names (id, n) VALUES (?, ?)", values, 3, NULL, err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "INSERT INTO",
          lake_insert(client, "DELETE FROM rows.names", values, 1, NULL, err));
    OK(fixture,
       lake_insert(client, "INSERT INTO rows.names (n, id) VALUES (?, ?)", values, 2, NULL, err));
    assert_int_equal(query_number(fixture, "SELECT n * 10 + id FROM rows.names"), 12);
}

static void one_to_ten_thousand_rows_are_one_version(void **state)
{
    struct fixture *fixture = *state;
    static struct lake_value values[10001];
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    const char *sql = "INSERT INTO rows.many (id) VALUES (?)";
    CREATE(fixture, "rows.many", "id:int64!");
    for (int64_t i = 0; i < 10001; i++)
        values[i] = whole(i);
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not 0",
          lake_insert_many(fixture->client, sql, values, 0, 1, NULL, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not 10001",
          lake_insert_many(fixture->client, sql, values, 10001, 1, NULL, &fixture->err));
    OK(fixture, lake_insert_many(fixture->client, sql, values, 1, 1, &result, &fixture->err));
    assert_int_equal(result.version, 2);
    lake_insert_result_fini(&result);
    OK(fixture, lake_insert_many(fixture->client, sql, values, 10000, 1, &result, &fixture->err));
    assert_int_equal(result.version, 3);
    assert_int_equal(result.row_count, 10000);
    lake_insert_result_fini(&result);
    assert_int_equal(count_rows(fixture, "rows.many"), 10001);
    assert_int_equal(query_number(fixture, "SELECT sum(id)::BIGINT FROM rows.many"), 49995000);
}

/* ---- limits ---- */

static void sixteen_mib_of_given_values_work_and_one_byte_more_does_not(void **state)
{
    struct fixture *fixture = *state;
    static char big[16 * 1024 * 1024 + 1];
    const char *sql = "INSERT INTO limits.given (a, b) VALUES (?, ?)";
    struct lake_value values[2] = {{.kind = LAKE_VALUE_TEXT}, {.kind = LAKE_VALUE_BYTES}};
    CREATE(fixture, "limits.given", "a:utf8", "b:binary");
    memset(big, 'x', sizeof(big));
    values[0].as.text.data = big;
    values[0].as.text.size = 10 * MIB;
    values[1].as.bytes.data = (const uint8_t *)big;
    values[1].as.bytes.size = 6 * MIB + 1;
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "16777216",
          lake_insert(fixture->client, sql, values, 2, NULL, &fixture->err));
    values[1].as.bytes.size = 6 * MIB;
    OK(fixture, lake_insert(fixture->client, sql, values, 2, NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT length(a) + octet_length(b) FROM limits.given"),
                     16 * MIB);
}

/* Nulls are given in no bytes and take some encoded: 4 KiB each here. */
static void sixty_four_mib_encoded_is_the_end_of_an_insert(void **state)
{
    struct fixture *fixture = *state;
    static struct lake_value values[10000];
    CREATE(fixture, "limits.encoded", "v:float[2048]");
    for (size_t i = 0; i < BASE_ARRAY_LEN(values); i++)
        values[i] = (struct lake_value){.kind = LAKE_VALUE_NULL};
    const char *sql = "INSERT INTO limits.encoded (v) VALUES (?)";
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "67108864",
          lake_insert_many(fixture->client, sql, values, 8192, 1, NULL, &fixture->err));
    OK(fixture, lake_insert_many(fixture->client, sql, values, 8180, 1, NULL, &fixture->err));
    assert_int_equal(count_rows(fixture, "limits.encoded"), 8180);
}

static int never_read(void *context, void *buffer, size_t size, size_t *got)
{
    (void)context;
    (void)buffer;
    (void)size;
    (void)got;
    fail_msg("the rows should have been refused before the first upload");
    return EIO;
}

static void too_many_locations_are_refused_before_the_first_upload(void **state)
{
    struct fixture *fixture = *state;
    enum {
        ROWS = 10000,
        COLUMNS = 6
    };
    static struct lake_value values[ROWS * COLUMNS];
    static char media_type[256];
    memset(media_type, 'x', 255);
    media_type[5] = '/';
    CREATE(fixture, "limits.files", "a:FILE", "b:FILE", "c:FILE", "d:FILE", "e:FILE", "f:FILE");
    for (size_t i = 0; i < BASE_ARRAY_LEN(values); i++) {
        values[i].kind = LAKE_VALUE_FILE_SOURCE;
        values[i].as.file_source.source.read = never_read;
        values[i].as.file_source.media_type = media_type;
    }
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "the locations of one insert",
          lake_insert_many(fixture->client,
                           "INSERT INTO limits.files (a, b, c, d, e, f) VALUES (?, ?, ?, ?, ?, ?)",
                           values, ROWS, COLUMNS, NULL, &fixture->err));
    assert_int_equal(count_objects(fixture), 0);
}

/* ---- files ---- */

static struct lake_value file_source(struct memory_source *source, const char *media_type)
{
    struct lake_value value = {.kind = LAKE_VALUE_FILE_SOURCE};
    value.as.file_source.source = (struct lake_source){memory_read, source};
    value.as.file_source.media_type = media_type;
    return value;
}

static void files_come_back_in_the_order_of_rows_and_columns(void **state)
{
    struct fixture *fixture = *state;
    struct memory_source sources[3] = {{(const uint8_t *)"one", 3, 0, 1, 0},
                                       {(const uint8_t *)"two", 3, 0, 0, 0},
                                       {(const uint8_t *)"", 0, 0, 0, 0}};
    char path[512];
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    snprintf(path, sizeof(path), "%s/file.txt", fixture->directory.path);
    FILE *file = fopen(path, "w");
    fputs("four", file);
    fclose(file);
    CREATE(fixture, "files.order", "id:int64!", "a:FILE", "b:FILE");
    struct lake_value by_path = {.kind = LAKE_VALUE_FILE_PATH};
    by_path.as.file_path.path = path;
    struct lake_value values[] = {
        file_source(&sources[0], "text/one"),
        whole(1),
        file_source(&sources[1], NULL),
        {.kind = LAKE_VALUE_NULL},
        whole(2),
        file_source(&sources[2], "text/three"),
        by_path,
        whole(3),
        {.kind = LAKE_VALUE_NULL},
    };
    OK(fixture,
       lake_insert_many(fixture->client, "INSERT INTO files.order (b, id, a) VALUES (?, ?, ?)",
                        values, 3, 3, &result, &fixture->err));
    static const struct {
        const char *media_type;
        int64_t size;
        const char *sha256;
    } expected[] = {
        {"text/one", 3, "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"},
        {"application/octet-stream", 3,
         "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"},
        {"text/three", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"application/octet-stream", 4,
         "04efaf080f5a3e74e1c29d1ca6a48569382cbbcd324e8d59d2b83ef21c039f00"},
    };
    assert_int_equal(result.location_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(result.locations[i].media_type, expected[i].media_type);
        assert_int_equal(result.locations[i].size_bytes, expected[i].size);
        assert_string_equal(result.locations[i].sha256_hex, expected[i].sha256);
    }
    /* A location can be given again, and the rows hold what was returned. */
    struct lake_value again[] = {whole(4), {.kind = LAKE_VALUE_LOCATION}};
    again[1].as.location = &result.locations[0];
    OK(fixture, lake_insert(fixture->client, "INSERT INTO files.order (id, a) VALUES (?, ?)", again,
                            2, NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT sum(coalesce(a.size_bytes, 0) * id)::BIGINT "
                                           "FROM files.order"),
                     3 * 1 + 0 * 2 + 3 * 4);
    assert_int_equal(
        query_number(fixture, "SELECT sum(b.size_bytes * id)::BIGINT FROM files.order"),
        3 * 1 + 4 * 3);
    lake_insert_result_fini(&result);
}

static void a_failed_insert_leaves_no_object(void **state)
{
    struct fixture *fixture = *state;
    int before = count_objects(fixture);
    struct memory_source good = {(const uint8_t *)"good", 4, 0, 0, 0};
    struct memory_source bad = {(const uint8_t *)"bad", 3, 0, 0, EIO};
    const char *sql = "INSERT INTO files.failed (id, a) VALUES (?, ?)";
    CREATE(fixture, "files.failed", "id:int64!", "a:FILE");
    struct lake_value values[] = {whole(1), file_source(&good, NULL), whole(2),
                                  file_source(&bad, NULL)};
    FAILS(fixture, LAKE_UNAVAILABLE, "row 2, column a",
          lake_insert_many(fixture->client, sql, values, 2, 2, NULL, &fixture->err));
    good.used = 0;
    values[3] = file_source(&good, "not a media type");
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "row 2, column a: 'not a media type'",
          lake_insert_many(fixture->client, sql, values, 2, 2, NULL, &fixture->err));
    assert_int_equal(good.used, 0);
    struct lake_value path = {.kind = LAKE_VALUE_FILE_PATH, .as.file_path = {.path = "/no/such"}};
    values[3] = path;
    FAILS(fixture, LAKE_NOT_FOUND, "row 2, column a",
          lake_insert_many(fixture->client, sql, values, 2, 2, NULL, &fixture->err));
    /* The server refuses rows for a table that is gone, of which this client does not know yet:
     * what was uploaded for them goes, too. */
    lake_client *other = NULL;
    OK(fixture, lake_connect(fixture->address, NULL, &other, &fixture->err));
    OK(fixture, lake_drop_table(other, "files.failed", &fixture->err));
    lake_client_unref(other);
    values[1] = values[3] = file_source(&good, NULL);
    good.used = 0;
    FAILS(fixture, LAKE_NOT_FOUND, "files.failed",
          lake_insert_many(fixture->client, sql, values, 2, 2, NULL, &fixture->err));
    assert_int_equal(good.used, 4);
    assert_int_equal(count_objects(fixture), before);
}

static void locations_outside_the_stage_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location = {
        .uri = "file:///etc/passwd",
        .media_type = "text/plain",
        .size_bytes = 1,
        .sha256_hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
    struct lake_value value = {.kind = LAKE_VALUE_LOCATION};
    const char *sql = "INSERT INTO files.outside (a) VALUES (?)";
    CREATE(fixture, "files.outside", "a:FILE");
    value.as.location = &location;
    FAILS(fixture, LAKE_PERMISSION_DENIED, "outside your stage",
          lake_insert(fixture->client, sql, &value, 1, NULL, &fixture->err));
    /* A client without a stage cannot say; the server refuses. */
    lake_client *query_only = NULL;
    OK(fixture, lake_connect_query_only(fixture->address, NULL, &query_only, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "does not lie in the stage",
          lake_insert(query_only, sql, &value, 1, NULL, &fixture->err));
    struct memory_source source = {(const uint8_t *)"x", 1, 0, 0, 0};
    value = file_source(&source, NULL);
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "queries only",
          lake_insert(query_only, sql, &value, 1, NULL, &fixture->err));
    lake_client_unref(query_only);
    location.sha256_hex[0] = 'E';
    value = (struct lake_value){.kind = LAKE_VALUE_LOCATION};
    value.as.location = &location;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "malformed",
          lake_insert(fixture->client, sql, &value, 1, NULL, &fixture->err));
    value.as.location = NULL;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "no location",
          lake_insert(fixture->client, sql, &value, 1, NULL, &fixture->err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_comes_back_exactly),
        cmocka_unit_test(values_that_do_not_fit_name_row_and_column),
        cmocka_unit_test(statements_that_do_not_match_their_table_are_refused),
        cmocka_unit_test(one_to_ten_thousand_rows_are_one_version),
        cmocka_unit_test(sixteen_mib_of_given_values_work_and_one_byte_more_does_not),
        cmocka_unit_test(sixty_four_mib_encoded_is_the_end_of_an_insert),
        cmocka_unit_test(too_many_locations_are_refused_before_the_first_upload),
        cmocka_unit_test(files_come_back_in_the_order_of_rows_and_columns),
        cmocka_unit_test(a_failed_insert_leaves_no_object),
        cmocka_unit_test(locations_outside_the_stage_are_refused),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
