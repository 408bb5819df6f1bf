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
    static const uint16_t BITS[] = {0x3e00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0};
    for (int64_t row = 0; row < 3; row++) {
        assert_int_equal(ArrowArrayAppendInt(array.children[0], row), NANOARROW_OK);
        struct ArrowArray *item = array.children[1]->children[0];
        for (int64_t i = 0; i < 2; i++) {
            bool null = row == 2 && i == 1;
            assert_int_equal(null ? ArrowArrayAppendNull(item, 1) : ArrowArrayAppendInt(item, 0),
                             NANOARROW_OK);
        }
        assert_int_equal(ArrowArrayFinishElement(array.children[1]), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&array), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), NANOARROW_OK);

    uint16_t *items = (uint16_t *)array.children[1]->children[0]->buffers[1];
    memcpy(items, BITS, sizeof(BITS));

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

/* Bits from IEEE 754-2008's binary16: largest, smallest normal and subnormal, ties to even. */
static void floats_are_rounded_to_the_nearest_half(void **state)
{
    (void)state;
    static const struct {
        float value;
        uint16_t bits;
    } CASES[] = {
        {0.0f, 0x0000},
        {-0.0f, 0x8000},
        {1.0f, 0x3c00},
        {-1.5f, 0xbe00},
        {65504.0f, 0x7bff},
        {65519.996f, 0x7bff},
        {65520.0f, 0x7c00},
        {1e10f, 0x7c00},
        {-INFINITY, 0xfc00},
        {NAN, 0x7e00},
        {0x1p-14f, 0x0400},
        {0x1p-24f, 0x0001},
        {0x1p-25f, 0x0000},
        {0x1.8p-24f, 0x0002},
        {1.00048828125f, 0x3c00},
        {1.00146484375f, 0x3c02},
        {0.333251953125f, 0x3555},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(CASES); i++) {
        assert_int_equal(sql_half_of(CASES[i].value), CASES[i].bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_rounded_to_the_nearest_half),
        cmocka_unit_test(leaves_become_floats_and_the_rest_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
