/* libs: lance */
/*
 * Each compressive encoding on its own, in both of its uses.
 *
 * Input: u8 number of the encoding, u8 use (chunk or block, fixed or variable), u16 count of
 * values, u8 log2 of their bits, u8 number of buffers, u16 bytes of the encoding's body, u16 bytes
 * of each buffer but the last, the body, the buffers. The encoding's number is put in front of the
 * body, so that every one has its share.
 */
#include "leaf.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BUFFERS 4
#define MAX_COUNT   8192

struct input {
    uint8_t kind, use, log2, buffers;
    uint16_t count;
    struct lake_bytes body;
    struct lake_bytes data[MAX_BUFFERS];
};

static bool parse(struct lake_bytes bytes, struct input *out)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    uint16_t body = 0, sizes[MAX_BUFFERS];
    if (!base_cursor_u8(&cursor, &out->kind) || !base_cursor_u8(&cursor, &out->use) ||
        !base_cursor_u16le(&cursor, &out->count) || !base_cursor_u8(&cursor, &out->log2) ||
        !base_cursor_u8(&cursor, &out->buffers) || !base_cursor_u16le(&cursor, &body))
        return false;
    out->buffers = (uint8_t)(1 + out->buffers % MAX_BUFFERS);
    for (uint8_t i = 0; i + 1 < out->buffers; i++)
        if (!base_cursor_u16le(&cursor, &sizes[i]))
            return false;
    if (!base_cursor_take(&cursor, body, &out->body))
        return false;
    for (uint8_t i = 0; i + 1 < out->buffers; i++)
        if (!base_cursor_take(&cursor, sizes[i], &out->data[i]))
            return false;
    return base_cursor_take(&cursor, base_cursor_left(&cursor), &out->data[out->buffers - 1]);
}

/* The encoding as a mini-block page would hold it. */
static bool parse_encoding(const struct input *input, struct base_arena *arena,
                           struct lance_page_layout *out)
{
    struct base_buffer inner, middle, outer;
    uint64_t kind = 1 + input->kind % LANCE_ENCODING_VARIABLE_PACKED_STRUCT;
    static const uint8_t layers[] = {6 << 3 | 2, 1, 1};
    base_buffer_init(&inner, 1 << 20);
    base_buffer_init(&middle, 1 << 20);
    base_buffer_init(&outer, 1 << 20);
    lake_status status = base_buffer_append_varint(&inner, kind << 3 | 2, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&inner, input->body.size, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append(&inner, input->body.data, input->body.size, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&middle, 3 << 3 | 2, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&middle, inner.size, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append(&middle, inner.data, inner.size, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append(&middle, layers, sizeof(layers), NULL);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&outer, 1 << 3 | 2, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(&outer, middle.size, NULL);
    if (status == LAKE_OK)
        status = base_buffer_append(&outer, middle.data, middle.size, NULL);
    uint8_t *copy = base_arena_alloc(arena, outer.size + 1);
    if (status == LAKE_OK && copy != NULL) {
        memcpy(copy, outer.data, outer.size);
        status = lance_page_layout_parse((struct lake_bytes){copy, outer.size}, arena, out, NULL);
    }
    bool good = status == LAKE_OK && copy != NULL;
    base_buffer_fini(&inner);
    base_buffer_fini(&middle);
    base_buffer_fini(&outer);
    return good;
}

static void append_view(const struct lance_variable_view *view)
{
    static const struct lance_leaf_type type = {
        .kind = LANCE_LEAF_VARIABLE, .items = 1, .offset_bytes = 4};
    struct lance_leaf_values values;
    lance_leaf_values_init(&values, &type);
    (void)lance_leaf_values_append_view(&values, view, 0, view->count, NULL);
    lance_leaf_values_fini(&values);
}

static void decode(const struct input *input, const struct lance_encoding *encoding)
{
    struct lance_codec_context context;
    struct lance_variable_view view;
    struct lake_bytes buffers[MAX_BUFFERS];
    struct lance_chunk_buffers chunk = {buffers, input->buffers};
    uint64_t count = input->count % (MAX_COUNT + 1), bits = (uint64_t)1 << input->log2 % 9;
    memcpy(buffers, input->data, sizeof(buffers));
    lance_codec_context_init(&context);
    bits = bits == 2 || bits == 4 ? 24 : bits;
    uint8_t *out = calloc((size_t)(count * bits + 7) / 8 + 8, 1);
    if (out == NULL)
        abort();
    switch (input->use % 4) {
    case 0:
        (void)lance_chunk_decode_fixed(&context, encoding, chunk, count, bits, out, NULL);
        break;
    case 1:
        if (lance_chunk_decode_variable(&context, encoding, chunk, count, &view, NULL) == LAKE_OK)
            append_view(&view);
        break;
    case 2:
        (void)lance_block_decode_fixed(&context, encoding, input->data[0], count, bits, out, NULL);
        break;
    default:
        if (lance_block_decode_variable(&context, encoding, input->data[0], count, &view, NULL) ==
            LAKE_OK)
            append_view(&view);
        break;
    }
    free(out);
    lance_codec_context_fini(&context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {0};
    struct base_arena *arena = NULL;
    struct lance_page_layout layout;
    if (size == 0 || !parse((struct lake_bytes){data, size}, &input) ||
        base_arena_new((size_t)64 << 20, &arena, NULL) != LAKE_OK)
        return 0;
    if (parse_encoding(&input, arena, &layout))
        decode(&input, layout.values);
    base_arena_free(arena);
    return 0;
}
