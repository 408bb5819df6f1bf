/* arrow_array_validate: arrays from a C data interface that are not what they claim. */
#include "arrow_testing.h"

/* One column over given buffers; nothing is owned. */
struct column {
    struct ArrowSchema schema;
    struct ArrowArray child;
    struct ArrowArray root;
    struct ArrowArray *children[1];
    const void *buffers[4];
    const void *root_buffers[1];
};

static void no_release(struct ArrowArray *array)
{
    array->release = NULL;
}

static void init_column(struct column *column, const char *type, int64_t length, int64_t buffers)
{
    *column = (struct column){0};
    make_schema(&column->schema, "c", type, NULL);
    column->child = (struct ArrowArray){
        .length = length, .n_buffers = buffers, .buffers = column->buffers, .release = no_release};
    column->children[0] = &column->child;
    column->root = (struct ArrowArray){.length = length,
                                       .n_buffers = 1,
                                       .buffers = column->root_buffers,
                                       .n_children = 1,
                                       .children = column->children,
                                       .release = no_release};
}

static lake_status validate(struct column *column)
{
    struct lake_error err = {0};
    lake_status status = arrow_array_validate(&column->schema, &column->root, &err);
    if (status != LAKE_OK && strstr(err.message, "\"c\"") == NULL) {
        fail_msg("the column is not named: %s", err.message);
    }
    return status;
}

static void text_must_be_utf8_where_it_is_not_null(void **state)
{
    (void)state;
    struct column column;
    const int32_t offsets[] = {0, 2, 4, 6};
    const uint8_t second_null = 0x05;
    init_column(&column, "utf8", 3, 3);
    column.buffers[1] = offsets;
    column.buffers[2] = "ab\xc3\xa4"
                        "cd";
    assert_int_equal(validate(&column), LAKE_OK);
    column.buffers[2] = "ab\xff\xff"
                        "cd";
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.buffers[0] = &second_null;
    column.child.null_count = 1;
    assert_int_equal(validate(&column), LAKE_OK);
    /* A character split between two rows. */
    column.buffers[0] = NULL;
    column.child.null_count = 0;
    column.buffers[2] = "a\xc3\xa4"
                        "bcd";
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    ArrowSchemaRelease(&column.schema);
    /* Binary may hold anything. */
    init_column(&column, "binary", 3, 3);
    column.buffers[1] = offsets;
    column.buffers[2] = "\xff\xff\xff\xff\xff\xff";
    assert_int_equal(validate(&column), LAKE_OK);
    ArrowSchemaRelease(&column.schema);
}

static void decimals_have_no_more_digits_than_their_precision(void **state)
{
    (void)state;
    struct column column;
    int64_t values[][2] = {{99, 0}, {-99, -1}, {0, 0}}; /* the lower half first */
    const uint8_t last_null = 0x03;
    init_column(&column, "decimal(2,0)", 3, 2);
    column.buffers[1] = values;
    assert_int_equal(validate(&column), LAKE_OK);
    static const int64_t wrong[][2] = {{100, 0}, {-100, -1}, {0, 1}, {0, INT64_MIN}, {99, -1}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        memcpy(values[2], wrong[i], sizeof(wrong[i]));
        assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    }
    column.buffers[0] = &last_null;
    column.child.null_count = 1;
    assert_int_equal(validate(&column), LAKE_OK);
    ArrowSchemaRelease(&column.schema);
}

static void times_lie_within_a_day(void **state)
{
    (void)state;
    struct column column;
    int32_t seconds[] = {0, 86400};
    init_column(&column, "time32[s]", 2, 2);
    column.buffers[1] = seconds;
    assert_int_equal(validate(&column), LAKE_OK);
    for (int i = 0; i < 2; i++) {
        seconds[1] = i == 0 ? -1 : 86401;
        assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    }
    ArrowSchemaRelease(&column.schema);
    int64_t nanoseconds[] = {86400000000000, 86399999999999};
    init_column(&column, "time64[ns]", 2, 2);
    column.buffers[1] = nanoseconds;
    assert_int_equal(validate(&column), LAKE_OK);
    nanoseconds[0]++;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    ArrowSchemaRelease(&column.schema);
}

static void offsets_must_not_go_backwards(void **state)
{
    (void)state;
    struct column column;
    const int32_t backwards[] = {0, 4, 2, 6};
    const int32_t negative[] = {-1, 2, 4, 6};
    init_column(&column, "utf8", 3, 3);
    column.buffers[2] = "abcdef";
    column.buffers[1] = backwards;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.buffers[1] = negative;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.buffers[1] = NULL;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    /* Only the rows of the slice count. */
    column.buffers[1] = backwards;
    column.child.offset = 2;
    column.child.length = column.root.length = 1;
    assert_int_equal(validate(&column), LAKE_OK);
    ArrowSchemaRelease(&column.schema);
}

static void indices_must_lie_in_the_dictionary(void **state)
{
    (void)state;
    struct column column;
    struct ArrowArray values;
    const void *value_buffers[3] = {NULL, NULL, "ab"};
    const int32_t offsets[] = {0, 1, 2};
    int8_t indices[] = {0, 1, 0};
    const uint8_t last_null = 0x03;
    value_buffers[1] = offsets;
    init_column(&column, "dictionary<int8, utf8>", 3, 2);
    values = (struct ArrowArray){
        .length = 2, .n_buffers = 3, .buffers = value_buffers, .release = no_release};
    column.buffers[1] = indices;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT); /* no dictionary at all */
    column.child.dictionary = &values;
    assert_int_equal(validate(&column), LAKE_OK);
    indices[2] = 2;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    indices[2] = -1;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.buffers[0] = &last_null;
    column.child.null_count = 1;
    assert_int_equal(validate(&column), LAKE_OK);
    ArrowSchemaRelease(&column.schema);
}

static void a_column_that_is_not_null_has_no_null(void **state)
{
    (void)state;
    struct column column;
    const int32_t n[] = {1, 2, 3};
    const uint8_t second_null = 0x05;
    init_column(&column, "int32!", 3, 2);
    column.buffers[1] = n;
    assert_int_equal(validate(&column), LAKE_OK);
    column.buffers[0] = &second_null;
    column.child.null_count = -1;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    ArrowSchemaRelease(&column.schema);
    init_column(&column, "int32", 3, 2);
    column.buffers[0] = &second_null;
    column.buffers[1] = n;
    column.child.null_count = -1;
    assert_int_equal(validate(&column), LAKE_OK);
    ArrowSchemaRelease(&column.schema);
}

static void shapes_and_lengths_must_be_possible(void **state)
{
    (void)state;
    struct column column;
    const int32_t n[] = {1, 2, 3};
    init_column(&column, "int32", 3, 2);
    column.buffers[1] = n;
    assert_int_equal(validate(&column), LAKE_OK);
    column.child.length = 2; /* shorter than the batch */
    struct lake_error err = {0};
    assert_int_equal(arrow_array_validate(&column.schema, &column.root, &err),
                     LAKE_INVALID_ARGUMENT);
    column.child.length = 3;
    column.child.n_buffers = 1;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.child.n_buffers = 2;
    column.child.offset = -1;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.child.offset = INT64_MAX;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.child.offset = 0;
    column.child.null_count = 4;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.child.null_count = 1; /* without a bitmap */
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    column.child.null_count = 0;
    column.child.n_children = 1;
    column.child.children = column.children;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    ArrowSchemaRelease(&column.schema);
}

static void a_vector_needs_all_its_items(void **state)
{
    (void)state;
    struct column column;
    struct ArrowArray items;
    struct ArrowArray *children[1] = {&items};
    const float values[] = {1, 2, 3, 4, 5, 6};
    const void *item_buffers[2] = {NULL, values};
    init_column(&column, "float[3]", 2, 1);
    items = (struct ArrowArray){
        .length = 6, .n_buffers = 2, .buffers = item_buffers, .release = no_release};
    column.child.n_children = 1;
    column.child.children = children;
    assert_int_equal(validate(&column), LAKE_OK);
    items.length = 5;
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    items.length = 6;
    column.child.offset = 1; /* row 2 would be items 6..8 */
    assert_int_equal(validate(&column), LAKE_INVALID_ARGUMENT);
    ArrowSchemaRelease(&column.schema);
}

static void a_schema_without_end_is_refused(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct ArrowSchema schemas[100];
    struct ArrowSchema *schema_children[100];
    struct ArrowArray arrays[100];
    struct ArrowArray *array_children[100];
    const void *buffers[1] = {NULL};
    for (int i = 0; i < 100; i++) {
        schema_children[i] = &schemas[i + 1 < 100 ? i + 1 : 99];
        array_children[i] = &arrays[i + 1 < 100 ? i + 1 : 99];
        schemas[i] = (struct ArrowSchema){
            .format = "+s", .name = "s", .n_children = 1, .children = &schema_children[i]};
        arrays[i] = (struct ArrowArray){.length = 1,
                                        .n_buffers = 1,
                                        .buffers = buffers,
                                        .n_children = 1,
                                        .children = &array_children[i]};
        schemas[i].release = (void (*)(struct ArrowSchema *))1; /* never called */
    }
    assert_int_equal(arrow_array_validate(&schemas[0], &arrays[0], &err), LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "64"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_must_be_utf8_where_it_is_not_null),
        cmocka_unit_test(decimals_have_no_more_digits_than_their_precision),
        cmocka_unit_test(times_lie_within_a_day),
        cmocka_unit_test(offsets_must_not_go_backwards),
        cmocka_unit_test(indices_must_lie_in_the_dictionary),
        cmocka_unit_test(a_column_that_is_not_null_has_no_null),
        cmocka_unit_test(shapes_and_lengths_must_be_possible),
        cmocka_unit_test(a_vector_needs_all_its_items),
        cmocka_unit_test(a_schema_without_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
