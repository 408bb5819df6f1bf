/* Types as people write them (CLI-1), and schemas compared. */
#include "arrow_testing.h"

static void formatted_as(const char *text, const char *expected, const char *arrow_format)
{
    struct ArrowSchema field;
    struct lake_error err = {0};
    struct base_buffer out;
    base_buffer_init(&out, 4096);
    if (arrow_type_parse(base_str_of(text), "column", &field, &err) != LAKE_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    check(arrow_type_format(&field, &out, &err), &err);
    check(base_buffer_append(&out, "", 1, &err), &err);
    assert_string_equal((const char *)out.data, expected);
    assert_string_equal(field.format, arrow_format);
    assert_string_equal(field.name, "column");
    base_buffer_fini(&out);
    ArrowSchemaRelease(&field);
}

/* The formats are those of the Arrow C data interface's specification. */
static void every_type_of_NAT_2_parses_and_prints(void **state)
{
    (void)state;
    formatted_as("int8", "int8", "c");
    formatted_as("uint8", "uint8", "C");
    formatted_as("int16", "int16", "s");
    formatted_as("uint16", "uint16", "S");
    formatted_as("int32", "int32", "i");
    formatted_as("uint32", "uint32", "I");
    formatted_as("int64", "int64", "l");
    formatted_as("uint64", "uint64", "L");
    formatted_as("float16", "halffloat", "e");
    formatted_as("float", "float", "f");
    formatted_as("float32", "float", "f");
    formatted_as(" double ", "double", "g");
    formatted_as("bool", "bool", "b");
    formatted_as("string", "utf8", "u");
    formatted_as("large_utf8", "large_utf8", "U");
    formatted_as("binary", "binary", "z");
    formatted_as("large_binary", "large_binary", "Z");
    formatted_as("fixed_size_binary[16]", "fixed_size_binary[16]", "w:16");
    formatted_as("decimal(10, 2)", "decimal(10,2)", "d:10,2");
    formatted_as("decimal(50,2)", "decimal256(50,2)", "d:50,2,256");
    formatted_as("date32", "date32", "tdD");
    formatted_as("date64", "date64", "tdm");
    formatted_as("time32[s]", "time32[s]", "tts");
    formatted_as("time64[us]", "time64[us]", "ttu");
    formatted_as("timestamp[us]", "timestamp[us]", "tsu:");
    formatted_as("timestamp[ns, UTC]", "timestamp[ns, UTC]", "tsn:UTC");
    formatted_as("duration[ms]", "duration[ms]", "tDm");
    formatted_as("list<int32>", "list<int32>", "+l");
    formatted_as("float[7]", "fixed_size_list<float>[7]", "+w:7");
    formatted_as("fixed_size_list<float>[7]", "fixed_size_list<float>[7]", "+w:7");
    formatted_as("float[3][4]", "fixed_size_list<fixed_size_list<float>[3]>[4]", "+w:4");
    formatted_as("struct<a: utf8, b: struct<c: list<double>>>",
                 "struct<a: utf8, b: struct<c: list<double>>>", "+s");
    formatted_as("map<utf8, int64>", "map<utf8, int64>", "+m");
    formatted_as("json", "json", "u");
    formatted_as("struct<a: list<json>>", "struct<a: list<json>>", "+s");
    formatted_as("dictionary<int16, utf8>", "dictionary<int16, utf8>", "s");
    formatted_as("FILE", "FILE", "+s");
    formatted_as("list<FILE>", "list<FILE>", "+l");
}

static void an_exclamation_mark_means_not_null(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    make_schema(&schema, "a", "int64!", "b", "struct<x: utf8!, y: utf8>", "c", "FILE!", NULL);
    assert_int_equal(schema.children[0]->flags & ARROW_FLAG_NULLABLE, 0);
    assert_int_not_equal(schema.children[1]->flags & ARROW_FLAG_NULLABLE, 0);
    assert_int_equal(schema.children[1]->children[0]->flags & ARROW_FLAG_NULLABLE, 0);
    assert_int_not_equal(schema.children[1]->children[1]->flags & ARROW_FLAG_NULLABLE, 0);
    assert_true(arrow_file_schema_is(schema.children[2]));
    assert_int_equal(schema.children[2]->flags & ARROW_FLAG_NULLABLE, 0);
    ArrowSchemaRelease(&schema);
}

static void refused_at(const char *text, const char *position)
{
    struct ArrowSchema field;
    struct lake_error err = {0};
    assert_int_equal(arrow_type_parse(base_str_of(text), "c", &field, &err), LAKE_INVALID_ARGUMENT);
    if (strstr(err.message, position) == NULL || strstr(err.message, "int8..int64") == NULL) {
        fail_msg("%s: %s", text, err.message);
    }
}

static void a_wrong_type_names_the_position_and_what_is_accepted(void **state)
{
    (void)state;
    refused_at("", "position 1;");
    refused_at("integer", "position 1;");
    refused_at("list<int99>", "position 6;");
    refused_at("list<int32", "position 11;");
    refused_at("int32 x", "position 7;");
    refused_at("float[0]", "position 7;");
    refused_at("float[-1]", "position 7;");
    refused_at("float[99999999999]", "position 7;");
    refused_at("time32[us]", "s or ms");
    refused_at("time64[s]", "us or ns");
    refused_at("timestamp[hours]", "position 11;");
    refused_at("timestamp[us,]", "position 14;");
    refused_at("decimal(77,0)", "precision");
    refused_at("decimal(5,6)", "scale");
    refused_at("dictionary<utf8, utf8>", "integer");
    refused_at("dictionary<int8, dictionary<int8, utf8>>", "not itself a dictionary");
    refused_at("struct<a int32>", "position 10;");
    refused_at("struct<>", "position 8;");
    char deep[600] = "";
    for (int i = 0; i < 100; i++) {
        memcpy(deep + 5 * i, "list<", 6);
    }
    refused_at(deep, "fewer levels");
}

static void schemas_differ_where_they_say(void **state)
{
    (void)state;
    struct ArrowSchema a;
    struct ArrowSchema b;
    char path[64];
    make_schema(&a, "frames", "struct<state: list<float>, n: int64>", "id", "utf8", NULL);
    make_schema(&b, "frames", "struct<state: list<double>, n: int64>", "id", "utf8", NULL);
    assert_true(arrow_schema_equal(&a, &a, path, sizeof(path)));
    assert_string_equal(path, "");
    assert_false(arrow_schema_equal(&a, &b, path, sizeof(path)));
    assert_string_equal(path, "frames.state.item");
    ArrowSchemaRelease(&b);
    make_schema(&b, "frames", "struct<state: list<float>, n: int64>", "id", "utf8!", NULL);
    assert_false(arrow_schema_equal(&a, &b, path, sizeof(path)));
    assert_string_equal(path, "id");
    assert_false(arrow_schema_equal(&a, &b, NULL, 0));
    ArrowSchemaRelease(&a);
    ArrowSchemaRelease(&b);
}

static void set_pairs(struct ArrowSchema *schema, const char *first, const char *second)
{
    struct ArrowBuffer buffer;
    assert_int_equal(ArrowMetadataBuilderInit(&buffer, NULL), 0);
    const char *pairs[] = {first, second};
    for (int i = 0; i < 2; i++) {
        struct ArrowStringView key = {pairs[i], 1};
        assert_int_equal(ArrowMetadataBuilderAppend(&buffer, key, ArrowCharView(pairs[i] + 1)), 0);
    }
    assert_int_equal(ArrowSchemaSetMetadata(schema, (const char *)buffer.data), 0);
    ArrowBufferReset(&buffer);
}

static void metadata_is_compared_as_a_set_of_pairs(void **state)
{
    (void)state;
    struct ArrowSchema a;
    struct ArrowSchema b;
    make_schema(&a, "x", "int8", NULL);
    make_schema(&b, "x", "int8", NULL);
    set_pairs(a.children[0], "aone", "btwo");
    assert_false(arrow_schema_equal(&a, &b, NULL, 0));
    set_pairs(b.children[0], "btwo", "aone");
    assert_true(arrow_schema_equal(&a, &b, NULL, 0));
    set_pairs(b.children[0], "btwo", "aonE");
    assert_false(arrow_schema_equal(&a, &b, NULL, 0));
    ArrowSchemaRelease(&a);
    ArrowSchemaRelease(&b);
}

static void set_extension(struct ArrowSchema *schema, const char *name, const char *parameters)
{
    struct ArrowBuffer buffer;
    assert_int_equal(ArrowMetadataBuilderInit(&buffer, NULL), 0);
    assert_int_equal(ArrowMetadataBuilderAppend(&buffer, ArrowCharView("ARROW:extension:name"),
                                                ArrowCharView(name)),
                     0);
    if (parameters != NULL)
        assert_int_equal(ArrowMetadataBuilderAppend(&buffer,
                                                    ArrowCharView("ARROW:extension:metadata"),
                                                    ArrowCharView(parameters)),
                         0);
    assert_int_equal(ArrowSchemaSetMetadata(schema, (const char *)buffer.data), 0);
    ArrowBufferReset(&buffer);
}

/* pyarrow writes the empty text for an extension type without parameters, others nothing. */
static void empty_extension_metadata_is_none(void **state)
{
    (void)state;
    struct ArrowSchema a;
    struct ArrowSchema b;
    make_schema(&a, "x", "utf8", NULL);
    make_schema(&b, "x", "utf8", NULL);
    set_extension(a.children[0], "arrow.json", "");
    set_extension(b.children[0], "arrow.json", NULL);
    assert_true(arrow_schema_equal(&a, &b, NULL, 0));
    assert_true(arrow_schema_equal(&b, &a, NULL, 0));
    set_extension(a.children[0], "arrow.json", "{}");
    assert_false(arrow_schema_equal(&a, &b, NULL, 0));
    assert_false(arrow_schema_equal(&b, &a, NULL, 0));
    set_extension(b.children[0], "arrow.json", "");
    assert_false(arrow_schema_equal(&a, &b, NULL, 0));
    assert_false(arrow_schema_equal(&b, &a, NULL, 0));
    set_extension(a.children[0], "arrow.uuid", NULL);
    assert_false(arrow_schema_equal(&a, &b, NULL, 0));
    ArrowSchemaRelease(&a);
    ArrowSchemaRelease(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_NAT_2_parses_and_prints),
        cmocka_unit_test(an_exclamation_mark_means_not_null),
        cmocka_unit_test(a_wrong_type_names_the_position_and_what_is_accepted),
        cmocka_unit_test(schemas_differ_where_they_say),
        cmocka_unit_test(metadata_is_compared_as_a_set_of_pairs),
        cmocka_unit_test(empty_extension_metadata_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
