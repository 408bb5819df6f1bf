#include "v20_encoding.h"

#include "page_layout.h"
#include "wire.h"

/* Buffer { 1 index, 2 where: 0 the page, 1 the column, 2 the file } */
static lake_status parse_buffer(struct lake_bytes message, struct lance_v20_encoding *node,
                                struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    while (lance_wire_next_value(&cursor, &field, &failed)) {
        if (field.number == 1 && field.value < UINT32_MAX)
            node->buffer = (uint32_t)field.value;
        else if (field.number == 1)
            return lance_encoding_broken(err);
        else if (field.number == 2 && field.value != 0)
            return lake_fail(err, LAKE_UNIMPLEMENTED, "a buffer outside the page");
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

/* Compression { 1 scheme as text } */
static lake_status parse_compression(struct lake_bytes message, struct lance_v20_encoding *node,
                                     struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    while (lance_wire_next_value(&cursor, &field, &failed)) {
        struct lake_str name = {(const char *)field.bytes.data, field.bytes.size};
        if (field.number != 1 || field.wire_type != 2)
            continue;
        if (base_str_equal_c(name, "zstd"))
            node->scheme = LANCE_ZSTD;
        else if (base_str_equal_c(name, "lz4"))
            node->scheme = LANCE_LZ4;
        else if (!base_str_equal_c(name, "none"))
            return lake_fail(err, LAKE_UNIMPLEMENTED, "unknown compression \"%.*s\"",
                             (int)BASE_MIN(name.size, (size_t)40), name.data);
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

static lake_status parse(struct lake_bytes message, unsigned depth, struct base_arena *arena,
                         const struct lance_v20_encoding **out, struct lake_error *err);

/* Nullable { 1 no_nulls {1 values} | 2 some_nulls {1 validity, 2 values} | 3 all_nulls {} } */
static lake_status parse_nullable(const struct lance_wire_field *outer, unsigned depth,
                                  struct base_arena *arena, struct lance_v20_encoding *node,
                                  struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(outer->bytes);
    struct lance_wire_field field;
    bool failed;
    if (outer->number < LANCE_V20_NO_NULLS || outer->number > LANCE_V20_ALL_NULLS)
        return LAKE_OK;
    node->nulls = (enum lance_v20_nulls)outer->number;
    node->values = node->validity = NULL;
    uint32_t values = node->nulls == LANCE_V20_NO_NULLS ? 1 : 2;
    while (lance_wire_next_value(&cursor, &field, &failed)) {
        lake_status status = LAKE_OK;
        if (node->nulls == LANCE_V20_ALL_NULLS || field.wire_type != 2)
            continue;
        if (field.number == values)
            status = parse(field.bytes, depth + 1, arena, &node->values, err);
        else if (field.number == 1)
            status = parse(field.bytes, depth + 1, arena, &node->validity, err);
        if (status != LAKE_OK)
            return status;
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

/* The fields that hold an encoding inside this one. */
static const struct lance_v20_encoding **inner_of(struct lance_v20_encoding *node, uint32_t number)
{
    switch (node->kind) {
    case LANCE_V20_FIXED_SIZE_LIST:
        return number == 2 ? &node->values : NULL;
    case LANCE_V20_LIST:
    case LANCE_V20_FSST:
    case LANCE_V20_FIXED_SIZE_BINARY:
        return number == 1 ? &node->values : NULL;
    case LANCE_V20_BINARY:
    case LANCE_V20_DICTIONARY:
        if (number == 1)
            return &node->values;
        return number == 2 ? &node->items : NULL;
    default:
        return NULL;
    }
}

static lake_status parse_own_bytes(const struct lance_wire_field *field,
                                   struct lance_v20_encoding *node, struct lake_error *err)
{
    switch (node->kind) {
    case LANCE_V20_FLAT:
        if (field->number == 2)
            return parse_buffer(field->bytes, node, err);
        return field->number == 3 ? parse_compression(field->bytes, node, err) : LAKE_OK;
    case LANCE_V20_PACKED_STRUCT: /* members lie back to back, whatever field 1 says of each */
        return field->number == 2 ? parse_buffer(field->bytes, node, err) : LAKE_OK;
    case LANCE_V20_BITPACKED:
    case LANCE_V20_BITPACKED_NON_NEGATIVE:
        return field->number == 3 ? parse_buffer(field->bytes, node, err) : LAKE_OK;
    case LANCE_V20_FSST:
        if (field->number == 2)
            node->symbols = field->bytes;
        return LAKE_OK;
    default:
        return LAKE_OK;
    }
}

static void parse_own_number(const struct lance_wire_field *field, struct lance_v20_encoding *node)
{
    switch (node->kind) {
    case LANCE_V20_FLAT:
        if (field->number == 1)
            node->bits = field->value;
        return;
    case LANCE_V20_BITPACKED:
    case LANCE_V20_BITPACKED_NON_NEGATIVE:
        if (field->number == 1)
            node->bits = field->value;
        else if (field->number == 2)
            node->value_bits = field->value;
        else if (field->number == 4)
            node->is_signed = field->value != 0;
        return;
    case LANCE_V20_FIXED_SIZE_LIST:
        if (field->number == 1)
            node->count = field->value;
        return;
    case LANCE_V20_FIXED_SIZE_BINARY:
        if (field->number == 2)
            node->count = field->value;
        return;
    case LANCE_V20_LIST:
        if (field->number == 2)
            node->null_adjustment = field->value;
        else if (field->number == 3)
            node->count = field->value;
        return;
    case LANCE_V20_BINARY:
        if (field->number == 3)
            node->null_adjustment = field->value;
        return;
    case LANCE_V20_DICTIONARY:
        if (field->number == 3)
            node->count = field->value;
        return;
    default:
        return;
    }
}

static lake_status parse_kind(struct lake_bytes message, unsigned depth, struct base_arena *arena,
                              struct lance_v20_encoding *node, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    while (lance_wire_next_value(&cursor, &field, &failed)) {
        const struct lance_v20_encoding **inner = inner_of(node, field.number);
        lake_status status = LAKE_OK;
        if (field.wire_type != 2)
            parse_own_number(&field, node);
        else if (node->kind == LANCE_V20_NULLABLE)
            status = parse_nullable(&field, depth, arena, node, err);
        else if (inner != NULL)
            status = parse(field.bytes, depth + 1, arena, inner, err);
        else
            status = parse_own_bytes(&field, node, err);
        if (status != LAKE_OK)
            return status;
    }
    return failed ? lance_encoding_broken(err) : LAKE_OK;
}

/* What every node of its kind has. */
static lake_status check(const struct lance_v20_encoding *node, struct lake_error *err)
{
    bool good = true;
    switch (node->kind) {
    case LANCE_V20_FLAT:
        good = node->bits > 0 && (node->bits == 1 || node->bits % 8 == 0);
        break;
    case LANCE_V20_BITPACKED:
    case LANCE_V20_BITPACKED_NON_NEGATIVE:
        good = node->bits > 0 && node->bits <= node->value_bits &&
               (node->value_bits == 8 || node->value_bits == 16 || node->value_bits == 32 ||
                node->value_bits == 64);
        break;
    case LANCE_V20_NULLABLE:
        good = node->nulls == LANCE_V20_ALL_NULLS ||
               ((int)node->nulls != 0 && node->values != NULL &&
                (node->nulls == LANCE_V20_NO_NULLS || node->validity != NULL));
        break;
    case LANCE_V20_BINARY:
    case LANCE_V20_DICTIONARY:
        good = node->values != NULL && node->items != NULL;
        break;
    case LANCE_V20_FIXED_SIZE_LIST:
    case LANCE_V20_FIXED_SIZE_BINARY:
        good = node->values != NULL && node->count > 0;
        break;
    case LANCE_V20_LIST:
    case LANCE_V20_FSST:
        good = node->values != NULL;
        break;
    default:
        break;
    }
    return good ? LAKE_OK
                : lake_fail(err, LAKE_DATA_LOSS, "encoding %d of a page lacks a part of it",
                            (int)node->kind);
}

static lake_status parse_node(uint32_t number, struct lake_bytes message, unsigned depth,
                              struct base_arena *arena, void *out, struct lake_error *err)
{
    struct lance_v20_encoding *node = out;
    node->kind = (enum lance_v20_kind)number;
    lake_status status = parse_kind(message, depth, arena, node, err);
    return status == LAKE_OK ? check(node, err) : status;
}

static lake_status parse(struct lake_bytes message, unsigned depth, struct base_arena *arena,
                         const struct lance_v20_encoding **out, struct lake_error *err)
{
    static const struct lance_oneof oneof = {.last = LANCE_V20_BITPACKED_NON_NEGATIVE,
                                             .max_depth = LANCE_V20_MAX_DEPTH,
                                             .node_bytes = sizeof(struct lance_v20_encoding),
                                             .parse = parse_node};
    const void *node;
    lake_status status = lance_oneof_parse(&oneof, message, depth, arena, &node, err);
    if (status == LAKE_OK)
        *out = node;
    return status;
}

lake_status lance_v20_encoding_parse(struct lake_bytes message, struct base_arena *arena,
                                     const struct lance_v20_encoding **out, struct lake_error *err)
{
    return parse(message, 0, arena, out, err);
}
