/* Half floats as floats, at any depth. */
#include "memory_source.h"

#include <math.h>

static void leaves_become_floats_and_the_rest_stays(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct lake_error err = {0};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 2), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetType(schema.children[0], NANOARROW_TYPE_INT64), NANOARROW_OK);
    assert_int_equal(
        ArrowSchemaSetTypeFixedSize(schema.children[1], NANOARROW_TYPE_FIXED_SIZE_LIST, 2),
        NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetType(schema.children[1]->children[0], NANOARROW_TYPE_HALF_FLOAT),
                     NANOARROW_OK);
    assert_true(sql_half_in(&schema));
    assert_int_equal(ArrowArrayInitFromSchema(&array, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&array), NANOARROW_OK);
    /* exactly representable values, subnormal, largest, infinite; and a null inside */
    static const double VALUES[] = {1.5, -2.0, 5.9604644775390625e-08, 65504.0, INFINITY, -0.25};
    for (int64_t row = 0; row < 3; row++) {
        assert_int_equal(ArrowArrayAppendInt(array.children[0], row), NANOARROW_OK);
        struct ArrowArray *item = array.children[1]->children[0];
        assert_int_equal(ArrowArrayAppendDouble(item, VALUES[row * 2]), NANOARROW_OK);
        assert_int_equal(row == 2 ? ArrowArrayAppendNull(item, 1)
                                  : ArrowArrayAppendDouble(item, VALUES[row * 2 + 1]),
                         NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(array.children[1]), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&array), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), NANOARROW_OK);

    assert_int_equal(sql_half_widen(&schema, &array, &err), LAKE_OK);
    assert_int_equal(sql_half_widen_schema(&schema, &err), LAKE_OK);
    assert_false(sql_half_in(&schema));
    assert_string_equal(schema.children[1]->children[0]->format, "f");
    struct base_buffer text;
    base_buffer_init(&text, 1 << 16);
    render_batch(&schema, &array, &text);
    char *rows = take_text(&text);
    assert_string_equal(rows, "0|<1.5,-2>\n1|<5.9604644775390625e-08,65504>\n2|<inf,NULL>\n");
    free(rows);
    array.release(&array);
    schema.release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_become_floats_and_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
