/* The FILE logical type (NAT-3). */
#include "arrow_testing.h"

#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static struct arrow_file_value example(void)
{
    return (struct arrow_file_value){
        .uri = LAKE_STR("file:///videos/1.mp4"),
        .media_type = LAKE_STR("video/mp4"),
        .size_bytes = 1234,
        .sha256_hex = LAKE_STR(DIGEST),
    };
}

static void start_column(struct ArrowSchema *schema, struct ArrowArray *column)
{
    struct lake_error err = {0};
    check(arrow_file_schema_init(schema, "video", true, &err), &err);
    assert_int_equal(ArrowArrayInitFromSchema(column, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(column), 0);
}

static void a_value_comes_back_as_it_was_appended(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray column;
    struct lake_error err = {0};
    struct arrow_file_value value = example();
    struct arrow_file_value got;
    start_column(&schema, &column);
    check(arrow_file_value_append(&column, &value, &err), &err);
    check(arrow_file_value_append(&column, NULL, &err), &err);
    value.size_bytes = 0;
    value.media_type = LAKE_STR("");
    check(arrow_file_value_append(&column, &value, &err), &err);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&column, NULL), 0);
    check(arrow_array_validate(&schema, &column, &err), &err);
    check(arrow_file_value_get(&schema, &column, 0, &got, &err), &err);
    assert_true(base_str_equal_c(got.uri, "file:///videos/1.mp4"));
    assert_true(base_str_equal_c(got.media_type, "video/mp4"));
    assert_true(base_str_equal_c(got.sha256_hex, DIGEST));
    assert_int_equal(got.size_bytes, 1234);
    assert_int_equal(arrow_file_value_get(&schema, &column, 1, &got, &err), LAKE_NOT_FOUND);
    check(arrow_file_value_get(&schema, &column, 2, &got, &err), &err);
    assert_int_equal(got.size_bytes, 0);
    assert_int_equal(got.media_type.size, 0);
    assert_int_equal(arrow_file_value_get(&schema, &column, 3, &got, &err), LAKE_OUT_OF_RANGE);
    assert_int_equal(arrow_file_value_get(&schema, &column, -1, &got, &err), LAKE_OUT_OF_RANGE);
    ArrowArrayRelease(&column);
    ArrowSchemaRelease(&schema);
}

static void a_value_is_found_in_a_slice(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray column;
    struct lake_error err = {0};
    struct arrow_file_value got;
    start_column(&schema, &column);
    for (int64_t i = 0; i < 20; i++) {
        struct arrow_file_value value = example();
        value.size_bytes = i;
        check(arrow_file_value_append(&column, i % 3 == 0 ? NULL : &value, &err), &err);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&column, NULL), 0);
    column.offset = 5;
    column.length = 15;
    check(arrow_file_value_get(&schema, &column, 6, &got, &err), &err);
    assert_int_equal(got.size_bytes, 11);
    assert_int_equal(arrow_file_value_get(&schema, &column, 4, &got, &err), LAKE_NOT_FOUND);
    ArrowArrayRelease(&column);
    ArrowSchemaRelease(&schema);
}

static void bad_values_are_refused_on_the_way_in(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray column;
    struct lake_error err = {0};
    start_column(&schema, &column);
    struct arrow_file_value value = example();
    value.size_bytes = -1;
    assert_int_equal(arrow_file_value_append(&column, &value, &err), LAKE_INVALID_ARGUMENT);
    value = example();
    value.sha256_hex = LAKE_STR("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD");
    assert_int_equal(arrow_file_value_append(&column, &value, &err), LAKE_INVALID_ARGUMENT);
    assert_int_equal(column.length, 0);
    ArrowArrayRelease(&column);
    ArrowSchemaRelease(&schema);
}

/* One row whose child `null_child` is null, or whose digest or size are wrong. */
static lake_status read_damaged(int null_child, const char *digest, int64_t size)
{
    struct ArrowSchema schema;
    struct ArrowArray column;
    struct lake_error err = {0};
    struct arrow_file_value got;
    const char *texts[] = {"uri", "type", NULL, digest};
    start_column(&schema, &column);
    for (int i = 0; i < 4; i++) {
        if (i == null_child) {
            assert_int_equal(ArrowArrayAppendNull(column.children[i], 1), 0);
        } else if (i == 2) {
            assert_int_equal(ArrowArrayAppendInt(column.children[i], size), 0);
        } else {
            assert_int_equal(ArrowArrayAppendString(column.children[i], ArrowCharView(texts[i])),
                             0);
        }
    }
    assert_int_equal(ArrowArrayFinishElement(&column), 0);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&column, NULL), 0);
    lake_status status = arrow_file_value_get(&schema, &column, 0, &got, &err);
    ArrowArrayRelease(&column);
    ArrowSchemaRelease(&schema);
    return status;
}

static void damaged_values_are_data_loss(void **state)
{
    (void)state;
    assert_int_equal(read_damaged(-1, DIGEST, 5), LAKE_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(read_damaged(i, DIGEST, 5), LAKE_DATA_LOSS);
    }
    assert_int_equal(read_damaged(-1, "abc", 5), LAKE_DATA_LOSS);
    assert_int_equal(read_damaged(-1, DIGEST, -5), LAKE_DATA_LOSS);
}

static void only_the_exact_shape_is_a_file_column(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    check(arrow_file_schema_init(&schema, "f", false, &err), &err);
    assert_true(arrow_file_schema_is(&schema));
    assert_int_equal(schema.flags & ARROW_FLAG_NULLABLE, 0);
    struct ArrowStringView version = {NULL, 0};
    assert_int_equal(
        ArrowMetadataGetValue(schema.metadata, ArrowCharView("ARROW:extension:metadata"), &version),
        0);
    assert_true(base_str_equal_c((struct lake_str){version.data, (size_t)version.size_bytes},
                                 "{\"version\":1}"));
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "mime"), 0);
    assert_false(arrow_file_schema_is(&schema));
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "media_type"), 0);
    assert_true(arrow_file_schema_is(&schema));
    assert_int_equal(ArrowSchemaSetFormat(schema.children[2], "i"), 0);
    assert_false(arrow_file_schema_is(&schema));
    assert_int_equal(ArrowSchemaSetFormat(schema.children[2], "l"), 0);
    assert_int_equal(ArrowSchemaSetMetadata(&schema, NULL), 0);
    assert_false(arrow_file_schema_is(&schema));
    ArrowSchemaRelease(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_comes_back_as_it_was_appended),
        cmocka_unit_test(a_value_is_found_in_a_slice),
        cmocka_unit_test(bad_values_are_refused_on_the_way_in),
        cmocka_unit_test(damaged_values_are_data_loss),
        cmocka_unit_test(only_the_exact_shape_is_a_file_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
