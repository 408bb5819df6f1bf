/* The codecs against definitions written out plainly here, and against broken input. */
#include "codec.h"

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

/* ---- FastLanes ---- */

/* The definition, one value and one bit at a time: row r, lane l holds element
 * O[r/8]*16 + (r%8)*128 + l; in each lane the rows' bits follow each other. */
static void pack_by_definition(uint32_t type_bits, uint32_t width, const uint64_t *values,
                               uint8_t *packed)
{
    static const uint32_t order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    uint32_t lanes = 1024 / type_bits;
    memset(packed, 0, (size_t)128 * width);
    for (uint32_t row = 0; row < type_bits; row++) {
        for (uint32_t lane = 0; lane < lanes; lane++) {
            uint64_t value = values[order[row / 8] * 16 + (row % 8) * 128 + lane];
            for (uint32_t bit = 0; bit < width; bit++) {
                uint32_t at = row * width + bit;
                uint32_t word = at / type_bits * lanes + lane;
                uint32_t place = word * type_bits + at % type_bits;
                packed[place / 8] |= (uint8_t)((value >> bit & 1) << (place % 8));
            }
        }
    }
}

static void bit_packing_follows_the_fastlanes_definition_for_every_width(void **state)
{
    static uint64_t values[1024], narrow[1024], unpacked[1024];
    static uint8_t expected[128 * 64], packed[128 * 64];
    (void)state;
    for (uint32_t type_bits = 8; type_bits <= 64; type_bits *= 2) {
        for (uint32_t width = 0; width <= type_bits; width++) {
            for (size_t i = 0; i < 1024; i++) {
                values[i] = width == 0 ? 0 : random_next() >> (64 - width);
                memcpy((uint8_t *)narrow + i * (type_bits / 8), &values[i], type_bits / 8);
            }
            pack_by_definition(type_bits, width, values, expected);
            lance_bits_pack(type_bits, width, (const uint8_t *)narrow, packed);
            assert_memory_equal(packed, expected, (size_t)128 * width);
            lance_bits_unpack(type_bits, width, expected, (uint8_t *)unpacked);
            assert_memory_equal(unpacked, narrow, (size_t)128 * type_bits);
            uint32_t needed = lance_bits_needed(type_bits, (const uint8_t *)narrow, 1024);
            assert_true(needed <= width);
        }
    }
}

static void bit_packing_works_at_any_alignment(void **state)
{
    static uint8_t packed[128 * 13 + 1], out[4096 + 3];
    static uint32_t values[1024];
    (void)state;
    for (size_t i = 0; i < 1024; i++)
        values[i] = (uint32_t)(random_next() & 8191);
    lance_bits_pack(32, 13, (const uint8_t *)values, packed + 1);
    lance_bits_unpack(32, 13, packed + 1, out + 3);
    assert_memory_equal(out + 3, values, sizeof(values));
}

/* ---- helpers ---- */

static struct lance_encoding flat(uint64_t bits)
{
    return (struct lance_encoding){.kind = LANCE_ENCODING_FLAT, .bits = bits};
}

static lake_status decode_fixed(const struct lance_encoding *encoding, struct lake_bytes a,
                                struct lake_bytes b, uint64_t count, uint64_t bits, void *out)
{
    struct lance_codec_context context;
    struct lake_bytes buffers[2] = {a, b};
    struct lake_error err = {0};
    lance_codec_context_init(&context);
    lake_status status = lance_chunk_decode_fixed(
        &context, encoding, (struct lance_chunk_buffers){buffers, b.data == NULL ? 1 : 2}, count,
        bits, out, &err);
    assert_int_equal(status, err.code);
    assert_int_equal(context.depth, 0);
    lance_codec_context_fini(&context);
    return status;
}

#define BYTES(array) ((struct lake_bytes){(const uint8_t *)(array), sizeof(array)})
#define NONE         ((struct lake_bytes){NULL, 0})

/* ---- run length ---- */

static void runs_expand_and_must_be_enough(void **state)
{
    struct lance_encoding values = flat(16), lengths = flat(8);
    struct lance_encoding rle = {
        .kind = LANCE_ENCODING_RLE, .values = &values, .lengths = &lengths};
    const uint16_t run_values[3] = {7, 0x1234, 9};
    const uint8_t run_lengths[3] = {2, 1, 3};
    uint16_t out[6];
    const uint16_t expected[6] = {7, 7, 0x1234, 9, 9, 9};
    (void)state;
    assert_int_equal(decode_fixed(&rle, BYTES(run_values), BYTES(run_lengths), 6, 16, out),
                     LAKE_OK);
    assert_memory_equal(out, expected, sizeof(expected));
    memset(out, 0, sizeof(out)); /* a chunk may end within a run, as those of older releases do */
    assert_int_equal(decode_fixed(&rle, BYTES(run_values), BYTES(run_lengths), 5, 16, out),
                     LAKE_OK);
    assert_memory_equal(out, expected, 10);
    assert_int_equal(out[5], 0);
    uint8_t block[8 + sizeof(run_values) + sizeof(run_lengths)] = {sizeof(run_values)};
    memcpy(block + 8, run_values, sizeof(run_values));
    memcpy(block + 8 + sizeof(run_values), run_lengths, sizeof(run_lengths));
    struct lance_codec_context context;
    struct lake_error err = {0};
    lance_codec_context_init(&context);
    assert_int_equal(
        lance_block_decode_fixed(&context, &rle, BYTES(block), 6, 16, (uint8_t *)out, &err),
        LAKE_OK);
    assert_memory_equal(out, expected, sizeof(expected));
    assert_int_equal(
        lance_block_decode_fixed(&context, &rle, BYTES(block), 5, 16, (uint8_t *)out, &err),
        LAKE_DATA_LOSS); /* a block is one whole */
    lance_codec_context_fini(&context);
    uint16_t longer[7];
    assert_int_equal(decode_fixed(&rle, BYTES(run_values), BYTES(run_lengths), 7, 16, longer),
                     LAKE_DATA_LOSS);
    struct lake_bytes short_values = {(const uint8_t *)run_values, 4};
    assert_int_equal(decode_fixed(&rle, short_values, BYTES(run_lengths), 6, 16, out),
                     LAKE_DATA_LOSS);
}

/* ---- byte stream split ---- */

static void split_planes_join_to_the_values(void **state)
{
    uint8_t values[8 * 77], planes[8 * 77], out[8 * 77];
    (void)state;
    for (uint32_t width = 4; width <= 8; width += 4) {
        for (uint64_t count = 0; count <= 77; count += 11) {
            for (size_t i = 0; i < sizeof(values); i++)
                values[i] = (uint8_t)random_next();
            for (uint64_t i = 0; i < count; i++)
                for (uint32_t k = 0; k < width; k++)
                    planes[k * count + i] = values[i * width + k];
            lance_bytes_join(width, count, planes, out);
            assert_memory_equal(out, values, count * width);
            lance_bytes_split(width, count, values, out);
            assert_memory_equal(out, planes, count * width);
        }
    }
}

/* ---- general ---- */

static void compressed_values_come_back_and_lies_about_size_are_refused(void **state)
{
    struct lance_encoding inner = flat(32);
    struct lance_encoding general = {.kind = LANCE_ENCODING_GENERAL, .values = &inner};
    struct lance_compressor compressor = {.level = 3};
    static uint32_t values[1000], out[1000];
    (void)state;
    for (size_t i = 0; i < 1000; i++)
        values[i] = (uint32_t)(i / 10);
    for (general.scheme = LANCE_LZ4; general.scheme <= LANCE_ZSTD; general.scheme++) {
        struct base_buffer buffer;
        base_buffer_init(&buffer, 1U << 20);
        assert_int_equal(
            lance_compress(&compressor, general.scheme, BYTES(values), 1, &buffer, NULL), LAKE_OK);
        struct lake_bytes whole = base_buffer_view(&buffer);
        assert_int_equal(decode_fixed(&general, whole, NONE, 1000, 32, out), LAKE_OK);
        assert_memory_equal(out, values, sizeof(values));
        struct lake_bytes cut = {whole.data, whole.size - 3};
        assert_int_equal(decode_fixed(&general, cut, NONE, 1000, 32, out), LAKE_DATA_LOSS);
        /* fewer bytes than the values need */
        assert_int_equal(decode_fixed(&general, whole, NONE, 1001, 32, out), LAKE_DATA_LOSS);
        base_store_u32le(buffer.data, 0x7FFFFFFF);
        assert_int_equal(decode_fixed(&general, whole, NONE, 1000, 32, out), LAKE_DATA_LOSS);
        base_buffer_fini(&buffer);
    }
    lance_compressor_fini(&compressor);
    general.scheme = 9;
    assert_int_equal(decode_fixed(&general, BYTES(values), NONE, 10, 32, out), LAKE_UNIMPLEMENTED);
}

/* Byte planes: one of noise, one of few values. Told apart, the noise costs what it is. */
static void parts_compressed_apart_are_smaller_than_mixed_and_one_frame(void **state)
{
    static uint8_t planes[2 * 8192];
    size_t sizes[2];
    (void)state;
    for (size_t i = 0; i < 8192; i++) {
        planes[i] = (uint8_t)random_next();
        planes[8192 + i] = (uint8_t)(random_next() % 5);
    }
    for (size_t parts = 1; parts <= 2; parts++) {
        struct lance_compressor compressor = {.level = 3};
        struct lance_codec_context context;
        struct base_buffer buffer, out;
        base_buffer_init(&buffer, 1U << 20);
        base_buffer_init(&out, 1U << 20);
        lance_codec_context_init(&context);
        assert_int_equal(
            lance_compress(&compressor, LANCE_ZSTD, BYTES(planes), parts, &buffer, NULL), LAKE_OK);
        assert_int_equal(lance_decompress(&context, LANCE_ZSTD, base_buffer_view(&buffer),
                                          sizeof(planes), &out, NULL),
                         LAKE_OK);
        assert_int_equal(out.size, sizeof(planes));
        assert_memory_equal(out.data, planes, sizeof(planes));
        sizes[parts - 1] = buffer.size;
        lance_codec_context_fini(&context);
        lance_compressor_fini(&compressor);
        base_buffer_fini(&out);
        base_buffer_fini(&buffer);
    }
    assert_true(sizes[1] < 8192 + 3600);
    assert_true(sizes[1] < sizes[0]);
}

/* ---- blocks ---- */

static lake_status decode_block(const struct lance_encoding *encoding, struct lake_bytes data,
                                uint64_t count, uint64_t bits, void *out)
{
    struct lance_codec_context context;
    lance_codec_context_init(&context);
    lake_status status = lance_block_decode_fixed(&context, encoding, data, count, bits, out, NULL);
    lance_codec_context_fini(&context);
    return status;
}

static void out_of_line_tails_are_told_apart_by_length(void **state)
{
    struct lance_encoding width = flat(3);
    struct lance_encoding packed = {
        .kind = LANCE_ENCODING_OUT_OF_LINE_BITPACKING, .bits = 16, .values = &width};
    static uint16_t values[2048], out[1024 + 100];
    static uint8_t data[128 * 3 * 2 + 2048];
    (void)state;
    for (size_t i = 0; i < 1124; i++)
        values[i] = (uint16_t)(random_next() & 7);
    lance_bits_pack(16, 3, (const uint8_t *)values, data);
    lance_bits_pack(16, 3, (const uint8_t *)(values + 1024), data + 384);
    struct lake_bytes padded = {data, 768};
    assert_int_equal(decode_block(&packed, padded, 1124, 16, out), LAKE_OK);
    assert_memory_equal(out, values, 1124 * 2);
    memcpy(data + 384, values + 1024, 200);
    struct lake_bytes raw = {data, 384 + 200};
    memset(out, 0, sizeof(out));
    assert_int_equal(decode_block(&packed, raw, 1124, 16, out), LAKE_OK);
    assert_memory_equal(out, values, 1124 * 2);
    struct lake_bytes cut = {data, 384 + 100};
    assert_int_equal(decode_block(&packed, cut, 1124, 16, out), LAKE_DATA_LOSS);
}

/* ---- FSST ---- */

static void make_table(uint8_t *bytes)
{
    static const char *const symbols[3] = {"robot", " ", "arm-axis"};
    memset(bytes, 0, 2312);
    base_store_u64le(bytes, (uint64_t)0x46535354 << 32 | 1U << 24 | 3);
    for (size_t i = 0; i < 3; i++) {
        memcpy(bytes + 8 + 8 * i, symbols[i], strlen(symbols[i]));
        bytes[8 + 8 * 3 + i] = (uint8_t)strlen(symbols[i]);
    }
}

static void fsst_codes_expand_to_their_symbols(void **state)
{
    uint8_t bytes[2312], out[64];
    const uint8_t data[] = {0, 1, 2, 255, '!'};
    struct lance_fsst_table table;
    size_t size;
    (void)state;
    make_table(bytes);
    assert_int_equal(lance_fsst_table_parse(BYTES(bytes), &table, NULL), LAKE_OK);
    assert_true(lance_fsst_decode(&table, data, sizeof(data), out, &size));
    assert_int_equal(size, 15);
    assert_memory_equal(out, "robot arm-axis!", 15);
    const uint8_t no_symbol[] = {3}, no_literal[] = {255};
    assert_false(lance_fsst_decode(&table, no_symbol, 1, out, &size));
    assert_false(lance_fsst_decode(&table, no_literal, 1, out, &size));
    bytes[7] = 0;
    assert_int_equal(lance_fsst_table_parse(BYTES(bytes), &table, NULL), LAKE_DATA_LOSS);
}

/* ---- descriptions ---- */

static void layouts_are_printed_as_they_are_parsed(void **state)
{
    struct base_arena *arena = NULL;
    struct base_buffer text, again;
    struct lance_encoding bits = flat(64),
                          split = {.kind = LANCE_ENCODING_BYTE_STREAM_SPLIT, .values = &bits};
    struct lance_encoding general = {
        .kind = LANCE_ENCODING_GENERAL, .scheme = LANCE_LZ4, .values = &split};
    struct lance_page_layout layout = {.kind = LANCE_MINI_BLOCK,
                                       .layers = {3, 6, 3},
                                       .layer_count = 3,
                                       .values = &general,
                                       .buffers_per_chunk = 1,
                                       .repetition_index_depth = 1,
                                       .item_count = 77,
                                       .has_large_chunk = true};
    struct lance_page_layout parsed;
    (void)state;
    base_buffer_init(&text, 1U << 16);
    base_buffer_init(&again, 1U << 16);
    assert_int_equal(base_arena_new(1U << 20, &arena, NULL), LAKE_OK);
    assert_int_equal(lance_page_layout_print(&layout, &text, NULL), LAKE_OK);
    assert_int_equal(lance_page_layout_parse(base_buffer_view(&text), arena, &parsed, NULL),
                     LAKE_OK);
    assert_int_equal(parsed.values->values->values->bits, 64);
    assert_int_equal(parsed.layers[1], 6);
    assert_int_equal(lance_page_layout_print(&parsed, &again, NULL), LAKE_OK);
    assert_true(base_bytes_equal(base_buffer_view(&text), base_buffer_view(&again)));
    for (size_t cut = 0; cut < text.size; cut++)
        assert_int_not_equal(
            lance_page_layout_parse((struct lake_bytes){text.data, cut}, arena, &parsed, NULL),
            LAKE_OK);
    base_arena_free(arena);
    base_buffer_fini(&text);
    base_buffer_fini(&again);
}

/* Every range of a chunk is what stands there; one value too few in the buffer is damage. */
static void ranges_of_a_chunk_are_its_values(void **state)
{
    enum {
        COUNT = 700
    };
    static uint8_t values[8 * COUNT], stored[8 * COUNT], out[8 * COUNT];
    struct lance_compressor compressor = {.level = 3};
    (void)state;
    for (size_t i = 0; i < sizeof(values); i++)
        values[i] = (uint8_t)random_next();
    for (unsigned form = 0; form < 8; form++) {
        uint32_t width = form & 1 ? 8 : 4;
        size_t bytes = (size_t)COUNT * width;
        struct lance_encoding inner = flat(width * 8);
        struct lance_encoding split = {.kind = LANCE_ENCODING_BYTE_STREAM_SPLIT, .values = &inner};
        struct lance_encoding general = {.kind = LANCE_ENCODING_GENERAL,
                                         .scheme = LANCE_LZ4,
                                         .values = form & 2 ? &split : &inner};
        const struct lance_encoding *encoding = form & 4 ? &general : general.values;
        struct lance_codec_context context;
        struct lance_open_chunk chunk;
        struct base_buffer data;
        lance_codec_context_init(&context);
        base_buffer_init(&chunk.data, 1U << 20);
        base_buffer_init(&data, 1U << 20);
        memcpy(stored, values, bytes);
        if (form & 2)
            lance_bytes_split(width, COUNT, values, stored);
        struct lake_bytes plain = {stored, bytes};
        if (form & 4)
            assert_int_equal(lance_compress(&compressor, LANCE_LZ4, plain, 1, &data, NULL),
                             LAKE_OK);
        else
            assert_int_equal(base_buffer_append(&data, stored, bytes, NULL), LAKE_OK);
        assert_true(lance_chunk_has_ranges(encoding));
        assert_int_equal(lance_chunk_open(&context, encoding, base_buffer_view(&data), COUNT,
                                          width * 8, &chunk, NULL),
                         LAKE_OK);
        for (uint64_t first = 0; first < COUNT; first += 1 + random_next() % 90) {
            uint64_t count = 1 + random_next() % (COUNT - first);
            assert_int_equal(lance_chunk_decode_range(&chunk, first, count, out, NULL), LAKE_OK);
            assert_memory_equal(out, values + first * width, count * width);
        }
        chunk.count = COUNT + 1;
        assert_int_equal(lance_chunk_decode_range(&chunk, 0, 1, out, NULL), LAKE_DATA_LOSS);
        base_buffer_fini(&data);
        base_buffer_fini(&chunk.data);
        lance_codec_context_fini(&context);
    }
    struct lance_encoding packed = {.kind = LANCE_ENCODING_INLINE_BITPACKING, .bits = 32};
    assert_false(lance_chunk_has_ranges(&packed));
    assert_false(lance_chunk_has_ranges(NULL));
    lance_compressor_fini(&compressor);
}

/* general(general(general(… nested without end must stop at a depth, not at the stack's end. */
static void deeply_nested_encodings_are_refused(void **state)
{
    struct base_arena *arena = NULL;
    struct lance_encoding nodes[LANCE_MAX_ENCODING_DEPTH + 3];
    struct lance_page_layout parsed,
        layout = {.kind = LANCE_MINI_BLOCK, .layers = {1}, .layer_count = 1, .values = &nodes[0]};
    struct base_buffer text;
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(nodes); i++)
        nodes[i] = (struct lance_encoding){.kind = LANCE_ENCODING_GENERAL, .scheme = LANCE_LZ4};
    for (size_t i = 0; i + 1 < BASE_ARRAY_LEN(nodes); i++)
        nodes[i].values = &nodes[i + 1];
    nodes[BASE_ARRAY_LEN(nodes) - 1] = flat(8);
    base_buffer_init(&text, 1U << 16);
    assert_int_equal(base_arena_new(1U << 20, &arena, NULL), LAKE_OK);
    assert_int_equal(lance_page_layout_print(&layout, &text, NULL), LAKE_OK);
    assert_int_equal(lance_page_layout_parse(base_buffer_view(&text), arena, &parsed, NULL),
                     LAKE_UNIMPLEMENTED);
    base_arena_free(arena);
    base_buffer_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bit_packing_follows_the_fastlanes_definition_for_every_width),
        cmocka_unit_test(bit_packing_works_at_any_alignment),
        cmocka_unit_test(runs_expand_and_must_be_enough),
        cmocka_unit_test(split_planes_join_to_the_values),
        cmocka_unit_test(compressed_values_come_back_and_lies_about_size_are_refused),
        cmocka_unit_test(parts_compressed_apart_are_smaller_than_mixed_and_one_frame),
        cmocka_unit_test(out_of_line_tails_are_told_apart_by_length),
        cmocka_unit_test(fsst_codes_expand_to_their_symbols),
        cmocka_unit_test(layouts_are_printed_as_they_are_parsed),
        cmocka_unit_test(ranges_of_a_chunk_are_its_values),
        cmocka_unit_test(deeply_nested_encodings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
