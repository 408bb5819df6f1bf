/* libs: lance */
/* Sequences of row ids and versions: every form against plain arrays, and bytes that pylance wrote.
 */
#include "row_sequence.h"

#include "table_fixture.h"

#define MAX_NUMBERS 4096

struct sequence {
    struct base_buffer bytes;
    uint64_t numbers[MAX_NUMBERS];
    size_t count;
};

static struct lance_row_ids unchecked(struct lake_bytes bytes)
{
    return (struct lance_row_ids){.bytes = bytes};
}

static void put_varint(struct base_buffer *out, uint64_t value)
{
    assert_int_equal(base_buffer_append_varint(out, value, NULL), LAKE_OK);
}

static void put_number(struct base_buffer *out, uint32_t field, uint64_t value)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, value);
}

static void put_bytes(struct base_buffer *out, uint32_t field, const struct base_buffer *bytes)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, bytes->size);
    assert_int_equal(base_buffer_append(out, bytes->data, bytes->size, NULL), LAKE_OK);
}

/* EncodedU64Array in the narrowest form (1, 2) that holds the numbers, or in `form` if wider. */
static void put_array(struct base_buffer *out, uint32_t field, const uint64_t *numbers,
                      size_t count, uint32_t form)
{
    struct base_buffer data, inner, outer;
    uint64_t base = count == 0 || form == 3 ? 0 : numbers[0];
    base_buffer_init(&data, 1 << 20);
    base_buffer_init(&inner, 1 << 20);
    base_buffer_init(&outer, 1 << 20);
    for (size_t i = 0; form != 3 && i < count; i++)
        base = BASE_MIN(base, numbers[i]);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[8];
        base_store_u64le(bytes, numbers[i] - base);
        assert_int_equal(base_buffer_append(&data, bytes, (size_t)1 << form, NULL), LAKE_OK);
    }
    if (form != 3)
        put_number(&inner, 1, base);
    put_bytes(&inner, 2, &data);
    put_bytes(&outer, form, &inner);
    put_bytes(out, field, &outer);
    base_buffer_fini(&data);
    base_buffer_fini(&inner);
    base_buffer_fini(&outer);
}

static void put_bitmap(struct base_buffer *out, uint32_t field, const bool *there, size_t length)
{
    struct base_buffer bits;
    base_buffer_init(&bits, 1 << 20);
    assert_int_equal(base_buffer_append_zeros(&bits, (length + 7) / 8, NULL), LAKE_OK);
    for (size_t i = 0; i < length; i++)
        if (there[i])
            bits.data[i / 8] |= (uint8_t)(1U << (i % 8));
    put_bytes(out, field, &bits);
    base_buffer_fini(&bits);
}

/* A segment of kind 1 to 5 with up to 300 numbers. */
static void add_segment(struct sequence *sequence, uint32_t kind, uint64_t *seed)
{
    struct base_buffer body, segment;
    uint64_t start = random_next(seed) % (kind == 5 ? UINT64_MAX / 2 : 100000);
    size_t length = random_next(seed) % 300, holes = 0, first = sequence->count;
    uint64_t hole[300];
    bool there[300];
    base_buffer_init(&body, 1 << 20);
    base_buffer_init(&segment, 1 << 20);
    for (size_t i = 0; i < length; i++) {
        bool skip = (kind == 2 || kind == 3) && random_next(seed) % 3 == 0;
        uint64_t number = kind == 4   ? start + 3 * i
                          : kind == 5 ? start + random_next(seed) % 1000
                                      : start + i;
        there[i] = !skip;
        if (skip)
            hole[holes++] = number;
        else
            sequence->numbers[sequence->count++] = number;
    }
    if (kind <= 3) {
        put_number(&body, 1, start);
        put_number(&body, 2, start + length);
        if (kind == 2)
            put_array(&body, 3, hole, holes, 1);
        else if (kind == 3)
            put_bitmap(&body, 3, there, length);
        put_bytes(&segment, kind, &body);
    } else {
        put_array(&segment, kind, sequence->numbers + first, length,
                  1 + (uint32_t)(random_next(seed) % 3));
    }
    put_bytes(&sequence->bytes, 1, &segment);
    base_buffer_fini(&body);
    base_buffer_fini(&segment);
}

static void make_sequence(struct sequence *sequence, uint64_t *seed)
{
    sequence->count = 0;
    base_buffer_init(&sequence->bytes, 1 << 24);
    size_t segments = random_next(seed) % 8 + 1;
    for (size_t i = 0; i < segments; i++)
        add_segment(sequence, 1 + (uint32_t)(random_next(seed) % 5), seed);
}

static void any_range_of_any_form_reads_as_the_plain_numbers(void **state)
{
    (void)state;
    static struct sequence sequence;
    static uint64_t out[MAX_NUMBERS];
    uint64_t seed = 11;
    for (int round = 0; round < 200; round++) {
        make_sequence(&sequence, &seed);
        struct lake_bytes bytes = base_buffer_view(&sequence.bytes);
        for (int i = 0; i < 40; i++) {
            size_t start = random_next(&seed) % (sequence.count + 1);
            size_t count = random_next(&seed) % (sequence.count - start + 1);
            assert_int_equal(lance_row_ids_read(unchecked(bytes), start, count, out, NULL),
                             LAKE_OK);
            assert_memory_equal(out, sequence.numbers + start, count * sizeof(uint64_t));
        }
        assert_int_equal(lance_row_ids_read(unchecked(bytes), 0, sequence.count + 1, out, NULL),
                         LAKE_DATA_LOSS);
        assert_int_equal(lance_row_ids_read(unchecked(bytes), UINT64_MAX, 1, out, NULL),
                         LAKE_DATA_LOSS);
        base_buffer_fini(&sequence.bytes);
    }
}

/* Where the number stands, and how often. */
static size_t occurrences(const struct sequence *sequence, uint64_t number, uint64_t *row)
{
    size_t found = 0;
    for (size_t i = 0; i < sequence->count; i++) {
        if (sequence->numbers[i] == number) {
            *row = i;
            found++;
        }
    }
    return found;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void numbers_of_any_form_are_found_where_they_stand(void **state)
{
    static struct sequence sequence;
    uint64_t ids[64], seed = 21, row = 0;
    struct lance_row_id_hit hits[64];
    (void)state;
    for (int round = 0; round < 400; round++) {
        size_t count = 0, expected = 0, found = 99;
        make_sequence(&sequence, &seed);
        while (count < BASE_ARRAY_LEN(ids)) {
            uint64_t id = random_next(&seed) % 100300;
            if (sequence.count > 0 && random_next(&seed) % 4 != 0) /* one of them, or a neighbour */
                id = sequence.numbers[random_next(&seed) % sequence.count] +
                     (random_next(&seed) % 4 == 0);
            if (occurrences(&sequence, id, &row) <= 1) /* also the same id several times */
                ids[count++] = id;
            else
                ids[count++] = UINT64_MAX;
        }
        qsort(ids, count, sizeof(*ids), by_value);
        assert_int_equal(lance_row_ids_find(unchecked(base_buffer_view(&sequence.bytes)), ids,
                                            count, hits, &found, NULL),
                         LAKE_OK);
        for (size_t i = 0; i < count; i++)
            expected += occurrences(&sequence, ids[i], &row);
        assert_int_equal(found, expected);
        for (size_t i = 0; i < found; i++) {
            assert_int_equal(occurrences(&sequence, ids[hits[i].index], &row), 1);
            assert_int_equal(hits[i].row, row);
            for (size_t k = 0; k < i; k++)
                assert_int_not_equal(hits[i].index, hits[k].index);
        }
        base_buffer_fini(&sequence.bytes);
    }
}

static void damaged_sequences_are_errors_or_numbers_but_nothing_worse(void **state)
{
    (void)state;
    static struct sequence sequence;
    static uint64_t out[MAX_NUMBERS];
    uint64_t seed = 12;
    for (int round = 0; round < 30; round++) {
        make_sequence(&sequence, &seed);
        for (size_t size = 0; size < sequence.bytes.size; size += size < 64 ? 1 : 17) {
            uint8_t *copy = base_alloc(size + 1); /* sanitizers see what lies beyond */
            memcpy(copy, sequence.bytes.data, size);
            struct lake_bytes cut = {copy, size};
            lake_status status = lance_row_ids_read(unchecked(cut), 0, sequence.count, out, NULL);
            assert_true(status == LAKE_DATA_LOSS || (status == LAKE_OK && size > 0) ||
                        sequence.count == 0);
            if (size > 0) {
                copy[random_next(&seed) % size] ^= (uint8_t)(1 + random_next(&seed) % 255);
                status = lance_row_ids_read(unchecked(cut), 0, sequence.count, out, NULL);
                assert_true(status == LAKE_OK || status == LAKE_DATA_LOSS);
                struct lance_row_id_hit hits[2];
                uint64_t ids[2] = {out[0], UINT64_MAX};
                size_t found;
                status = lance_row_ids_find(unchecked(cut), ids, 2, hits, &found, NULL);
                assert_true(status == LAKE_OK || status == LAKE_DATA_LOSS);
                status = lance_row_versions_read(cut, 0, sequence.count, out, NULL);
                assert_true(status == LAKE_OK || status == LAKE_DATA_LOSS);
            }
            base_free(copy);
        }
        base_buffer_fini(&sequence.bytes);
    }
}

/* What is searched by halving must ascend, and holes lie within their range. */
static void numbers_out_of_order_are_damage(void **state)
{
    (void)state;
    static const struct {
        uint32_t kind;
        uint64_t numbers[2]; /* holes of the range [10, 20), or the numbers themselves */
        lake_status status;
    } cases[] = {{2, {11, 14}, LAKE_OK},        {2, {14, 11}, LAKE_DATA_LOSS},
                 {2, {11, 11}, LAKE_DATA_LOSS}, {2, {9, 11}, LAKE_DATA_LOSS},
                 {2, {11, 20}, LAKE_DATA_LOSS}, {4, {3, 7}, LAKE_OK},
                 {4, {7, 3}, LAKE_DATA_LOSS},   {4, {3, 3}, LAKE_DATA_LOSS}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        struct base_buffer range, segment, sequence;
        uint64_t number;
        base_buffer_init(&range, 1024);
        base_buffer_init(&segment, 1024);
        base_buffer_init(&sequence, 1024);
        put_number(&range, 1, 10);
        put_number(&range, 2, 20);
        put_array(&range, 3, cases[i].numbers, 2, 1);
        if (cases[i].kind == 2)
            put_bytes(&segment, 2, &range);
        else
            put_array(&segment, 4, cases[i].numbers, 2, 1);
        put_bytes(&sequence, 1, &segment);
        struct lance_row_ids ids = unchecked(base_buffer_view(&sequence));
        assert_int_equal(lance_row_ids_read(ids, 0, 1, &number, NULL), cases[i].status);
        assert_int_equal(lance_row_ids_check(&ids, NULL), cases[i].status);
        assert_int_equal(ids.checked, cases[i].status == LAKE_OK);
        base_buffer_fini(&range);
        base_buffer_fini(&segment);
        base_buffer_fini(&sequence);
    }
}

/* Of a table of pylance 14: 20 rows, 10 more, three of the first updated, one deleted, compacted.
 */
static void what_pylance_wrote_is_read(void **state)
{
    (void)state;
    static const uint8_t ids[] = {0x0a, 0x0b, 0x1a, 0x09, 0x08, 0x03, 0x10, 0x14, 0x1a,
                                  0x03, 0xfb, 0xff, 0x01, 0x0a, 0x06, 0x0a, 0x04, 0x08,
                                  0x14, 0x10, 0x1e, 0x0a, 0x04, 0x0a, 0x02, 0x10, 0x03};
    static const uint8_t versions[] = {0x0a, 0x0f, 0x0a, 0x0b, 0x1a, 0x09, 0x08, 0x03, 0x10, 0x14,
                                       0x1a, 0x03, 0xfb, 0xff, 0x01, 0x10, 0x01, 0x0a, 0x08, 0x0a,
                                       0x04, 0x0a, 0x02, 0x10, 0x0a, 0x10, 0x02, 0x0a, 0x08, 0x0a,
                                       0x04, 0x0a, 0x02, 0x10, 0x03, 0x10, 0x03};
    uint64_t out[29];
    assert_int_equal(
        lance_row_ids_read(unchecked((struct lake_bytes){ids, sizeof(ids)}), 0, 29, out, NULL),
        LAKE_OK);
    for (uint64_t i = 0; i < 29; i++)
        assert_int_equal(out[i], i < 2 ? 3 + i : i < 26 ? 4 + i : i - 26);
    assert_int_equal(
        lance_row_versions_read((struct lake_bytes){versions, sizeof(versions)}, 0, 29, out, NULL),
        LAKE_OK);
    for (uint64_t i = 0; i < 29; i++)
        assert_int_equal(out[i], i < 16 ? 1 : i < 26 ? 2 : 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_of_any_form_reads_as_the_plain_numbers),
        cmocka_unit_test(numbers_of_any_form_are_found_where_they_stand),
        cmocka_unit_test(damaged_sequences_are_errors_or_numbers_but_nothing_worse),
        cmocka_unit_test(numbers_out_of_order_are_damage),
        cmocka_unit_test(what_pylance_wrote_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
