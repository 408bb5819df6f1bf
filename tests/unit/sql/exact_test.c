/* Nanoseconds that the engine would round (Q07): the rest is in tests/interop/test_adbc.py. */
#include "memory_source.h"

static void set_timestamp(struct ArrowSchema *schema, enum ArrowTimeUnit unit, const char *zone)
{
    assert_int_equal(ArrowSchemaSetTypeDateTime(schema, NANOARROW_TYPE_TIMESTAMP, unit, zone),
                     NANOARROW_OK);
}

static void only_zoned_nanoseconds_lose_their_zone(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowSchema exact = {0};
    struct lake_error err = {0};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 4), NANOARROW_OK);
    set_timestamp(schema.children[0], NANOARROW_TIME_UNIT_NANO, "UTC");
    set_timestamp(schema.children[1], NANOARROW_TIME_UNIT_NANO, NULL);
    set_timestamp(schema.children[2], NANOARROW_TIME_UNIT_MICRO, "UTC");
    assert_int_equal(ArrowSchemaSetType(schema.children[3], NANOARROW_TYPE_LIST), NANOARROW_OK);
    set_timestamp(schema.children[3]->children[0], NANOARROW_TIME_UNIT_NANO, "Europe/Paris");

    assert_int_equal(sql_exact_schema(&schema, &exact, &err), LAKE_OK);
    assert_string_equal(exact.children[0]->format, "tsn:");
    assert_string_equal(exact.children[1]->format, "tsn:");
    assert_string_equal(exact.children[2]->format, "tsu:UTC");
    assert_string_equal(exact.children[3]->children[0]->format, "tsn:");
    assert_string_equal(schema.children[0]->format, "tsn:UTC");
    assert_true(sql_is_zoned_ns(schema.children[0]));
    assert_false(sql_is_zoned_ns(exact.children[0]));
    ArrowSchemaRelease(&exact);
    ArrowSchemaRelease(&schema);
}

/* One list of durations in nanoseconds, the last one null. */
static void make_durations(struct ArrowSchema *schema, struct ArrowArray *array, int64_t value)
{
    ArrowSchemaInit(schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(schema, 1), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetType(schema->children[0], NANOARROW_TYPE_LIST), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetName(schema->children[0], "gaps"), NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetTypeDateTime(schema->children[0]->children[0],
                                                NANOARROW_TYPE_DURATION, NANOARROW_TIME_UNIT_NANO,
                                                NULL),
                     NANOARROW_OK);
    assert_int_equal(ArrowArrayInitFromSchema(array, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(array), NANOARROW_OK);
    struct ArrowArray *items = array->children[0]->children[0];
    assert_int_equal(ArrowArrayAppendInt(items, value), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendNull(items, 1), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishElement(array->children[0]), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishElement(array), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishBuildingDefault(array, NULL), NANOARROW_OK);
    ((int64_t *)items->buffers[1])[1] = 1; /* below a null: nobody's value */
}

static void durations_below_a_microsecond_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        lake_status status;
    } CASES[] = {{0, LAKE_OK},
                 {5000, LAKE_OK},
                 {-5000, LAKE_OK},
                 {1, LAKE_OUT_OF_RANGE},
                 {-4999, LAKE_OUT_OF_RANGE},
                 {INT64_MAX, LAKE_OUT_OF_RANGE}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(CASES); i++) {
        struct ArrowSchema schema;
        struct ArrowArray array;
        struct lake_error err = {0};
        make_durations(&schema, &array, CASES[i].value);
        assert_true(sql_exact_needs_check(&schema));
        assert_int_equal(sql_exact_check(&schema, &array, &err), CASES[i].status);
        if (CASES[i].status != LAKE_OK) {
            assert_non_null(strstr(err.message, "gaps"));
        }
        ArrowArrayRelease(&array);
        ArrowSchemaRelease(&schema);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_zoned_nanoseconds_lose_their_zone),
        cmocka_unit_test(durations_below_a_microsecond_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
