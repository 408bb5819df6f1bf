/* The buffer of a column's statistics: what is kept in it, and what is refused. */
#include "zones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ZONES 8
#define ROWS  (ZONES * LANCE_ZONE_ROWS - 100)

static uint64_t random_state = 88172645463325252ULL;
static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t unique_value(uint64_t row)
{
    return (int64_t)(random_next() ^ row);
}

/* A handful of numbers a zone, from anywhere. */
static int64_t session_value(uint64_t row)
{
    uint64_t session = row / LANCE_ZONE_ROWS * 5 + random_next() % 5;
    return (int64_t)((session + 1) * 0x9E3779B97F4A7C15ULL);
}

static int64_t ascending_value(uint64_t row)
{
    return (int64_t)(row * 3);
}

/* Three numbers, the same everywhere. */
static int64_t category_value(uint64_t row)
{
    return (int64_t)(row % 3) * 1000000;
}

static int64_t values[ROWS];

/* The statistics of ROWS int64 values, as bytes. */
static void print_statistics(int64_t (*value)(uint64_t row), struct base_buffer *out)
{
    struct ArrowSchema schema;
    struct lance_leaf_type type;
    struct lance_leaf_values leaf;
    struct lance_zone_builder builder;
    assert_int_equal(ArrowSchemaInitFromType(&schema, NANOARROW_TYPE_INT64), NANOARROW_OK);
    assert_int_equal(lance_leaf_type_of(&schema, &type, NULL), LAKE_OK);
    lance_zone_builder_init(&builder, &type);
    for (uint64_t row = 0; row < ROWS; row++)
        values[row] = value(row);
    for (uint64_t done = 0; done < ROWS;) { /* in pages of any size */
        uint64_t count = 1 + random_next() % 20000, left = ROWS - done;
        count = count < left ? count : left;
        lance_leaf_values_init(&leaf, &type);
        assert_int_equal(base_buffer_append(&leaf.fixed, values + done, (size_t)count * 8, NULL),
                         LAKE_OK);
        leaf.count = count;
        assert_int_equal(lance_zone_builder_add(&builder, &leaf, NULL, NULL), LAKE_OK);
        lance_leaf_values_fini(&leaf);
        done += count;
    }
    base_buffer_init(out, 1U << 24);
    assert_int_equal(lance_zone_builder_print(&builder, out, NULL), LAKE_OK);
    lance_zone_builder_fini(&builder);
    schema.release(&schema);
}

static struct lance_zones *parse(const struct base_buffer *buffer)
{
    struct lance_zones *zones = NULL;
    assert_int_equal(lance_zones_parse(base_buffer_view(buffer), ROWS, &zones, NULL), LAKE_OK);
    return zones;
}

static void zones_have_the_bounds_of_their_rows(void **state)
{
    struct base_buffer buffer;
    (void)state;
    print_statistics(unique_value, &buffer);
    struct lance_zones *zones = parse(&buffer);
    assert_int_equal(zones->kind, LANCE_ZONES_SIGNED);
    assert_int_equal(zones->count, ZONES);
    for (size_t i = 0; i < ZONES; i++) {
        int64_t low = INT64_MAX, high = INT64_MIN;
        size_t start = i * LANCE_ZONE_ROWS, end = start + zones->zones[i].row_count;
        for (size_t row = start; row < end; row++) {
            low = values[row] < low ? values[row] : low;
            high = values[row] > high ? values[row] : high;
        }
        assert_int_equal(zones->zones[i].row_count, i + 1 < ZONES ? LANCE_ZONE_ROWS : 8092);
        assert_int_equal(zones->zones[i].null_count, 0);
        assert_true((int64_t)zones->zones[i].low == low);
        assert_true((int64_t)zones->zones[i].high == high);
    }
    lance_zones_free(zones);
    base_buffer_fini(&buffer);
}

static void filters_are_kept_only_where_they_tell_more_than_bounds(void **state)
{
    static const struct {
        int64_t (*value)(uint64_t row);
        bool kept;
    } columns[] = {{unique_value, false},
                   {session_value, true},
                   {ascending_value, false},
                   {category_value, false}};
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(columns); i++) {
        struct base_buffer buffer;
        print_statistics(columns[i].value, &buffer);
        struct lance_zones *zones = parse(&buffer);
        assert_int_equal(zones->bloom_bytes > 0, columns[i].kept);
        lance_zones_free(zones);
        base_buffer_fini(&buffer);
    }
}

static void filters_have_every_value_and_hardly_any_other(void **state)
{
    struct base_buffer buffer;
    size_t lies = 0, asked = 0;
    (void)state;
    print_statistics(session_value, &buffer);
    struct lance_zones *zones = parse(&buffer);
    assert_true(zones->bloom_bytes <= 64); /* five values need no more */
    for (size_t row = 0; row < ROWS; row++)
        assert_true(lance_zones_may_have(zones, row / LANCE_ZONE_ROWS,
                                         lance_zone_hash((uint64_t)values[row])));
    for (size_t zone = 0; zone < ZONES; zone++) {
        for (size_t i = 0; i < 1000; i++, asked++)
            lies += lance_zones_may_have(zones, zone, lance_zone_hash(random_next()));
    }
    assert_true(lies * 20 < asked);
    lance_zones_free(zones);
    base_buffer_fini(&buffer);
}

/* ROWS rows of a type in runs of up to 400, a fifth of them null; returns how many runs. */
static uint64_t make_runs(struct lance_leaf_values *leaf, uint16_t *def)
{
    static const char *const TEXTS[] = {"", "a", "the same eight bytes, then x",
                                        "the same eight bytes, then y"};
    uint64_t before = UINT64_MAX, runs = 0;
    for (uint64_t row = 0; row < ROWS;) {
        uint64_t value = random_next() % 5, end = row + 1 + random_next() % 400;
        runs += value != before;
        before = value;
        for (; row < end && row < ROWS; row++) {
            uint64_t item = value == 4 ? random_next() % 4 : value; /* a null's slot is anything */
            def[row] = value == 4;
            if (leaf->type->kind == LANCE_LEAF_VARIABLE)
                assert_int_equal(lance_leaf_values_append_one(leaf, (const uint8_t *)TEXTS[item],
                                                              strlen(TEXTS[item]), NULL),
                                 LAKE_OK);
            else if (leaf->type->item_bits == 1)
                assert_int_equal(lance_bits_append_run(&leaf->booleans, item % 2 == 1, 1, NULL),
                                 LAKE_OK);
            else
                assert_int_equal(
                    base_buffer_append(&leaf->fixed, &item, leaf->type->item_bits / 8, NULL),
                    LAKE_OK);
        }
    }
    leaf->count = ROWS;
    return runs;
}

/* At least those there are; more by one for each zone that one goes on into, and each null. */
static void runs_are_counted_where_they_are_long(void **state)
{
    static const enum ArrowType TYPES[] = {NANOARROW_TYPE_INT8,   NANOARROW_TYPE_UINT16,
                                           NANOARROW_TYPE_INT32,  NANOARROW_TYPE_INT64,
                                           NANOARROW_TYPE_STRING, NANOARROW_TYPE_BOOL};
    static uint16_t def[ROWS];
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(TYPES); i++) {
        struct ArrowSchema schema;
        struct lance_leaf_type type;
        struct lance_leaf_values leaf;
        struct lance_zone_builder builder;
        struct base_buffer buffer;
        assert_int_equal(ArrowSchemaInitFromType(&schema, TYPES[i]), NANOARROW_OK);
        assert_int_equal(lance_leaf_type_of(&schema, &type, NULL), LAKE_OK);
        lance_zone_builder_init(&builder, &type);
        lance_leaf_values_init(&leaf, &type);
        uint64_t runs = make_runs(&leaf, def);
        assert_int_equal(lance_zone_builder_add(&builder, &leaf, def, NULL), LAKE_OK);
        base_buffer_init(&buffer, 1U << 24);
        assert_int_equal(lance_zone_builder_print(&builder, &buffer, NULL), LAKE_OK);
        struct lance_zones *zones = parse(&buffer);
        if (TYPES[i] == NANOARROW_TYPE_BOOL) /* 0 and 2 are the same there */
            assert_in_range(zones->runs, runs / 3, runs);
        else
            assert_in_range(zones->runs, runs, runs * 3 / 2);
        lance_zones_free(zones);
        base_buffer_fini(&buffer);
        lance_zone_builder_fini(&builder);
        lance_leaf_values_fini(&leaf);
        schema.release(&schema);
    }
    struct base_buffer buffer;
    print_statistics(category_value, &buffer);
    struct lance_zones *zones = parse(&buffer);
    assert_int_equal(zones->runs, 0);
    lance_zones_free(zones);
    base_buffer_fini(&buffer);
}

static void broken_statistics_are_refused(void **state)
{
    struct base_buffer buffer;
    struct lance_zones *zones = NULL;
    (void)state;
    print_statistics(session_value, &buffer);
    for (size_t size = 0; size < buffer.size; size++) {
        uint8_t *cut = malloc(size + 1); /* exactly as long, for sanitizers */
        assert_non_null(cut);
        memcpy(cut, buffer.data, size);
        assert_int_not_equal(lance_zones_parse((struct lake_bytes){cut, size}, ROWS, &zones, NULL),
                             LAKE_OK);
        free(cut);
    }
    assert_int_equal(lance_zones_parse(base_buffer_view(&buffer), ROWS + 1, &zones, NULL),
                     LAKE_DATA_LOSS);
    base_store_u32le(buffer.data + 28, ROWS + 1); /* more runs than rows */
    assert_int_equal(lance_zones_parse(base_buffer_view(&buffer), ROWS, &zones, NULL),
                     LAKE_DATA_LOSS);
    base_store_u32le(buffer.data + 28, 0);
    buffer.data[0] = 'X'; /* another's buffer */
    assert_int_equal(lance_zones_parse(base_buffer_view(&buffer), ROWS, &zones, NULL),
                     LAKE_UNIMPLEMENTED);
    buffer.data[0] = 'L';
    for (size_t round = 0; round < 3000; round++) {
        size_t at = random_next() % 200;
        uint8_t before = buffer.data[at];
        buffer.data[at] = (uint8_t)random_next();
        zones = NULL;
        if (lance_zones_parse(base_buffer_view(&buffer), ROWS, &zones, NULL) == LAKE_OK) {
            for (size_t zone = 0; zone < zones->count; zone++)
                (void)lance_zones_may_have(zones, zone, random_next());
        }
        lance_zones_free(zones);
        buffer.data[at] = before;
    }
    base_buffer_fini(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_have_the_bounds_of_their_rows),
        cmocka_unit_test(filters_are_kept_only_where_they_tell_more_than_bounds),
        cmocka_unit_test(filters_have_every_value_and_hardly_any_other),
        cmocka_unit_test(runs_are_counted_where_they_are_long),
        cmocka_unit_test(broken_statistics_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
