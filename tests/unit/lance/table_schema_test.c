/* Field trees and logical types: against the names that pylance 14.0.2 writes. */
#include "table_data.h"

#include <stdlib.h>

struct pair {
    const char *format;
    const char *logical;
};

/* Read off manifests that pylance wrote. */
static const struct pair plain[] = {
    {"n", "null"},
    {"b", "bool"},
    {"c", "int8"},
    {"C", "uint8"},
    {"s", "int16"},
    {"S", "uint16"},
    {"i", "int32"},
    {"I", "uint32"},
    {"l", "int64"},
    {"L", "uint64"},
    {"e", "halffloat"},
    {"f", "float"},
    {"g", "double"},
    {"u", "string"},
    {"U", "large_string"},
    {"z", "binary"},
    {"Z", "large_binary"},
    {"tdD", "date32:day"},
    {"tdm", "date64:ms"},
    {"tts", "time32:s"},
    {"ttm", "time32:ms"},
    {"ttu", "time64:us"},
    {"ttn", "time64:ns"},
    {"tss:", "timestamp:s:-"},
    {"tsu:UTC", "timestamp:us:UTC"},
    {"tsn:+05:30", "timestamp:ns:+05:30"},
    {"tDm", "duration:ms"},
    {"d:38,10", "decimal:128:38:10"},
    {"d:5,-2", "decimal:128:5:-2"},
    {"d:76,3,256", "decimal:256:76:3"},
    {"w:16", "fixed_size_binary:16"},
};

static void every_plain_type_has_its_logical_type_and_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(plain); i++) {
        struct ArrowSchema field;
        struct ArrowSchema back;
        char logical[LANCE_LOGICAL_TYPE_BYTES];
        ArrowSchemaInit(&field);
        ArrowSchemaInit(&back);
        assert_int_equal(ArrowSchemaSetFormat(&field, plain[i].format), NANOARROW_OK);
        assert_int_equal(lance_logical_type_of(&field, logical, NULL), LAKE_OK);
        assert_string_equal(logical, plain[i].logical);
        assert_int_equal(lance_logical_type_apply(logical, &back, NULL), LAKE_OK);
        assert_string_equal(back.format, plain[i].format);
        ArrowSchemaRelease(&field);
        ArrowSchemaRelease(&back);
    }
}

static void types_that_lance_lacks_are_refused(void **state)
{
    (void)state;
    static const char *const formats[] = {"tiM", "tiD", "vu", "vz", "+vl", "d:9,2,32", "d:9,2,64"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(formats); i++) {
        struct ArrowSchema field;
        char logical[LANCE_LOGICAL_TYPE_BYTES];
        ArrowSchemaInit(&field);
        assert_int_equal(ArrowSchemaSetFormat(&field, formats[i]), NANOARROW_OK);
        assert_int_equal(lance_logical_type_of(&field, logical, NULL), LAKE_INVALID_ARGUMENT);
        ArrowSchemaRelease(&field);
    }
    static const char *const logicals[] = {
        "",
        "int128",
        "timestamp:us",
        "timestamp:m:-",
        "decimal:64:5:2",
        "decimal:128:39:0",
        "fixed_size_binary:0",
        "fixed_size_binary:-1",
        "fixed_size_binary:99999999999",
        "fixed_size_list:int32:0",
        "fixed_size_list:int32",
        "fixed_size_list:string:3",
        "fixed_size_list:list:3",
        "dict:string:string:false",
        "dict:list:int8:false",
        "dict:string:int8",
        "time32:us",
        "blob",
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(logicals); i++) {
        struct ArrowSchema field;
        ArrowSchemaInit(&field);
        assert_int_equal(lance_logical_type_apply(logicals[i], &field, NULL), LAKE_UNIMPLEMENTED);
        ArrowSchemaRelease(&field);
    }
}

struct expected_field {
    int32_t id;
    int32_t parent_id;
    const char *name;
    const char *logical;
};

/* struct<x: int32, y: list<struct<z: utf8>>>, double[3], dictionary<int8, utf8>, list<list<int8>>
 * as pylance numbers and names them. */
static void nested_fields_are_numbered_in_pre_order(void **state)
{
    (void)state;
    static const struct expected_field expected[] = {
        {0, -1, "c0", "struct"},
        {1, 0, "x", "int32"},
        {2, 0, "y", "list.struct"},
        {3, 2, "item", "struct"},
        {4, 3, "z", "string"},
        {5, -1, "c1", "fixed_size_list:double:3"},
        {6, -1, "c2", "dict:string:int8:false"},
        {7, -1, "c3", "list"},
        {8, 7, "item", "list"},
        {9, 8, "item", "int8"},
    };
    struct ArrowSchema arrow;
    struct lance_schema schema;
    struct base_arena *arena;
    LancePb__Field **fields;
    size_t count;
    schema_of("struct<x: int32, y: list<struct<z: utf8>>>, double[3], dictionary<int8, utf8>, "
              "list<list<int8>>",
              &arrow);
    assert_int_equal(lance_schema_from_arrow(&arrow, "2.2", &schema, NULL), LAKE_OK);
    assert_int_equal(schema.max_field_id, 9);
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    assert_int_equal(lance_schema_to_fields(&schema, arena, &fields, &count, NULL), LAKE_OK);
    assert_int_equal(count, BASE_ARRAY_LEN(expected));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(fields[i]->id, expected[i].id);
        assert_true(fields[i]->has_parent_id); /* -1 must be explicit */
        assert_int_equal(fields[i]->parent_id, expected[i].parent_id);
        assert_true(base_str_equal_c(lance_pb_str(fields[i]->name), expected[i].name));
        assert_true(base_str_equal_c(lance_pb_str(fields[i]->logical_type), expected[i].logical));
    }
    int32_t leaves[3];
    assert_int_equal(lance_field_leaf_count(&schema.fields[0]), 2);
    lance_field_leaf_ids(&schema.fields[0], leaves);
    assert_int_equal(leaves[0], 1);
    assert_int_equal(leaves[1], 4);
    assert_true(arrow_schema_equal(&arrow, &schema.arrow, NULL, 0));
    base_arena_free(arena);
    lance_schema_fini(&schema);
    ArrowSchemaRelease(&arrow);
}

/* NAT-3: a FILE column is one for every reader, because its extension metadata travels. */
static void a_file_column_keeps_its_extension(void **state)
{
    (void)state;
    struct ArrowSchema arrow;
    struct lance_schema schema;
    schema_of("int64!, FILE", &arrow);
    assert_int_equal(lance_schema_from_arrow(&arrow, "2.2", &schema, NULL), LAKE_OK);
    assert_true(arrow_file_schema_is(schema.arrow.children[1]));
    assert_string_equal(lance_field_metadata(&schema.fields[1], "ARROW:extension:name"),
                        "lake.file");
    assert_null(lance_field_metadata(&schema.fields[1], "no such key"));
    assert_false(schema.fields[0].nullable);
    lance_schema_fini(&schema);
    ArrowSchemaRelease(&arrow);
}

static void set_field(LancePb__Field *field, const char *name, int32_t id, int32_t parent,
                      const char *logical)
{
    lance_pb__field__init(field);
    field->has_name = field->has_id = field->has_parent_id = field->has_logical_type = true;
    field->name = lance_pb_text(name);
    field->id = id;
    field->parent_id = parent;
    field->logical_type = lance_pb_text(logical);
}

static void lists_that_are_no_tree_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t ids[2];
        int32_t parents[2];
        const char *logicals[2];
        lake_status status;
    } cases[] = {
        {{0, 1}, {-1, 0}, {"struct", "int8"}, LAKE_OK},
        {{0, 1}, {-1, 0}, {"map", "int8"}, LAKE_DATA_LOSS},    /* entries that are no struct */
        {{0, 1}, {-1, 0}, {"map", "struct"}, LAKE_DATA_LOSS},  /* no pairs */
        {{0, 0}, {-1, -1}, {"int8", "int8"}, LAKE_DATA_LOSS},  /* same id */
        {{1, 0}, {0, -1}, {"int8", "struct"}, LAKE_DATA_LOSS}, /* parent comes later */
        {{0, 1}, {0, -1}, {"struct", "int8"}, LAKE_DATA_LOSS}, /* its own parent */
        {{0, 1}, {-1, 7}, {"int8", "int8"}, LAKE_DATA_LOSS},   /* no such parent */
        {{0, -5}, {-1, -1}, {"int8", "int8"}, LAKE_DATA_LOSS}, /* negative id */
        {{0, 1}, {-1, 0}, {"int8", "int8"}, LAKE_DATA_LOSS},   /* a leaf with a child */
        {{0, 1}, {-1, -1}, {"list", "int8"}, LAKE_DATA_LOSS},  /* a list without a child */
        {{0, 1}, {-1, -1}, {"rainbow", "int8"}, LAKE_UNIMPLEMENTED},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        LancePb__Field fields[2];
        LancePb__Field *list[] = {&fields[0], &fields[1]};
        struct lance_schema schema;
        for (size_t j = 0; j < 2; j++) {
            set_field(&fields[j], j == 0 ? "a" : "b", cases[i].ids[j], cases[i].parents[j],
                      cases[i].logicals[j]);
        }
        lake_status status = lance_schema_from_fields(list, 2, NULL, 0, &schema, NULL);
        assert_int_equal(status, cases[i].status);
        if (status == LAKE_OK) {
            lance_schema_fini(&schema);
        }
    }
}

static void nesting_has_a_limit(void **state)
{
    (void)state;
    LancePb__Field fields[LANCE_MAX_NESTING + 2];
    LancePb__Field *list[LANCE_MAX_NESTING + 2];
    struct lance_schema schema;
    for (int32_t i = 0; i < LANCE_MAX_NESTING + 2; i++) {
        set_field(&fields[i], "f", i, i - 1, "struct");
        list[i] = &fields[i];
    }
    assert_int_equal(lance_schema_from_fields(list, LANCE_MAX_NESTING, NULL, 0, &schema, NULL),
                     LAKE_OK);
    lance_schema_fini(&schema);
    assert_int_equal(lance_schema_from_fields(list, LANCE_MAX_NESTING + 1, NULL, 0, &schema, NULL),
                     LAKE_UNIMPLEMENTED);
}

static void assert_refused(const char *first, const char *second, const char *types,
                           const char *version)
{
    struct ArrowSchema arrow;
    struct lake_error err = {0};
    schema_of(types, &arrow);
    assert_int_equal(ArrowSchemaSetName(arrow.children[0], first), NANOARROW_OK);
    if (second != NULL) {
        assert_int_equal(ArrowSchemaSetName(arrow.children[1], second), NANOARROW_OK);
    }
    assert_int_equal(lance_schema_check(&arrow, version, &err), LAKE_INVALID_ARGUMENT);
    assert_true(err.message[0] != '\0');
    ArrowSchemaRelease(&arrow);
}

static void names_and_types_that_cannot_be_written_are_refused(void **state)
{
    (void)state;
    assert_refused("same", "same", "int8, int8", "2.2");
    assert_refused("", NULL, "int8", "2.2");
    assert_refused("a.b", NULL, "int8", "2.2");
    assert_refused("bad\xff", NULL, "int8", "2.2");
    assert_refused("a", NULL, "fixed_size_list<struct<x: int8>>[2]", "2.2");
}

/* Every failing allocation is an error, and nothing leaks (seen by the sanitizer). */
static void running_out_of_memory_is_an_error(void **state)
{
    (void)state;
    struct ArrowSchema arrow;
    struct lance_schema schema;
    schema_of("struct<x: int32, y: list<struct<z: utf8>>>, double[3], FILE", &arrow);
    uint64_t nth = 1;
    lake_status status = LAKE_RESOURCE_EXHAUSTED;
    while (status != LAKE_OK) {
        base_fault_fail_nth_alloc(nth++);
        status = lance_schema_from_arrow(&arrow, "2.2", &schema, NULL);
        base_fault_fail_nth_alloc(0);
        assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
    }
    assert_true(nth > 3);
    lance_schema_fini(&schema);
    ArrowSchemaRelease(&arrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plain_type_has_its_logical_type_and_comes_back),
        cmocka_unit_test(types_that_lance_lacks_are_refused),
        cmocka_unit_test(nested_fields_are_numbered_in_pre_order),
        cmocka_unit_test(a_file_column_keeps_its_extension),
        cmocka_unit_test(lists_that_are_no_tree_are_refused),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(names_and_types_that_cannot_be_written_are_refused),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
