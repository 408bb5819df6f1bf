/*
 * Page layouts read and printed. The layout (which kind of page, its layers) is taken apart here,
 * the tree of encodings inside it by lance_oneof_parse (wire.c), as for storage 2.0
 * (v20_encoding.c).
 */
#include "page_layout.h"

#include "codec.h"
#include "wire.h"

bool lance_layer_is_list(uint8_t layer)
{
    return layer == LANCE_ALL_VALID_LIST || (layer >= LANCE_NULLABLE_LIST && layer <= 6);
}

uint32_t lance_layer_def_levels(uint8_t layer)
{
    switch (layer) {
    case LANCE_NULLABLE_ITEM:
    case LANCE_NULLABLE_LIST:
    case LANCE_EMPTYABLE_LIST:
        return 1;
    case LANCE_NULL_AND_EMPTY_LIST:
        return 2;
    default:
        return 0;
    }
}

const char *lance_encoding_name(enum lance_encoding_kind kind)
{
    static const char *const names[] = {"unknown",
                                        "flat",
                                        "variable",
                                        "constant",
                                        "out-of-line bitpacking",
                                        "inline bitpacking",
                                        "fsst",
                                        "dictionary",
                                        "rle",
                                        "byte stream split",
                                        "general",
                                        "fixed-size list",
                                        "packed struct",
                                        "variable packed struct"};
    return (size_t)kind < BASE_ARRAY_LEN(names) ? names[kind] : names[0];
}

/* ---- parsing ---- */

static lake_status parse_encoding(struct lake_bytes message, unsigned depth,
                                  struct base_arena *arena, const struct lance_encoding **out,
                                  struct lake_error *err);

static lake_status parse_compression(struct lake_bytes message, struct lance_encoding *node,
                                     struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    while (lance_wire_next(&cursor, &field, &failed)) {
        if (field.number == 1)
            node->scheme = (uint32_t)field.value;
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

static lake_status parse_member_bits(const struct lance_wire_field *field, struct base_arena *arena,
                                     struct lance_encoding *node, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(field->bytes);
    bool packed = field->wire_type == 2;
    if (node->member_bits == NULL) {
        node->member_bits =
            base_arena_calloc_array(arena, LANCE_MAX_PACKED_MEMBERS, sizeof(*node->member_bits));
        if (node->member_bits == NULL)
            return base_fail_no_memory(err, LANCE_MAX_PACKED_MEMBERS * sizeof(uint64_t));
    }
    while (!packed || base_cursor_left(&cursor) > 0) {
        uint64_t bits = field->value;
        if (packed && !base_cursor_varint(&cursor, &bits))
            return lance_encoding_broken(err);
        if (node->member_count == LANCE_MAX_PACKED_MEMBERS)
            return lake_fail(err, LAKE_UNIMPLEMENTED, "a packed struct has more than %d members",
                             LANCE_MAX_PACKED_MEMBERS);
        node->member_bits[node->member_count++] = bits;
        if (!packed)
            break;
    }
    return LAKE_OK;
}

/* One field of a variable packed struct: {1 value, 2 bits_per_value | 3 bits_per_length}. */
static lake_status parse_member(struct lake_bytes message, unsigned depth, struct base_arena *arena,
                                struct lance_packed_member *out, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    while (lance_wire_next(&cursor, &field, &failed)) {
        lake_status status = LAKE_OK;
        if (field.number == 1 && field.wire_type == 2)
            status = parse_encoding(field.bytes, depth + 1, arena, &out->value, err);
        else if ((field.number == 2 || field.number == 3) && field.wire_type == 0) {
            out->bits = field.value;
            out->variable = field.number == 3;
        }
        if (status != LAKE_OK)
            return status;
    }
    if (failed)
        return lance_encoding_broken(err);
    if (out->value == NULL || out->bits == 0 || out->bits % 8 != 0)
        return lake_fail(err, LAKE_DATA_LOSS, "a member of a packed struct has no encoding");
    return LAKE_OK;
}

static lake_status parse_members(struct lake_bytes message, unsigned depth,
                                 struct base_arena *arena, struct lance_encoding *node,
                                 struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message), counter = cursor;
    struct lance_wire_field field;
    size_t count = 0;
    bool failed;
    while (lance_wire_next(&counter, &field, &failed))
        count += field.number == 1 && field.wire_type == 2;
    if (failed)
        return lance_encoding_broken(err);
    if (count > LANCE_MAX_PACKED_MEMBERS)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a packed struct has more than %d members",
                         LANCE_MAX_PACKED_MEMBERS);
    node->members = base_arena_calloc_array(arena, count + 1, sizeof(*node->members));
    if (node->members == NULL)
        return base_fail_no_memory(err, count * sizeof(*node->members));
    while (lance_wire_next(&cursor, &field, &failed)) {
        if (field.number != 1 || field.wire_type != 2)
            continue;
        lake_status status =
            parse_member(field.bytes, depth, arena, &node->members[node->member_count++], err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* Which field of the codec's message holds the encoding inside it, 0 for none. */
static uint32_t values_field(enum lance_encoding_kind kind)
{
    switch (kind) {
    case LANCE_ENCODING_OUT_OF_LINE_BITPACKING:
    case LANCE_ENCODING_GENERAL:
        return 3;
    case LANCE_ENCODING_FSST:
    case LANCE_ENCODING_FIXED_SIZE_LIST:
    case LANCE_ENCODING_PACKED_STRUCT:
        return 2;
    case LANCE_ENCODING_RLE:
    case LANCE_ENCODING_BYTE_STREAM_SPLIT:
        return 1;
    default:
        return 0;
    }
}

static uint32_t lengths_field(enum lance_encoding_kind kind)
{
    switch (kind) {
    case LANCE_ENCODING_VARIABLE:
        return 1;
    case LANCE_ENCODING_RLE:
        return 2;
    default:
        return 0;
    }
}

static lake_status parse_symbols(struct lake_bytes bytes, struct base_arena *arena,
                                 struct lance_encoding *node, struct lake_error *err)
{
    struct lance_fsst_table *table = base_arena_alloc(arena, sizeof(*table));
    if (table == NULL)
        return base_fail_no_memory(err, sizeof(*table));
    node->bytes = bytes;
    node->symbols = table;
    return lance_fsst_table_parse(bytes, table, err);
}

/* The fields that are neither `values` nor `lengths`. */
static lake_status parse_own_field(const struct lance_wire_field *field, struct base_arena *arena,
                                   struct lance_encoding *node, struct lake_error *err)
{
    switch (node->kind) {
    case LANCE_ENCODING_FLAT:
    case LANCE_ENCODING_INLINE_BITPACKING:
        if (field->number == 1)
            node->bits = field->value;
        else if (field->number == 2)
            node->compressed = true;
        return LAKE_OK;
    case LANCE_ENCODING_OUT_OF_LINE_BITPACKING:
        if (field->number == 1)
            node->bits = field->value;
        return LAKE_OK;
    case LANCE_ENCODING_VARIABLE:
        if (field->number == 2)
            node->compressed = true;
        return LAKE_OK;
    case LANCE_ENCODING_CONSTANT:
        if (field->number == 1)
            node->bytes = field->bytes;
        return LAKE_OK;
    case LANCE_ENCODING_FSST:
        return field->number == 1 ? parse_symbols(field->bytes, arena, node, err) : LAKE_OK;
    case LANCE_ENCODING_GENERAL:
        return field->number == 1 ? parse_compression(field->bytes, node, err) : LAKE_OK;
    case LANCE_ENCODING_FIXED_SIZE_LIST:
        if (field->number == 1)
            node->items = field->value;
        else if (field->number == 3)
            node->has_validity = field->value != 0;
        return LAKE_OK;
    case LANCE_ENCODING_PACKED_STRUCT:
        return field->number == 1 ? parse_member_bits(field, arena, node, err) : LAKE_OK;
    default:
        return LAKE_OK;
    }
}

static lake_status parse_codec(struct lake_bytes message, unsigned depth, struct base_arena *arena,
                               struct lance_encoding *node, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    if (node->kind == LANCE_ENCODING_VARIABLE_PACKED_STRUCT)
        return parse_members(message, depth, arena, node, err);
    while (lance_wire_next(&cursor, &field, &failed)) {
        lake_status status;
        if (field.wire_type == 2 && field.number == values_field(node->kind))
            status = parse_encoding(field.bytes, depth + 1, arena, &node->values, err);
        else if (field.wire_type == 2 && field.number == lengths_field(node->kind))
            status = parse_encoding(field.bytes, depth + 1, arena, &node->lengths, err);
        else
            status = parse_own_field(&field, arena, node, err);
        if (status != LAKE_OK)
            return status;
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

static lake_status parse_node(uint32_t number, struct lake_bytes message, unsigned depth,
                              struct base_arena *arena, void *out, struct lake_error *err)
{
    struct lance_encoding *node = out;
    node->kind = (enum lance_encoding_kind)number;
    return parse_codec(message, depth, arena, node, err);
}

static lake_status parse_encoding(struct lake_bytes message, unsigned depth,
                                  struct base_arena *arena, const struct lance_encoding **out,
                                  struct lake_error *err)
{
    static const struct lance_oneof oneof = {.last = LANCE_ENCODING_VARIABLE_PACKED_STRUCT,
                                             .max_depth = LANCE_MAX_ENCODING_DEPTH,
                                             .node_bytes = sizeof(struct lance_encoding),
                                             .parse = parse_node};
    const void *node;
    lake_status status = lance_oneof_parse(&oneof, message, depth, arena, &node, err);
    if (status == LAKE_OK)
        *out = node;
    return status;
}

static lake_status add_layer(struct lance_page_layout *out, uint64_t layer, struct lake_error *err)
{
    if (layer < LANCE_ALL_VALID_ITEM || layer > LANCE_NULL_AND_EMPTY_LIST)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "unknown kind of layer %llu",
                         (unsigned long long)layer);
    if (out->layer_count == LANCE_MAX_LAYERS)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a column is nested deeper than %d",
                         LANCE_MAX_NESTING);
    out->layers[out->layer_count++] = (uint8_t)layer;
    return LAKE_OK;
}

static lake_status parse_layers(const struct lance_wire_field *field, struct lance_page_layout *out,
                                struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(field->bytes);
    if (field->wire_type == 0)
        return add_layer(out, field->value, err);
    while (base_cursor_left(&cursor) > 0) {
        uint64_t layer;
        if (!base_cursor_varint(&cursor, &layer))
            return lance_encoding_broken(err);
        lake_status status = add_layer(out, layer, err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static lake_status parse_mini_block_field(const struct lance_wire_field *field,
                                          struct base_arena *arena, struct lance_page_layout *out,
                                          struct lake_error *err)
{
    switch (field->number) {
    case 1:
        return parse_encoding(field->bytes, 1, arena, &out->rep, err);
    case 2:
        return parse_encoding(field->bytes, 1, arena, &out->def, err);
    case 3:
        return parse_encoding(field->bytes, 1, arena, &out->values, err);
    case 4:
        return parse_encoding(field->bytes, 1, arena, &out->dictionary, err);
    case 5:
        out->dictionary_items = field->value;
        return LAKE_OK;
    case 6:
        return parse_layers(field, out, err);
    case 7:
        out->buffers_per_chunk = field->value;
        return LAKE_OK;
    case 8:
        out->repetition_index_depth = (uint32_t)field->value;
        return LAKE_OK;
    case 9:
        out->item_count = field->value;
        return LAKE_OK;
    case 10:
        out->has_large_chunk = field->value != 0;
        return LAKE_OK;
    default:
        return LAKE_OK;
    }
}

static lake_status parse_constant_field(const struct lance_wire_field *field,
                                        struct base_arena *arena, struct lance_page_layout *out,
                                        struct lake_error *err)
{
    switch (field->number) {
    case 5:
        return parse_layers(field, out, err);
    case 6:
        out->has_inline_value = true;
        out->inline_value = field->bytes;
        return LAKE_OK;
    case 7:
        return parse_encoding(field->bytes, 1, arena, &out->rep, err);
    case 8:
        return parse_encoding(field->bytes, 1, arena, &out->def, err);
    case 9:
        out->rep_value_count = field->value;
        return LAKE_OK;
    case 10:
        out->def_value_count = field->value;
        return LAKE_OK;
    default:
        return LAKE_OK;
    }
}

static lake_status parse_full_zip_field(const struct lance_wire_field *field,
                                        struct base_arena *arena, struct lance_page_layout *out,
                                        struct lake_error *err)
{
    switch (field->number) {
    case 1:
        out->bits_rep = (uint32_t)field->value;
        return LAKE_OK;
    case 2:
        out->bits_def = (uint32_t)field->value;
        return LAKE_OK;
    case 3:
        out->bits_per_value = field->value;
        return LAKE_OK;
    case 4:
        out->bits_per_offset = (uint32_t)field->value;
        return LAKE_OK;
    case 5:
        out->item_count = field->value;
        return LAKE_OK;
    case 6:
        out->visible_item_count = field->value;
        return LAKE_OK;
    case 7:
        return parse_encoding(field->bytes, 1, arena, &out->values, err);
    case 8:
        return parse_layers(field, out, err);
    default:
        return LAKE_OK;
    }
}

static lake_status parse_layout(struct lake_bytes message, bool may_be_blob,
                                struct base_arena *arena, struct lance_page_layout *out,
                                struct lake_error *err);

static lake_status parse_layout_kind(const struct lance_wire_field *outer, struct base_arena *arena,
                                     struct lance_page_layout *out, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(outer->bytes);
    struct lance_wire_field field;
    bool failed;
    out->kind = (enum lance_layout_kind)outer->number;
    while (lance_wire_next_value(&cursor, &field, &failed)) {
        lake_status status;
        if (out->kind == LANCE_MINI_BLOCK)
            status = parse_mini_block_field(&field, arena, out, err);
        else if (out->kind == LANCE_CONSTANT_PAGE)
            status = parse_constant_field(&field, arena, out, err);
        else
            status = parse_full_zip_field(&field, arena, out, err);
        if (status != LAKE_OK)
            return status;
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

/* A blob page's descriptions are a page of their own kind inside it, one level deep. */
static lake_status parse_blob(struct lake_bytes message, struct base_arena *arena,
                              struct lance_page_layout *out, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    out->kind = LANCE_BLOB_PAGE;
    while (lance_wire_next_value(&cursor, &field, &failed)) {
        lake_status status = LAKE_OK;
        if (field.number == 1 && field.wire_type == 2) {
            struct lance_page_layout *inner = base_arena_calloc_array(arena, 1, sizeof(*inner));
            if (inner == NULL)
                return base_fail_no_memory(err, sizeof(*inner));
            status = parse_layout(field.bytes, false, arena, inner, err);
            out->descriptions = inner;
        } else if (field.number == 2) {
            status = parse_layers(&field, out, err);
        }
        if (status != LAKE_OK)
            return status;
    }
    if (failed)
        return lance_encoding_broken(err);
    if (out->descriptions == NULL || out->descriptions->layer_count != 1 ||
        out->descriptions->layers[0] != LANCE_ALL_VALID_ITEM)
        return lake_fail(err, LAKE_DATA_LOSS, "a blob page has no descriptions");
    return LAKE_OK;
}

static lake_status parse_layout(struct lake_bytes message, bool may_be_blob,
                                struct base_arena *arena, struct lance_page_layout *out,
                                struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_page_layout layout = {0};
    struct lance_wire_field field;
    bool failed;
    while (lance_wire_next(&cursor, &field, &failed)) {
        bool blob = field.number == LANCE_BLOB_PAGE && may_be_blob;
        if (field.wire_type != 2 || field.number < LANCE_MINI_BLOCK ||
            (field.number > LANCE_FULL_ZIP && !blob))
            return lake_fail(err, LAKE_UNIMPLEMENTED, "unknown page layout number %u",
                             field.number);
        layout = (struct lance_page_layout){0};
        lake_status status = blob ? parse_blob(field.bytes, arena, &layout, err)
                                  : parse_layout_kind(&field, arena, &layout, err);
        if (status != LAKE_OK)
            return status;
    }
    if (failed)
        return lance_encoding_broken(err);
    if ((int)layout.kind == 0 || layout.layer_count == 0)
        return lake_fail(err, LAKE_DATA_LOSS, "the page has no layout");
    if (layout.values == NULL && (layout.kind == LANCE_MINI_BLOCK || layout.kind == LANCE_FULL_ZIP))
        return lake_fail(err, LAKE_DATA_LOSS, "the page's layout says no value encoding");
    *out = layout;
    return LAKE_OK;
}

lake_status lance_page_layout_parse(struct lake_bytes message, struct base_arena *arena,
                                    struct lance_page_layout *out, struct lake_error *err)
{
    return parse_layout(message, true, arena, out, err);
}

/* ---- printing ---- */

#define MAX_LAYOUT_BYTES (1U << 20)

static lake_status print_number(struct base_buffer *out, uint32_t field, uint64_t value,
                                struct lake_error *err)
{
    if (value == 0)
        return LAKE_OK; /* proto3's default is not written */
    lake_status status = base_buffer_append_varint(out, (uint64_t)field << 3, err);
    return status != LAKE_OK ? status : base_buffer_append_varint(out, value, err);
}

static lake_status print_bytes(struct base_buffer *out, uint32_t field, struct lake_bytes bytes,
                               struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, (uint64_t)field << 3 | 2, err);
    if (status == LAKE_OK)
        status = base_buffer_append_varint(out, bytes.size, err);
    return status != LAKE_OK ? status : base_buffer_append(out, bytes.data, bytes.size, err);
}

static lake_status print_encoding(struct base_buffer *out, uint32_t field,
                                  const struct lance_encoding *node, struct lake_error *err);

static lake_status print_codec(struct base_buffer *out, const struct lance_encoding *node,
                               struct lake_error *err)
{
    lake_status status = LAKE_OK;
    switch (node->kind) {
    case LANCE_ENCODING_FLAT:
    case LANCE_ENCODING_INLINE_BITPACKING:
    case LANCE_ENCODING_OUT_OF_LINE_BITPACKING:
        status = print_number(out, 1, node->bits, err);
        break;
    case LANCE_ENCODING_GENERAL: {
        const uint8_t compression[2] = {1 << 3, (uint8_t)node->scheme};
        status = print_bytes(out, 1, (struct lake_bytes){compression, 2}, err);
        break;
    }
    case LANCE_ENCODING_FIXED_SIZE_LIST:
        status = print_number(out, 1, node->items, err);
        if (status == LAKE_OK)
            status = print_number(out, 3, node->has_validity, err);
        break;
    case LANCE_ENCODING_FSST:
    case LANCE_ENCODING_CONSTANT:
        status = print_bytes(out, 1, node->bytes, err);
        break;
    default:
        break;
    }
    if (status == LAKE_OK && node->values != NULL)
        status = print_encoding(out, values_field(node->kind), node->values, err);
    if (status == LAKE_OK && node->lengths != NULL)
        status = print_encoding(out, lengths_field(node->kind), node->lengths, err);
    return status;
}

static lake_status print_encoding(struct base_buffer *out, uint32_t field,
                                  const struct lance_encoding *node, struct lake_error *err)
{
    struct base_buffer codec, wrapped;
    lake_status status;
    if (node == NULL)
        return LAKE_OK;
    base_buffer_init(&codec, MAX_LAYOUT_BYTES);
    base_buffer_init(&wrapped, MAX_LAYOUT_BYTES);
    status = print_codec(&codec, node, err);
    if (status == LAKE_OK)
        status = print_bytes(&wrapped, (uint32_t)node->kind, base_buffer_view(&codec), err);
    if (status == LAKE_OK)
        status = print_bytes(out, field, base_buffer_view(&wrapped), err);
    base_buffer_fini(&wrapped);
    base_buffer_fini(&codec);
    return status;
}

#define TRY(call)              \
    do {                       \
        status = (call);       \
        if (status != LAKE_OK) \
            return status;     \
    } while (0)

static lake_status print_mini_block(const struct lance_page_layout *layout, struct base_buffer *out,
                                    struct lake_error *err)
{
    lake_status status;
    TRY(print_encoding(out, 1, layout->rep, err));
    TRY(print_encoding(out, 2, layout->def, err));
    TRY(print_encoding(out, 3, layout->values, err));
    TRY(print_encoding(out, 4, layout->dictionary, err));
    TRY(print_number(out, 5, layout->dictionary_items, err));
    TRY(print_bytes(out, 6, (struct lake_bytes){layout->layers, layout->layer_count}, err));
    TRY(print_number(out, 7, layout->buffers_per_chunk, err));
    TRY(print_number(out, 8, layout->repetition_index_depth, err));
    TRY(print_number(out, 9, layout->item_count, err));
    return print_number(out, 10, layout->has_large_chunk, err);
}

static lake_status print_constant(const struct lance_page_layout *layout, struct base_buffer *out,
                                  struct lake_error *err)
{
    lake_status status;
    TRY(print_bytes(out, 5, (struct lake_bytes){layout->layers, layout->layer_count}, err));
    if (layout->has_inline_value)
        TRY(print_bytes(out, 6, layout->inline_value, err));
    TRY(print_encoding(out, 7, layout->rep, err));
    TRY(print_encoding(out, 8, layout->def, err));
    TRY(print_number(out, 9, layout->rep_value_count, err));
    return print_number(out, 10, layout->def_value_count, err);
}

static lake_status print_full_zip(const struct lance_page_layout *layout, struct base_buffer *out,
                                  struct lake_error *err)
{
    lake_status status;
    TRY(print_number(out, 1, layout->bits_rep, err));
    TRY(print_number(out, 2, layout->bits_def, err));
    TRY(print_number(out, 3, layout->bits_per_value, err));
    TRY(print_number(out, 4, layout->bits_per_offset, err));
    TRY(print_number(out, 5, layout->item_count, err));
    TRY(print_number(out, 6, layout->visible_item_count, err));
    TRY(print_encoding(out, 7, layout->values, err));
    return print_bytes(out, 8, (struct lake_bytes){layout->layers, layout->layer_count}, err);
}

lake_status lance_page_layout_print(const struct lance_page_layout *layout, struct base_buffer *out,
                                    struct lake_error *err)
{
    struct base_buffer inner;
    lake_status status;
    base_buffer_init(&inner, MAX_LAYOUT_BYTES);
    if (layout->kind == LANCE_MINI_BLOCK)
        status = print_mini_block(layout, &inner, err);
    else if (layout->kind == LANCE_CONSTANT_PAGE)
        status = print_constant(layout, &inner, err);
    else
        status = print_full_zip(layout, &inner, err);
    if (status == LAKE_OK)
        status = print_bytes(out, (uint32_t)layout->kind, base_buffer_view(&inner), err);
    base_buffer_fini(&inner);
    return status;
}
