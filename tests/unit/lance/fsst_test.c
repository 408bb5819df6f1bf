/* Strings to FSST's symbols and back, by the decoder that reads other writers' files. */
#include "fsst_encode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t random_state = 88172645463325252ULL;
static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Each gives one string of at most 100 bytes; returns its size. */
static size_t path(char *out)
{
    return (size_t)snprintf(out, 100, "s3://robots/fleet/%d/episode/%d/wrist.mp4",
                            (int)(random_next() % 90), (int)(random_next() % 100000));
}

static size_t noise(char *out)
{
    size_t size = random_next() % 40;
    for (size_t i = 0; i < size; i++)
        out[i] = (char)random_next();
    return size;
}

static size_t short_text(char *out)
{
    static const char *const texts[] = {"",         "a",        "ab",
                                        "\xc3\xa9", "\xff\xff", "aaaaaaaaaaaaaaaaaaaa"};
    const char *text = texts[random_next() % 6];
    memcpy(out, text, strlen(text));
    return strlen(text);
}

static size_t nothing(char *out)
{
    (void)out;
    return 0;
}

/* Encodes `count` strings, decodes each by itself, and returns the encoded bytes a raw byte. */
static double round_trip(size_t (*make)(char *out), size_t count)
{
    struct ArrowSchema schema;
    struct lance_leaf_type type;
    struct lance_leaf_values values, encoded;
    struct lance_fsst_encoder *encoder = NULL;
    struct lance_fsst_table parsed;
    uint8_t table[LANCE_FSST_TABLE_BYTES];
    char text[128];
    assert_int_equal(ArrowSchemaInitFromType(&schema, NANOARROW_TYPE_STRING), NANOARROW_OK);
    assert_int_equal(lance_leaf_type_of(&schema, &type, NULL), LAKE_OK);
    lance_leaf_values_init(&values, &type);
    lance_leaf_values_init(&encoded, &type);
    for (size_t i = 0; i < count; i++) {
        size_t size = make(text);
        assert_int_equal(lance_leaf_values_append_one(&values, (const uint8_t *)text, size, NULL),
                         LAKE_OK);
    }
    assert_int_equal(lance_fsst_encoder_new(&values, &encoder, NULL), LAKE_OK);
    assert_int_equal(lance_fsst_encode(encoder, &values, &encoded, NULL), LAKE_OK);
    lance_fsst_print_table(encoder, table);
    lance_fsst_encoder_free(encoder);
    assert_int_equal(
        lance_fsst_table_parse((struct lake_bytes){table, sizeof(table)}, &parsed, NULL), LAKE_OK);
    assert_int_equal(encoded.count, count);
    for (size_t i = 0; i < count; i++) {
        uint8_t decoded[1024];
        uint64_t start, end, from, to;
        size_t size;
        lance_leaf_values_range(&values, i, &start, &end);
        lance_leaf_values_range(&encoded, i, &from, &to);
        assert_true(to - from <= 2 * (end - start));
        assert_true(lance_fsst_decode(&parsed, encoded.data.data + from, (size_t)(to - from),
                                      decoded, &size));
        assert_int_equal(size, end - start);
        if (size > 0)
            assert_memory_equal(decoded, values.data.data + start, size);
    }
    double ratio = values.data.size == 0 ? 1 : (double)encoded.data.size / (double)values.data.size;
    lance_leaf_values_fini(&values);
    lance_leaf_values_fini(&encoded);
    schema.release(&schema);
    return ratio;
}

static void strings_that_repeat_their_parts_shrink_and_come_back(void **state)
{
    (void)state;
    assert_true(round_trip(path, 5000) < 0.45);
}

static void strings_without_order_come_back_and_at_most_double(void **state)
{
    (void)state;
    (void)round_trip(noise, 5000);
    (void)round_trip(short_text, 5000);
}

static void few_and_empty_strings_come_back(void **state)
{
    (void)state;
    (void)round_trip(nothing, 100);
    for (size_t count = 0; count < 40; count++)
        (void)round_trip(count % 2 == 0 ? path : short_text, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_that_repeat_their_parts_shrink_and_come_back),
        cmocka_unit_test(strings_without_order_come_back_and_at_most_double),
        cmocka_unit_test(few_and_empty_strings_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
