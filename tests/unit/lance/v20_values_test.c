/* libs: lance */
/*
 * Encodings of storage 2.0 that current writers do not use, each against a plain loop: the
 * bit-packed ones and strings of one length. What they do use is in tests/interop.
 */
#include "table_fixture.h"
#include "v20_page.h"

#define ROWS 3000

/* A page in the memory of a local store's file. */
struct page {
    struct base_buffer layout;
    uint64_t offset, size;
    struct lance_file_page page;
    struct lance_file_column column;
    struct lance_file file;
    struct ArrowSchema type;
};

static void put(struct base_buffer *out, const void *data, size_t size)
{
    assert_int_equal(base_buffer_append(out, data, size, NULL), LAKE_OK);
}

static void put_varint(struct base_buffer *out, uint64_t value)
{
    assert_int_equal(base_buffer_append_varint(out, value, NULL), LAKE_OK);
}

/* Puts what `out` holds into a field of its own, `number` of a message around it. */
static void wrap(struct base_buffer *out, uint32_t number)
{
    struct base_buffer outer;
    base_buffer_init(&outer, 1 << 16);
    put_varint(&outer, (uint64_t)number << 3 | 2);
    put_varint(&outer, out->size);
    put(&outer, out->data, out->size);
    base_buffer_fini(out);
    *out = outer;
}

static void put_number(struct base_buffer *out, uint32_t field, uint64_t value)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, value);
}

/* Nullable { no_nulls { values } } around what the layout holds. */
static void make_not_nullable(struct base_buffer *layout)
{
    wrap(layout, 1);
    wrap(layout, 1);
    wrap(layout, 2);
}

static void page_init(struct fixture *f, struct page *page, const char *type,
                      struct base_buffer *layout, const struct base_buffer *data)
{
    *page = (struct page){.layout = *layout, .size = data->size};
    assert_int_equal(arrow_type_parse(base_str_of(type), "c", &page->type, &f->err), LAKE_OK);
    OK(storage_put(f->store, LAKE_STR("page"), base_buffer_view(data), &f->err));
    page->page = (struct lance_file_page){.row_count = ROWS,
                                          .buffer_count = 1,
                                          .offsets = &page->offset,
                                          .sizes = &page->size,
                                          .layout = base_buffer_view(&page->layout)};
    page->column =
        (struct lance_file_column){.pages = &page->page, .page_count = 1, .row_count = ROWS};
    page->file = (struct lance_file){.reference_count = 2,
                                     .store = f->store,
                                     .key = LAKE_STR("page"),
                                     .size_bytes = data->size,
                                     .major = 2,
                                     .row_count = ROWS,
                                     .columns = &page->column,
                                     .column_count = 1};
}

static void page_fini(struct page *page)
{
    base_buffer_fini(&page->layout);
    page->type.release(&page->type);
}

static const uint64_t ranges[][2] = {{0, ROWS},    {0, 1},    {ROWS - 1, 1}, {1023, 2},
                                     {1024, 1024}, {7, 2000}, {2047, 953},   {13, 0}};

static void check_fixed(struct fixture *f, struct page *page, const uint64_t *expected,
                        uint32_t width)
{
    struct lance_v20_leaf leaf;
    OK(lance_v20_leaf_init(&leaf, (struct lance_column_source){&page->file, 0}, &page->type, NULL,
                           &f->err));
    for (size_t i = 0; i < BASE_ARRAY_LEN(ranges); i++) {
        OK(lance_v20_leaf_read(&leaf, ranges[i][0], ranges[i][1], &f->err));
        assert_int_equal(leaf.values.count, ranges[i][1]);
        for (uint64_t k = 0; k < ranges[i][1]; k++)
            assert_memory_equal(leaf.values.fixed.data + k * width, &expected[ranges[i][0] + k],
                                width);
    }
    lance_v20_leaf_fini(&leaf);
}

static const struct {
    const char *type;
    uint32_t bits;
} integers[] = {{"uint8", 8}, {"int16", 16}, {"uint32", 32}, {"int64", 64}};

/* One stream of bits, lowest first; a sign bit, where there is one, is spread upwards. */
static void bit_packed_values_of_every_width_are_read(void **state)
{
    struct fixture *f = *state;
    static uint64_t expected[ROWS];
    uint64_t seed = 21;
    for (size_t t = 0; t < BASE_ARRAY_LEN(integers); t++) {
        for (uint32_t width = 1; width <= integers[t].bits; width++) {
            bool is_signed = width % 2 == 0;
            struct base_buffer layout, data;
            struct page page;
            base_buffer_init(&layout, 1 << 16);
            base_buffer_init(&data, 1 << 20);
            assert_int_equal(base_buffer_append_zeros(&data, (ROWS * width + 7) / 8, NULL),
                             LAKE_OK);
            for (size_t i = 0; i < ROWS; i++) {
                uint64_t value = random_next(&seed) >> (64 - width);
                for (uint32_t b = 0; b < width; b++)
                    if ((value >> b & 1) != 0)
                        data.data[(i * width + b) / 8] |= (uint8_t)(1U << ((i * width + b) % 8));
                bool negative = is_signed && (value >> (width - 1) & 1) != 0;
                expected[i] = negative && width < 64 ? value | UINT64_MAX << width : value;
            }
            put_number(&layout, 1, width);
            put_number(&layout, 2, integers[t].bits);
            put_varint(&layout, 3 << 3 | 2);
            put_varint(&layout, 0);
            put_number(&layout, 4, is_signed);
            wrap(&layout, LANCE_V20_BITPACKED);
            make_not_nullable(&layout);
            page_init(f, &page, integers[t].type, &layout, &data);
            check_fixed(f, &page, expected, integers[t].bits / 8);
            page_fini(&page);
            base_buffer_fini(&data);
        }
    }
}

/* Where FastLanes puts value `i` of a block: row and lane of words of `type_bits`. */
static void fast_lanes_place(uint32_t type_bits, uint32_t i, uint32_t *row, uint32_t *lane)
{
    static const uint32_t order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    uint32_t lanes = 1024 / type_bits;
    for (uint32_t r = 0; r < type_bits; r++)
        for (uint32_t l = 0; l < lanes; l++)
            if (order[r / 8] * 16 + r % 8 * 128 + l == i) {
                *row = r;
                *lane = l;
                return;
            }
    fail();
}

/* Blocks of 1024 in FastLanes order, packed bit by bit here. */
static void blocks_of_packed_values_are_read(void **state)
{
    struct fixture *f = *state;
    static uint64_t expected[ROWS];
    static uint32_t rows[1024], lanes[1024];
    uint64_t seed = 22;
    for (size_t t = 0; t < BASE_ARRAY_LEN(integers); t++) {
        uint32_t type_bits = integers[t].bits, lane_count = 1024 / type_bits;
        for (uint32_t i = 0; i < 1024; i++)
            fast_lanes_place(type_bits, i, &rows[i], &lanes[i]);
        for (uint32_t width = 1; width <= type_bits; width += type_bits / 8) {
            struct base_buffer layout, data;
            struct page page;
            base_buffer_init(&layout, 1 << 16);
            base_buffer_init(&data, 1 << 20);
            assert_int_equal(base_buffer_append_zeros(&data, 3 * 128 * (size_t)width, NULL),
                             LAKE_OK);
            for (uint32_t i = 0; i < ROWS; i++) {
                uint8_t *block = data.data + (size_t)(i / 1024) * 128 * width;
                expected[i] = random_next(&seed) >> (64 - width);
                for (uint32_t b = 0; b < width; b++) {
                    uint32_t bit = rows[i % 1024] * width + b; /* of the lane's words */
                    uint32_t word = bit / type_bits * lane_count + lanes[i % 1024];
                    uint32_t at = word * type_bits + bit % type_bits;
                    if ((expected[i] >> b & 1) != 0)
                        block[at / 8] |= (uint8_t)(1U << (at % 8));
                }
            }
            put_number(&layout, 1, width);
            put_number(&layout, 2, type_bits);
            put_varint(&layout, 3 << 3 | 2);
            put_varint(&layout, 0);
            wrap(&layout, LANCE_V20_BITPACKED_NON_NEGATIVE);
            make_not_nullable(&layout);
            page_init(f, &page, integers[t].type, &layout, &data);
            check_fixed(f, &page, expected, type_bits / 8);
            page_fini(&page);
            base_buffer_fini(&data);
        }
    }
}

static void strings_of_one_length_are_read(void **state)
{
    struct fixture *f = *state;
    struct base_buffer layout, data;
    struct lance_v20_leaf leaf;
    struct page page;
    char text[8];
    base_buffer_init(&layout, 1 << 16);
    base_buffer_init(&data, 1 << 20);
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(text, sizeof(text), "%05d", i);
        put(&data, text, 5);
    }
    put_number(&layout, 1, 8); /* flat { 8 bits, the only buffer } */
    put_varint(&layout, 2 << 3 | 2);
    put_varint(&layout, 0);
    wrap(&layout, LANCE_V20_FLAT);
    wrap(&layout, 1);
    put_number(&layout, 2, 5);
    wrap(&layout, LANCE_V20_FIXED_SIZE_BINARY);
    make_not_nullable(&layout);
    page_init(f, &page, "utf8", &layout, &data);
    OK(lance_v20_leaf_init(&leaf, (struct lance_column_source){&page.file, 0}, &page.type, NULL,
                           &f->err));
    for (size_t i = 0; i < BASE_ARRAY_LEN(ranges); i++) {
        OK(lance_v20_leaf_read(&leaf, ranges[i][0], ranges[i][1], &f->err));
        for (uint64_t k = 0; k < ranges[i][1]; k++) {
            uint64_t start, end;
            lance_leaf_values_range(&leaf.values, k, &start, &end);
            (void)snprintf(text, sizeof(text), "%05d", (int)(ranges[i][0] + k));
            assert_int_equal(end - start, 5);
            assert_memory_equal(leaf.values.data.data + start, text, 5);
        }
    }
    lance_v20_leaf_fini(&leaf);
    page_fini(&page);
    base_buffer_fini(&data);
}

/* A page that claims more rows than its buffer holds is refused before memory is taken. */
static void a_page_that_claims_too_much_is_refused(void **state)
{
    struct fixture *f = *state;
    struct base_buffer layout, data;
    struct lance_v20_leaf leaf;
    struct page page;
    base_buffer_init(&layout, 1 << 16);
    base_buffer_init(&data, 1 << 20);
    assert_int_equal(base_buffer_append_zeros(&data, 8 * ROWS - 1, NULL), LAKE_OK);
    put_number(&layout, 1, 64);
    put_varint(&layout, 2 << 3 | 2);
    put_varint(&layout, 0);
    wrap(&layout, LANCE_V20_FLAT);
    make_not_nullable(&layout);
    page_init(f, &page, "int64", &layout, &data);
    OK(lance_v20_leaf_init(&leaf, (struct lance_column_source){&page.file, 0}, &page.type, NULL,
                           &f->err));
    assert_int_equal(lance_v20_leaf_read(&leaf, 0, 1, &f->err), LAKE_DATA_LOSS);
    lance_v20_leaf_fini(&leaf);
    page_fini(&page);
    base_buffer_fini(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bit_packed_values_of_every_width_are_read),
        cmocka_unit_test(blocks_of_packed_values_are_read),
        cmocka_unit_test(strings_of_one_length_are_read),
        cmocka_unit_test(a_page_that_claims_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
