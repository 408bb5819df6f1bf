/* Filters, every operation on every type with nulls, against a plain loop over the values. */
#include "table_fixture.h"

#include <math.h>
#include <stdlib.h>

#define ROWS 331
#define SKIP 5 /* leading rows that the array's offset hides */

enum family {
    INTEGERS,
    UNSIGNED,
    FLOATS,
    TEXTS
};

struct type_case {
    const char *format;
    enum family family;
    int64_t low; /* values lie in [low, low + span) */
    uint64_t span;
};

static const struct type_case type_cases[] = {
    {"b", UNSIGNED, 0, 2},
    {"c", INTEGERS, -128, 256},
    {"C", UNSIGNED, 0, 256},
    {"s", INTEGERS, -40, 80},
    {"S", UNSIGNED, 65500, 36},
    {"i", INTEGERS, -9, 19},
    {"I", UNSIGNED, 4294967290, 6},
    {"l", INTEGERS, INT64_MIN, 12},
    {"l", INTEGERS, -3, 7},
    {"L", UNSIGNED, 0, 30},
    {"f", FLOATS, -5, 11},
    {"g", FLOATS, -5, 11},
    {"tdD", INTEGERS, -3, 9},
    {"tdm", INTEGERS, -3, 9},
    {"tts", INTEGERS, 0, 9},
    {"ttu", INTEGERS, 0, 9},
    {"tsu:", INTEGERS, -9, 30},
    {"tsn:Europe/Zurich", INTEGERS, -9, 30},
    {"tDm", INTEGERS, -9, 30},
    {"d:38,3", INTEGERS, -50, 100},
    {"u", TEXTS, 0, 40},
    {"z", TEXTS, 0, 40},
    {"U", TEXTS, 0, 40},
    {"Z", TEXTS, 0, 40},
    {"w:2", TEXTS, 0, 40},
};

static const enum lance_filter_op all_ops[] = {LANCE_EQ, LANCE_LT,      LANCE_LE,
                                               LANCE_GT, LANCE_GE,      LANCE_NE,
                                               LANCE_IN, LANCE_IS_NULL, LANCE_IS_NOT_NULL};

struct sample { /* one value in the forms that the oracle compares */
    bool null;
    int64_t i64;
    double f64;
    char text[8];
    size_t text_bytes;
};

static struct sample make_sample(const struct type_case *type, uint64_t number)
{
    struct sample sample = {.null = false};
    sample.i64 = (int64_t)((uint64_t)type->low + number % type->span);
    sample.f64 = (double)sample.i64 / 2;
    if (type->family == FLOATS && number % 13 == 0) {
        sample.f64 = (double)NAN;
    }
    if (type->family == FLOATS && number % 17 == 0) {
        sample.f64 = -0.0;
    }
    if (strcmp(type->format, "w:2") == 0) {
        (void)snprintf(sample.text, sizeof(sample.text), "%c%c", (char)('a' + number % 5),
                       (char)(0xc0 + number % 3));
        sample.text_bytes = 2;
    } else { /* lengths 0 to 4, with a byte above 127: unsigned order is what counts */
        static const char *const texts[] = {"",         "a",  "ab",   "abc", "b",
                                            "\xc3\xa9", "zz", "abcd", "B"};
        const char *text = texts[number % BASE_ARRAY_LEN(texts)];
        sample.text_bytes = strlen(text);
        memcpy(sample.text, text, sample.text_bytes);
    }
    return sample;
}

static void append_sample(struct ArrowArray *array, const struct type_case *type,
                          const struct sample *sample)
{
    struct ArrowBufferView bytes = {{.data = sample->text}, (int64_t)sample->text_bytes};
    struct ArrowDecimal decimal;
    if (sample->null) {
        assert_int_equal(ArrowArrayAppendNull(array, 1), NANOARROW_OK);
    } else if (type->format[0] == 'd') {
        ArrowDecimalInit(&decimal, 128, 38, 3);
        ArrowDecimalSetInt(&decimal, sample->i64);
        assert_int_equal(ArrowArrayAppendDecimal(array, &decimal), NANOARROW_OK);
    } else if (type->family == FLOATS) {
        assert_int_equal(ArrowArrayAppendDouble(array, sample->f64), NANOARROW_OK);
    } else if (type->family == TEXTS) {
        assert_int_equal(ArrowArrayAppendBytes(array, bytes), NANOARROW_OK);
    } else if (type->family == UNSIGNED) {
        assert_int_equal(ArrowArrayAppendUInt(array, (uint64_t)sample->i64), NANOARROW_OK);
    } else {
        assert_int_equal(ArrowArrayAppendInt(array, sample->i64), NANOARROW_OK);
    }
}

static struct lance_value value_of(const struct type_case *type, const struct sample *sample)
{
    struct lance_value value = {.kind = LANCE_VALUE_INT64, .i64 = sample->i64};
    if (type->family == FLOATS) {
        value = (struct lance_value){.kind = LANCE_VALUE_DOUBLE, .f64 = sample->f64};
    } else if (type->family == TEXTS) {
        value.kind = LANCE_VALUE_BYTES;
        value.bytes = (struct lake_bytes){(const uint8_t *)sample->text, sample->text_bytes};
    } else if (type->family == UNSIGNED) {
        value = (struct lance_value){.kind = LANCE_VALUE_UINT64, .u64 = (uint64_t)sample->i64};
    }
    return value;
}

/* -1, 0, 1 in the documented order: NaN is the greatest and equal to itself. */
static int compare(const struct type_case *type, const struct sample *a, const struct sample *b)
{
    if (type->family == FLOATS) {
        if (isnan(a->f64) || isnan(b->f64)) {
            return isnan(a->f64) - isnan(b->f64);
        }
        return (a->f64 > b->f64) - (a->f64 < b->f64);
    }
    if (type->family == TEXTS) {
        for (size_t i = 0; i < a->text_bytes && i < b->text_bytes; i++) {
            int left = (unsigned char)a->text[i];
            int right = (unsigned char)b->text[i];
            if (left != right) {
                return left < right ? -1 : 1;
            }
        }
        return (a->text_bytes > b->text_bytes) - (a->text_bytes < b->text_bytes);
    }
    return (a->i64 > b->i64) - (a->i64 < b->i64);
}

static bool passes(const struct type_case *type, enum lance_filter_op op, const struct sample *row,
                   const struct sample *values, size_t count)
{
    if (op == LANCE_IS_NULL || op == LANCE_IS_NOT_NULL) {
        return row->null == (op == LANCE_IS_NULL);
    }
    if (row->null) {
        return false;
    }
    if (op == LANCE_IN) {
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            found = found || compare(type, row, &values[i]) == 0;
        }
        return found;
    }
    int order = compare(type, row, &values[0]);
    switch (op) {
    case LANCE_EQ:
        return order == 0;
    case LANCE_NE:
        return order != 0;
    case LANCE_LT:
        return order < 0;
    case LANCE_LE:
        return order <= 0;
    case LANCE_GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

struct table {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct sample rows[ROWS];
};

/* Rows with nulls in one of three densities, behind an offset. */
static void make_table(struct table *table, const struct type_case *type, uint32_t null_every,
                       uint64_t *seed)
{
    ArrowSchemaInit(&table->schema);
    assert_int_equal(ArrowSchemaSetFormat(&table->schema, type->format), NANOARROW_OK);
    table->schema.flags = ARROW_FLAG_NULLABLE;
    assert_int_equal(ArrowArrayInitFromSchema(&table->array, &table->schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&table->array), NANOARROW_OK);
    for (int i = -SKIP; i < ROWS; i++) {
        struct sample sample = make_sample(type, random_next(seed));
        sample.null = null_every != 0 && random_next(seed) % null_every == 0;
        append_sample(&table->array, type, &sample);
        if (i >= 0) {
            table->rows[i] = sample;
        }
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&table->array, NULL), NANOARROW_OK);
    table->array.offset = SKIP;
    table->array.length = ROWS;
    table->array.null_count = table->array.null_count == 0 ? 0 : -1;
}

static void free_table(struct table *table)
{
    ArrowArrayRelease(&table->array);
    ArrowSchemaRelease(&table->schema);
}

static void assert_filter(struct table *table, const struct type_case *type,
                          enum lance_filter_op op, const struct sample *values, size_t count,
                          uint64_t *seed)
{
    struct lance_value raw[8];
    uint8_t keep[ROWS];
    bool before[ROWS];
    struct lance_predicate *predicate = NULL;
    struct lance_filter filter = {.op = op, .values = raw, .value_count = count};
    for (size_t i = 0; i < count; i++) {
        raw[i] = value_of(type, &values[i]);
    }
    assert_int_equal(lance_predicate_new(&filter, &table->schema, &predicate, NULL), LAKE_OK);
    assert_non_null(predicate); /* all of these are exact */
    for (size_t i = 0; i < ROWS; i++) {
        before[i] = random_next(seed) % 4 != 0;
        keep[i] = before[i];
    }
    assert_int_equal(lance_predicate_apply(predicate, &table->array, keep, NULL), LAKE_OK);
    for (size_t i = 0; i < ROWS; i++) {
        bool expected = before[i] && passes(type, op, &table->rows[i], values, count);
        if (keep[i] != expected) {
            fail_msg("format %s, operation %d, row %zu: %d", type->format, (int)op, i, keep[i]);
        }
    }
    lance_predicate_free(predicate);
}

static void every_operation_on_every_type_agrees_with_a_plain_loop(void **state)
{
    (void)state;
    uint64_t seed = 42;
    static const uint32_t null_every[] = {0, 1, 3};
    static struct table table;
    for (size_t t = 0; t < BASE_ARRAY_LEN(type_cases); t++) {
        for (size_t n = 0; n < BASE_ARRAY_LEN(null_every); n++) {
            make_table(&table, &type_cases[t], null_every[n], &seed);
            for (size_t o = 0; o < BASE_ARRAY_LEN(all_ops); o++) {
                for (size_t round = 0; round < 6; round++) {
                    struct sample values[8];
                    bool in = all_ops[o] == LANCE_IN;
                    size_t count = in ? round : all_ops[o] < LANCE_IN ? 1 : 0;
                    for (size_t i = 0; i < count; i++) {
                        values[i] = make_sample(&type_cases[t], random_next(&seed));
                    }
                    assert_filter(&table, &type_cases[t], all_ops[o], values, count, &seed);
                }
            }
            free_table(&table);
        }
    }
}

static size_t count_passing(const char *format, enum lance_filter_op op, struct lance_value value,
                            const int64_t *numbers, size_t count)
{
    struct type_case type = {format, INTEGERS, 0, 1};
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct lance_predicate *predicate = NULL;
    struct lance_filter filter = {.op = op, .values = &value, .value_count = 1};
    uint8_t keep[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetFormat(&schema, format), NANOARROW_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&array, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&array), NANOARROW_OK);
    type.family = strchr("CSIL", format[0]) != NULL ? UNSIGNED : INTEGERS;
    for (size_t i = 0; i < count; i++) {
        struct sample sample = {.i64 = numbers[i]};
        append_sample(&array, &type, &sample);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), NANOARROW_OK);
    assert_int_equal(lance_predicate_new(&filter, &schema, &predicate, NULL), LAKE_OK);
    assert_non_null(predicate);
    assert_int_equal(lance_predicate_apply(predicate, &array, keep, NULL), LAKE_OK);
    size_t passing = 0;
    for (size_t i = 0; i < count; i++) {
        passing += keep[i];
    }
    lance_predicate_free(predicate);
    ArrowArrayRelease(&array);
    ArrowSchemaRelease(&schema);
    return passing;
}

/* A constant outside the column's type decides every row alike, and must not wrap around. */
static void constants_outside_the_type_do_not_wrap(void **state)
{
    (void)state;
    static const int64_t bytes[] = {-128, -1, 0, 1, 127};
    static const int64_t words[] = {0, 1, INT64_MAX, -1 /* 2^64 - 1 as uint64 */};
    struct lance_value big = {.kind = LANCE_VALUE_INT64, .i64 = 256};
    struct lance_value small = {.kind = LANCE_VALUE_INT64, .i64 = -256};
    struct lance_value negative = {.kind = LANCE_VALUE_INT64, .i64 = -1};
    struct lance_value huge = {.kind = LANCE_VALUE_UINT64, .u64 = UINT64_MAX};
    assert_int_equal(count_passing("c", LANCE_EQ, big, bytes, 5), 0);
    assert_int_equal(count_passing("c", LANCE_NE, big, bytes, 5), 5);
    assert_int_equal(count_passing("c", LANCE_LT, big, bytes, 5), 5);
    assert_int_equal(count_passing("c", LANCE_GE, big, bytes, 5), 0);
    assert_int_equal(count_passing("c", LANCE_GT, small, bytes, 5), 5);
    assert_int_equal(count_passing("c", LANCE_LE, small, bytes, 5), 0);
    assert_int_equal(count_passing("L", LANCE_EQ, negative, words, 4), 0);
    assert_int_equal(count_passing("L", LANCE_GT, negative, words, 4), 4);
    assert_int_equal(count_passing("L", LANCE_EQ, huge, words, 4), 1);
    assert_int_equal(count_passing("L", LANCE_GE, huge, words, 4), 1);
    assert_int_equal(count_passing("l", LANCE_LT, huge, words, 4), 4);
    assert_int_equal(count_passing("l", LANCE_EQ, huge, words, 4), 0);
}

/* What passes of the decimals -1, 0 and 1. */
static size_t count_decimals(enum lance_filter_op op, const uint8_t limit[16])
{
    static const int64_t numbers[] = {-1, 0, 1};
    struct lance_value value = {.kind = LANCE_VALUE_BYTES, .bytes = {limit, 16}};
    struct lance_filter filter = {.op = op, .values = &value, .value_count = 1};
    struct lance_predicate *predicate = NULL;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowDecimal decimal;
    uint8_t keep[3] = {1, 1, 1};
    ArrowSchemaInit(&schema);
    ArrowDecimalInit(&decimal, 128, 38, 0);
    assert_int_equal(ArrowSchemaSetFormat(&schema, "d:38,0"), NANOARROW_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&array, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&array), NANOARROW_OK);
    for (size_t i = 0; i < 3; i++) {
        ArrowDecimalSetInt(&decimal, numbers[i]);
        assert_int_equal(ArrowArrayAppendDecimal(&array, &decimal), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), NANOARROW_OK);
    assert_int_equal(lance_predicate_new(&filter, &schema, &predicate, NULL), LAKE_OK);
    assert_int_equal(lance_predicate_apply(predicate, &array, keep, NULL), LAKE_OK);
    lance_predicate_free(predicate);
    ArrowArrayRelease(&array);
    ArrowSchemaRelease(&schema);
    return (size_t)keep[0] + keep[1] + keep[2];
}

/* There is no number below the least, nor above the greatest, to compute (seen by sanitizers). */
static void the_ends_of_128_bits_are_limits_like_others(void **state)
{
    (void)state;
    uint8_t least[16] = {0};
    uint8_t greatest[16];
    least[15] = 0x80;
    memset(greatest, 0xff, sizeof(greatest));
    greatest[15] = 0x7f;
    assert_int_equal(count_decimals(LANCE_LT, least), 0);
    assert_int_equal(count_decimals(LANCE_LE, least), 0);
    assert_int_equal(count_decimals(LANCE_GT, least), 3);
    assert_int_equal(count_decimals(LANCE_GE, least), 3);
    assert_int_equal(count_decimals(LANCE_LT, greatest), 3);
    assert_int_equal(count_decimals(LANCE_LE, greatest), 3);
    assert_int_equal(count_decimals(LANCE_GT, greatest), 0);
    assert_int_equal(count_decimals(LANCE_GE, greatest), 0);
}

static void assert_exact(const char *format, enum lance_filter_op op, struct lance_value value,
                         bool exact)
{
    struct ArrowSchema schema;
    struct lance_predicate *predicate = NULL;
    struct lance_filter filter = {.op = op, .values = &value, .value_count = 1};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetFormat(&schema, format), NANOARROW_OK);
    assert_int_equal(lance_predicate_new(&filter, &schema, &predicate, NULL), LAKE_OK);
    assert_int_equal(predicate != NULL, exact);
    lance_predicate_free(predicate);
    ArrowSchemaRelease(&schema);
}

static void what_cannot_be_decided_exactly_is_left_to_the_engine(void **state)
{
    (void)state;
    struct lance_value real = {.kind = LANCE_VALUE_DOUBLE, .f64 = 1.5};
    struct lance_value whole = {.kind = LANCE_VALUE_INT64, .i64 = 7};
    struct lance_value inexact = {.kind = LANCE_VALUE_INT64, .i64 = (INT64_C(1) << 53) + 1};
    struct lance_value text = {.kind = LANCE_VALUE_BYTES, .bytes = {(const uint8_t *)"x", 1}};
    assert_exact("l", LANCE_EQ, real, false);
    assert_exact("l", LANCE_EQ, text, false);
    assert_exact("u", LANCE_EQ, whole, false);
    assert_exact("g", LANCE_EQ, whole, true);
    assert_exact("g", LANCE_EQ, inexact, false);
    assert_exact("e", LANCE_EQ, real, false); /* half floats */
    assert_exact("d:50,2,256", LANCE_EQ, whole, false);
    assert_exact("+s", LANCE_EQ, whole, false);
    assert_exact("+s", LANCE_IS_NULL, whole, true);
    assert_exact("e", LANCE_IS_NOT_NULL, whole, true);
}

static void a_comparison_without_exactly_one_value_is_refused(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lance_predicate *predicate = NULL;
    struct lance_value values[2] = {{.kind = LANCE_VALUE_INT64}, {.kind = LANCE_VALUE_INT64}};
    struct lance_filter filter = {.op = LANCE_LT, .values = values, .value_count = 2};
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetFormat(&schema, "l"), NANOARROW_OK);
    assert_int_equal(lance_predicate_new(&filter, &schema, &predicate, NULL),
                     LAKE_INVALID_ARGUMENT);
    filter.value_count = 0;
    assert_int_equal(lance_predicate_new(&filter, &schema, &predicate, NULL),
                     LAKE_INVALID_ARGUMENT);
    ArrowSchemaRelease(&schema);
}

/* A row is null when its index is, or when the value that the index points to is. */
static void dictionaries_are_decided_by_their_values(void **state)
{
    (void)state;
    static const char *const words[] = {"red", "green", NULL, "blue"};
    static const int indices[] = {0, 1, 2, 3, -1, 1, 0, 3}; /* -1: null */
    struct ArrowSchema schema;
    struct ArrowArray array;
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetType(&schema, NANOARROW_TYPE_INT8), NANOARROW_OK);
    assert_int_equal(ArrowSchemaAllocateDictionary(&schema), NANOARROW_OK);
    ArrowSchemaInit(schema.dictionary);
    assert_int_equal(ArrowSchemaSetType(schema.dictionary, NANOARROW_TYPE_STRING), NANOARROW_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&array, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&array), NANOARROW_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(words[i] == NULL
                             ? ArrowArrayAppendNull(array.dictionary, 1)
                             : ArrowArrayAppendString(array.dictionary, ArrowCharView(words[i])),
                         NANOARROW_OK);
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(indices[i] < 0 ? ArrowArrayAppendNull(&array, 1)
                                        : ArrowArrayAppendInt(&array, indices[i]),
                         NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), NANOARROW_OK);
    struct lance_value green = {.kind = LANCE_VALUE_BYTES, .bytes = {(const uint8_t *)"green", 5}};
    static const struct {
        enum lance_filter_op op;
        const char *expected;
    } cases[] = {{LANCE_EQ, "01000100"},      {LANCE_NE, "10010011"},
                 {LANCE_LE, "01010101"},      {LANCE_GT, "10000010"},
                 {LANCE_IS_NULL, "00101000"}, {LANCE_IS_NOT_NULL, "11010111"}};
    for (size_t c = 0; c < BASE_ARRAY_LEN(cases); c++) {
        struct lance_predicate *predicate = NULL;
        struct lance_filter filter = {.op = cases[c].op, .values = &green, .value_count = 1};
        uint8_t keep[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        assert_int_equal(lance_predicate_new(&filter, &schema, &predicate, NULL), LAKE_OK);
        assert_int_equal(lance_predicate_apply(predicate, &array, keep, NULL), LAKE_OK);
        for (size_t i = 0; i < 8; i++) {
            assert_int_equal(keep[i], cases[c].expected[i] - '0');
        }
        lance_predicate_free(predicate);
    }
    ArrowArrayRelease(&array);
    ArrowSchemaRelease(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_on_every_type_agrees_with_a_plain_loop),
        cmocka_unit_test(constants_outside_the_type_do_not_wrap),
        cmocka_unit_test(the_ends_of_128_bits_are_limits_like_others),
        cmocka_unit_test(what_cannot_be_decided_exactly_is_left_to_the_engine),
        cmocka_unit_test(a_comparison_without_exactly_one_value_is_refused),
        cmocka_unit_test(dictionaries_are_decided_by_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
