/* Files through the engine, for `lake import`. The files are written by a plain DuckDB. */
#include "memory_source.h"

#include <errno.h>
#include <sys/stat.h>

static char directory[64];
static struct plain_engine plain;

static int setup(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof(directory), "/tmp/lake_files_XXXXXX");
    assert_non_null(mkdtemp(directory));
    plain_open(&plain);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    plain_close(&plain);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command) == 0 ? 0 : -1;
}

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static const char *copy_to(const char *sql, const char *name, const char *options)
{
    char statement[4096];
    const char *path = path_of(name);
    (void)snprintf(statement, sizeof(statement), "COPY (%s) TO '%s' (%s)", sql, path, options);
    plain_run(&plain, statement);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

struct column {
    const char *name;
    const char *format;
};

static void make_target(struct ArrowSchema *out, const struct column *columns, size_t count)
{
    ArrowSchemaInit(out);
    assert_int_equal(ArrowSchemaSetTypeStruct(out, (int64_t)count), NANOARROW_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ArrowSchemaSetName(out->children[i], columns[i].name), NANOARROW_OK);
        assert_int_equal(ArrowSchemaSetFormat(out->children[i], columns[i].format), NANOARROW_OK);
    }
}

/* Everything of the stream as text; on a failure the message as it came. */
static lake_status read_file(const char *path, enum sql_file_format format,
                             const struct ArrowSchema *target, char **text, struct lake_error *err)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct base_buffer rows;
    memset(err, 0, sizeof(*err));
    lake_status status = sql_file_open(path, format, target, &stream, err);
    if (status != LAKE_OK) {
        return status;
    }
    base_buffer_init(&rows, 64 << 20);
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    if (target != NULL) {
        assert_true(arrow_schema_equal(&schema, target, NULL, 0));
    }
    for (;;) {
        struct ArrowArray batch = {0};
        if (stream.get_next(&stream, &batch) != 0) {
            (void)snprintf(err->message, sizeof(err->message), "%s",
                           stream.get_last_error(&stream));
            status = LAKE_UNKNOWN;
            break;
        }
        if (batch.release == NULL) {
            break;
        }
        render_batch(&schema, &batch, &rows);
        batch.release(&batch);
    }
    schema.release(&schema);
    stream.release(&stream);
    if (status == LAKE_OK) {
        *text = take_text(&rows);
    } else {
        base_buffer_fini(&rows);
    }
    return status;
}

static void expect_file(const char *path, enum sql_file_format format,
                        const struct ArrowSchema *target, const char *expected)
{
    struct lake_error err;
    char *text = NULL;
    if (read_file(path, format, target, &text, &err) != LAKE_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    assert_string_equal(text, expected);
    free(text);
}

static void parquet_comes_as_it_is(void **state)
{
    (void)state;
    const char *sql = "SELECT i, 's' || i AS s, [i, i] AS l, i * 1.5 AS d FROM range(5000) r(i)";
    const char *path = copy_to(sql, "a.parquet", "FORMAT parquet");
    char *expected = plain_text(&plain, sql);
    expect_file(path, SQL_FILE_PARQUET, NULL, expected);
    free(expected);
}

static void csv_and_json_guess_without_a_target(void **state)
{
    (void)state;
    expect_file(write_text("a.csv", "id,name\n1,one\n2,\n"), SQL_FILE_CSV, NULL, "1|one\n2|NULL\n");
    expect_file(write_text("a.json", "[{\"id\": 1, \"v\": [1, 2]}, {\"id\": 2}]"), SQL_FILE_JSON,
                NULL, "1|[1;2;]\n2|NULL\n");
    expect_file(write_text("b.json", "{\"id\": 1}\n{\"id\": 2}\n"), SQL_FILE_JSON, NULL, "1\n2\n");
}

static void csv_with_a_target_is_cast_not_guessed(void **state)
{
    (void)state;
    static const struct column COLUMNS[] = {{"code", "u"},     {"n", "i"},     {"x", "f"},
                                            {"day", "tdD"},    {"ts", "tsu:"}, {"ok", "b"},
                                            {"price", "d:9,2"}};
    struct ArrowSchema target;
    make_target(&target, COLUMNS, BASE_ARRAY_LEN(COLUMNS));
    /* the file's order is another one */
    const char *path = write_text("t.csv", "n,code,x,ok,day,price,ts\n"
                                           "1,007,0.5,true,1969-12-31,1.25,1970-01-01 00:00:01\n"
                                           "2,0.10,,false,,,\n");
    expect_file(path, SQL_FILE_CSV, &target,
                "007|1|0.5|-1|1000000|1|125\n0.10|2|NULL|NULL|NULL|0|NULL\n");
    /* everything in quotes: an empty text is one, an empty number is none */
    path = write_text("q.csv", "\"n\",\"code\",\"x\"\n\"1\",\"\",\"\"\n\"\",,\"2.5\"\n");
    expect_file(path, SQL_FILE_CSV, &target,
                "|1|NULL|NULL|NULL|NULL|NULL\nNULL|NULL|2.5|NULL|NULL|NULL|NULL\n");
    target.release(&target);
}

static void columns_that_do_not_match_are_named(void **state)
{
    (void)state;
    static const struct column COLUMNS[] = {{"a", "l"}, {"b", "l"}};
    struct ArrowSchema target;
    struct lake_error err;
    char *text;
    make_target(&target, COLUMNS, 2);
    expect_file(write_text("m.csv", "a\n1\n"), SQL_FILE_CSV, &target, "1|NULL\n");
    target.children[1]->flags = 0;
    assert_int_equal(read_file(write_text("m.csv", "a\n1\n"), SQL_FILE_CSV, &target, &text, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_string_equal(err.message, "column b is missing from the file and takes no nulls");
    target.children[1]->flags = ARROW_FLAG_NULLABLE;
    assert_int_equal(
        read_file(write_text("e.csv", "a,b,c\n1,2,3\n"), SQL_FILE_CSV, &target, &text, &err),
        LAKE_INVALID_ARGUMENT);
    assert_string_equal(err.message, "the file's column c is not a column of the table");
    const char *path = copy_to("SELECT 1 AS a, [1] AS b", "l.parquet", "FORMAT parquet");
    assert_int_equal(read_file(path, SQL_FILE_PARQUET, &target, &text, &err), LAKE_UNKNOWN);
    assert_non_null(strstr(err.message, "column b: "));
    assert_int_equal(
        read_file(write_text("v.csv", "a,b\n1,2\n1,x\n"), SQL_FILE_CSV, &target, &text, &err),
        LAKE_UNKNOWN);
    assert_non_null(strstr(err.message, "column b: "));
    assert_non_null(strstr(err.message, "'x'"));
    target.release(&target);
}

static void a_path_is_one_file_and_nothing_else(void **state)
{
    (void)state;
    struct lake_error err;
    char *text;
    assert_int_equal(read_file(path_of("none.csv"), SQL_FILE_CSV, NULL, &text, &err),
                     LAKE_NOT_FOUND);
    assert_non_null(strstr(err.message, "none.csv"));
    assert_int_equal(read_file(directory, SQL_FILE_CSV, NULL, &text, &err), LAKE_INVALID_ARGUMENT);
    expect_file(write_text("it's [a] * file?.csv", "a\n1\n"), SQL_FILE_CSV, NULL, "1\n");
    assert_int_equal(mkdir(path_of("year=2020"), 0700), 0);
    expect_file(write_text("year=2020/x.csv", "a\n1\n"), SQL_FILE_CSV, NULL, "1\n");
    assert_int_not_equal(
        read_file(write_text("not.parquet", "text"), SQL_FILE_PARQUET, NULL, &text, &err), LAKE_OK);
}

static void types_that_the_engine_lacks_are_made(void **state)
{
    (void)state;
    static const struct column COLUMNS[] = {
        {"large", "U"},         {"bin", "Z"},
        {"fixed", "w:3"},       {"half", "e"},
        {"date64", "tdm"},      {"secs", "tts"},
        {"millis", "ttm"},      {"zone_s", "tss:UTC"},
        {"zone_ns", "tsn:UTC"}, {"zone_us", "tsu:Europe/Berlin"}};
    struct ArrowSchema target;
    make_target(&target, COLUMNS, BASE_ARRAY_LEN(COLUMNS));
    const char *path = copy_to(
        "SELECT 'text' AS large, encode('abc') AS bin, encode('xyz') AS fixed, 1.5::FLOAT AS half, "
        "DATE '1969-12-31' AS date64, TIME '00:01:00' AS secs, TIME '00:00:01.5' AS millis, "
        "TIMESTAMPTZ '1969-12-31 23:59:58+00' AS zone_s, TIMESTAMPTZ '1970-01-01 00:00:01+00' AS "
        "zone_ns, TIMESTAMPTZ '1970-01-01 01:00:01+01' AS zone_us UNION ALL SELECT NULL, NULL, "
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        "r.parquet", "FORMAT parquet");
    struct lake_error err;
    char *text = NULL;
    if (read_file(path, SQL_FILE_PARQUET, &target, &text, &err) != LAKE_OK) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(text, "text|abc|xyz|1.5|-86400000|60|1500|-2|1000000000|1000000\n"
                              "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL\n");
    free(text);
    target.release(&target);

    static const struct column SHORT[] = {{"fixed", "w:2"}};
    make_target(&target, SHORT, 1);
    path = copy_to("SELECT encode('xyz') AS fixed", "w.parquet", "FORMAT parquet");
    assert_int_equal(read_file(path, SQL_FILE_PARQUET, &target, &text, &err), LAKE_UNKNOWN);
    assert_non_null(strstr(err.message, "column fixed"));
    target.release(&target);

    static const struct column DURATION[] = {{"d", "tDm"}};
    make_target(&target, DURATION, 1);
    path = copy_to("SELECT INTERVAL 1 SECOND AS d UNION ALL SELECT INTERVAL '2 days'", "d.parquet",
                   "FORMAT parquet");
    assert_int_equal(read_file(path, SQL_FILE_PARQUET, &target, &text, &err), LAKE_OK);
    assert_string_equal(text, "1000\n172800000\n");
    free(text);
    path = copy_to("SELECT INTERVAL 1 MONTH AS d", "d.parquet", "FORMAT parquet");
    assert_int_equal(read_file(path, SQL_FILE_PARQUET, &target, &text, &err), LAKE_UNKNOWN);
    assert_non_null(strstr(err.message, "column d"));
    target.release(&target);
}

static void file_columns_are_cast_with_their_mark(void **state)
{
    (void)state;
    struct ArrowSchema target;
    struct lake_error err = {0};
    ArrowSchemaInit(&target);
    assert_int_equal(ArrowSchemaSetTypeStruct(&target, 1), NANOARROW_OK);
    target.children[0]->release(target.children[0]);
    assert_int_equal(arrow_file_schema_init(target.children[0], "video", true, &err), LAKE_OK);
    const char *path = write_text(
        "f.json", "{\"video\": {\"uri\": \"u\", \"media_type\": \"video/mp4\", \"size_bytes\": 5, "
                  "\"sha256\": \"ab\"}}\n{\"video\": null}\n");
    expect_file(path, SQL_FILE_JSON, &target, "{u,video/mp4,5,ab}\nNULL\n");
    target.release(&target);
}

static void a_large_file_streams(void **state)
{
    (void)state;
    const char *path = copy_to("SELECT i, 'some text ' || i AS s FROM range(3000000) r(i)",
                               "big.parquet", "FORMAT parquet");
    struct ArrowArrayStream stream;
    struct lake_error err = {0};
    assert_int_equal(sql_file_open(path, SQL_FILE_PARQUET, NULL, &stream, &err), LAKE_OK);
    int64_t rows = 0;
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        if (batch.release == NULL) {
            break;
        }
        assert_int_equal(((const int64_t *)batch.children[0]->buffers[1])[0], rows);
        assert_true(batch.length <= 65536);
        rows += batch.length;
        batch.release(&batch);
    }
    assert_int_equal(rows, 3000000);
    stream.release(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parquet_comes_as_it_is),
        cmocka_unit_test(csv_and_json_guess_without_a_target),
        cmocka_unit_test(csv_with_a_target_is_cast_not_guessed),
        cmocka_unit_test(columns_that_do_not_match_are_named),
        cmocka_unit_test(a_path_is_one_file_and_nothing_else),
        cmocka_unit_test(types_that_the_engine_lacks_are_made),
        cmocka_unit_test(file_columns_are_cast_with_their_mark),
        cmocka_unit_test(a_large_file_streams),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
