#include "leaf.h"

#include <string.h>

/* ---- types ---- */

static uint64_t fixed_bits(enum ArrowType type, const struct ArrowSchemaView *view)
{
    switch (type) {
    case NANOARROW_TYPE_BOOL:
        return 1;
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_UINT8:
        return 8;
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_UINT16:
    case NANOARROW_TYPE_HALF_FLOAT:
        return 16;
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_UINT32:
    case NANOARROW_TYPE_FLOAT:
        return 32;
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_UINT64:
    case NANOARROW_TYPE_DOUBLE:
        return 64;
    case NANOARROW_TYPE_DECIMAL128:
        return 128;
    case NANOARROW_TYPE_DECIMAL256:
        return 256;
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        return (uint64_t)view->fixed_size * 8;
    default:
        return 0;
    }
}

static bool is_integer(enum ArrowType type)
{
    return type == NANOARROW_TYPE_INT8 || type == NANOARROW_TYPE_UINT8 ||
           type == NANOARROW_TYPE_INT16 || type == NANOARROW_TYPE_UINT16 ||
           type == NANOARROW_TYPE_INT32 || type == NANOARROW_TYPE_UINT32 ||
           type == NANOARROW_TYPE_INT64 || type == NANOARROW_TYPE_UINT64;
}

static lake_status view_of(const struct ArrowSchema *arrow, struct ArrowSchemaView *out,
                           struct lake_error *err)
{
    struct ArrowError why;
    if (ArrowSchemaViewInit(out, arrow, &why) != NANOARROW_OK)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "not an Arrow type: %s", why.message);
    return LAKE_OK;
}

/* The fixed-width items of a leaf whose storage is not variable. */
static lake_status fixed_leaf(const struct ArrowSchemaView *view, struct lance_leaf_type *out,
                              struct lake_error *err)
{
    uint64_t row_bits;
    out->item_bits = fixed_bits(view->storage_type, view);
    if (out->item_bits == 0 || out->items == 0)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "Arrow type \"%s\" has no Lance column",
                         view->schema->format);
    if (!base_u64_mul(out->items, out->item_bits, &row_bits) ||
        row_bits / 8 > LANCE_MAX_VALUE_BYTES)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a row of type \"%s\" is larger than %u bytes",
                         out->arrow->format, LANCE_MAX_VALUE_BYTES);
    out->integer = is_integer(view->storage_type);
    return LAKE_OK;
}

/* Members back to back in each row. Of each: fixed width, fixed-size lists of that, or variable. */
static lake_status packed_leaf(const struct ArrowSchema *arrow, struct lance_leaf_type *out,
                               struct lake_error *err)
{
    uint64_t row_bits = 0;
    bool variable = false;
    out->kind = LANCE_LEAF_PACKED;
    for (int64_t i = 0; i < arrow->n_children; i++) {
        struct lance_leaf_type member;
        if (arrow->children[i]->format != NULL && strcmp(arrow->children[i]->format, "+s") == 0)
            return lake_fail(err, LAKE_UNIMPLEMENTED, "a packed struct within a packed struct");
        lake_status status = lance_leaf_type_of(arrow->children[i], &member, err);
        if (status != LAKE_OK)
            return status;
        bool fixed = member.kind == LANCE_LEAF_FIXED || member.kind == LANCE_LEAF_FSL;
        if ((!fixed && member.kind != LANCE_LEAF_VARIABLE) || (fixed && member.item_bits < 8))
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "a packed struct with a member of Arrow type \"%s\"",
                             arrow->children[i]->format);
        variable = variable || !fixed;
        row_bits += fixed ? member.items * member.item_bits : 0;
        if (row_bits / 8 > LANCE_MAX_VALUE_BYTES)
            return lake_fail(err, LAKE_UNIMPLEMENTED, "a packed row is larger than %u bytes",
                             LANCE_MAX_VALUE_BYTES);
    }
    out->item_bits = variable ? 0 : row_bits;
    return LAKE_OK;
}

lake_status lance_leaf_type_of(const struct ArrowSchema *arrow, struct lance_leaf_type *out,
                               struct lake_error *err)
{
    struct lance_leaf_type type = {.items = 1, .arrow = arrow, .kind = LANCE_LEAF_FIXED};
    struct ArrowSchemaView view;
    lake_status status = view_of(arrow, &view, err);
    if (status != LAKE_OK)
        return status;
    while (view.type == NANOARROW_TYPE_FIXED_SIZE_LIST) {
        uint64_t size = (uint64_t)view.fixed_size;
        if (type.fsl_depth == LANCE_MAX_FSL_DEPTH || view.fixed_size < 0 ||
            !base_u64_mul(type.items, size, &type.items))
            return lake_fail(err, LAKE_UNIMPLEMENTED, "fixed-size lists nested deeper than %d",
                             LANCE_MAX_FSL_DEPTH);
        type.fsl_sizes[type.fsl_depth++] = size;
        type.kind = LANCE_LEAF_FSL;
        arrow = arrow->children[0];
        status = view_of(arrow, &view, err);
        if (status != LAKE_OK)
            return status;
    }
    if (view.type == NANOARROW_TYPE_DICTIONARY && type.fsl_depth == 0) {
        type.kind = LANCE_LEAF_DICTIONARY;
        type.dictionary = arrow->dictionary;
        status = fixed_leaf(&view, &type, err);
    } else if (view.type == NANOARROW_TYPE_STRUCT && type.fsl_depth == 0) {
        status = packed_leaf(arrow, &type, err);
    } else if (view.storage_type == NANOARROW_TYPE_NA && type.fsl_depth == 0) {
        type.kind = LANCE_LEAF_NULL;
    } else if (type.fsl_depth == 0 && (view.storage_type == NANOARROW_TYPE_STRING ||
                                       view.storage_type == NANOARROW_TYPE_BINARY ||
                                       view.storage_type == NANOARROW_TYPE_LARGE_STRING ||
                                       view.storage_type == NANOARROW_TYPE_LARGE_BINARY)) {
        type.kind = LANCE_LEAF_VARIABLE;
        type.offset_bytes =
            view.storage_type == NANOARROW_TYPE_STRING || view.storage_type == NANOARROW_TYPE_BINARY
                ? 4
                : 8;
    } else {
        status = fixed_leaf(&view, &type, err);
    }
    if (status == LAKE_OK)
        *out = type;
    return status;
}

uint64_t lance_leaf_items_at(const struct lance_leaf_type *type, uint32_t depth)
{
    uint64_t items = 1;
    for (uint32_t i = 0; i <= depth && i < type->fsl_depth; i++)
        items *= type->fsl_sizes[i];
    return items;
}

uint64_t lance_leaf_key_limit(const struct lance_leaf_type *type)
{
    char format = type->arrow->format[0];
    bool is_unsigned = format == 'C' || format == 'S' || format == 'I' || format == 'L';
    if (type->item_bits == 64)
        return INT64_MAX;
    return ((uint64_t)1 << (type->item_bits - !is_unsigned)) - 1;
}

/* ---- bits ---- */

#define MAX_RUN_BYTES ((size_t)1 << 40)

void lance_bits_init(struct lance_bits *bits)
{
    base_buffer_init(&bits->bytes, MAX_RUN_BYTES);
    bits->count = 0;
}

void lance_bits_fini(struct lance_bits *bits)
{
    base_buffer_fini(&bits->bytes);
    bits->count = 0;
}

void lance_bits_clear(struct lance_bits *bits)
{
    base_buffer_clear(&bits->bytes);
    bits->count = 0;
}

static inline bool bit_get(const uint8_t *bits, uint64_t i)
{
    return (bits[i / 8] >> (i % 8) & 1) != 0;
}

static inline void bit_put(uint8_t *bits, uint64_t i, bool value)
{
    uint8_t mask = (uint8_t)(1U << (i % 8));
    bits[i / 8] = (uint8_t)(value ? bits[i / 8] | mask : bits[i / 8] & ~mask);
}

void lance_bits_copy(uint8_t *to, uint64_t to_start, const uint8_t *from, uint64_t from_start,
                     uint64_t count)
{
    uint64_t i = 0;
    if (count == 0)
        return;
    while (i < count && (to_start + i) % 8 != 0) {
        bit_put(to, to_start + i, bit_get(from, from_start + i));
        i++;
    }
    uint64_t whole = (count - i) / 8;
    const uint8_t *source = from + (from_start + i) / 8;
    uint8_t *target = to + (to_start + i) / 8;
    unsigned shift = (unsigned)((from_start + i) % 8);
    if (shift == 0) {
        if (whole > 0)
            memcpy(target, source, whole);
    } else {
        for (uint64_t k = 0; k < whole; k++)
            target[k] = (uint8_t)(source[k] >> shift | source[k + 1] << (8 - shift));
    }
    for (i += whole * 8; i < count; i++)
        bit_put(to, to_start + i, bit_get(from, from_start + i));
}

uint64_t lance_bits_count_set(const uint8_t *bits, uint64_t start, uint64_t count)
{
    uint64_t i = 0, set = 0;
    for (; i < count && (start + i) % 8 != 0; i++)
        set += bit_get(bits, start + i);
    for (; i + 64 <= count; i += 64)
        set += (uint64_t)__builtin_popcountll(base_load_u64le(bits + (start + i) / 8));
    for (; i < count; i++)
        set += bit_get(bits, start + i);
    return set;
}

/* New bits are zero. */
static lake_status bits_extend(struct lance_bits *bits, uint64_t count, struct lake_error *err)
{
    uint64_t total;
    if (!base_u64_add(bits->count, count, &total) || total > (uint64_t)MAX_RUN_BYTES)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "a bitmap of too many bits");
    size_t need = (size_t)((total + 7) / 8);
    lake_status status = LAKE_OK;
    if (need > bits->bytes.size)
        status = base_buffer_reserve(&bits->bytes, need - bits->bytes.size + 1, err);
    if (status == LAKE_OK && need > bits->bytes.size)
        status = base_buffer_append_zeros(&bits->bytes, need - bits->bytes.size, err);
    return status;
}

lake_status lance_bits_append_run(struct lance_bits *bits, bool value, uint64_t count,
                                  struct lake_error *err)
{
    lake_status status = bits_extend(bits, count, err);
    if (status != LAKE_OK)
        return status;
    if (value) {
        uint64_t i = bits->count, end = bits->count + count;
        for (; i < end && i % 8 != 0; i++)
            bit_put(bits->bytes.data, i, true);
        if (end - i >= 8)
            memset(bits->bytes.data + i / 8, 0xFF, (size_t)((end - i) / 8));
        for (i += (end - i) / 8 * 8; i < end; i++)
            bit_put(bits->bytes.data, i, true);
    }
    bits->count += count;
    return LAKE_OK;
}

lake_status lance_bits_append(struct lance_bits *bits, const uint8_t *from, uint64_t start,
                              uint64_t count, struct lake_error *err)
{
    lake_status status = bits_extend(bits, count, err);
    if (status != LAKE_OK)
        return status;
    lance_bits_copy(bits->bytes.data, bits->count, from, start, count);
    bits->count += count;
    return LAKE_OK;
}

/* ---- values ---- */

void lance_leaf_values_init(struct lance_leaf_values *values, const struct lance_leaf_type *type)
{
    *values = (struct lance_leaf_values){.type = type};
    base_buffer_init(&values->fixed, MAX_RUN_BYTES);
    base_buffer_init(&values->offsets, MAX_RUN_BYTES);
    base_buffer_init(&values->data, type->offset_bytes == 4 ? INT32_MAX : MAX_RUN_BYTES);
    lance_bits_init(&values->booleans);
    for (uint32_t i = 0; i < LANCE_MAX_FSL_DEPTH; i++)
        lance_bits_init(&values->item_valid[i]);
}

lake_status lance_leaf_values_init_members(struct lance_leaf_values *values, struct lake_error *err)
{
    if (values->type->kind != LANCE_LEAF_PACKED)
        return LAKE_OK;
    const struct ArrowSchema *arrow = values->type->arrow;
    size_t count = (size_t)arrow->n_children;
    values->members = base_calloc_array(count + 1, sizeof(*values->members));
    values->member_types = base_calloc_array(count + 1, sizeof(*values->member_types));
    if (values->members == NULL || values->member_types == NULL)
        return base_fail_no_memory(err, count * sizeof(*values->members));
    for (size_t i = 0; i < count; i++) {
        lake_status status = lance_leaf_type_of(arrow->children[i], &values->member_types[i], err);
        if (status != LAKE_OK)
            return status;
        lance_leaf_values_init(&values->members[i], &values->member_types[i]);
        values->member_count++;
    }
    return LAKE_OK;
}

void lance_leaf_values_fini(struct lance_leaf_values *values)
{
    for (size_t i = 0; i < values->member_count; i++)
        lance_leaf_values_fini(&values->members[i]);
    base_free(values->members);
    base_free(values->member_types);
    base_buffer_fini(&values->fixed);
    base_buffer_fini(&values->offsets);
    base_buffer_fini(&values->data);
    lance_bits_fini(&values->booleans);
    for (uint32_t i = 0; i < LANCE_MAX_FSL_DEPTH; i++)
        lance_bits_fini(&values->item_valid[i]);
}

void lance_leaf_values_clear(struct lance_leaf_values *values)
{
    values->count = 0;
    base_buffer_clear(&values->fixed);
    base_buffer_clear(&values->offsets);
    base_buffer_clear(&values->data);
    lance_bits_clear(&values->booleans);
    for (uint32_t i = 0; i < LANCE_MAX_FSL_DEPTH; i++) {
        lance_bits_clear(&values->item_valid[i]);
        values->item_nulls[i] = false;
    }
    for (size_t i = 0; i < values->member_count; i++)
        lance_leaf_values_clear(&values->members[i]);
}

/* Room even for nothing, so that there is an address to count from. */
static lake_status reserve_some(struct base_buffer *buffer, size_t size, struct lake_error *err)
{
    return base_buffer_reserve(buffer, buffer->data == NULL ? BASE_MAX(size, (size_t)1) : size,
                               err);
}

lake_status lance_leaf_values_reserve(struct lance_leaf_values *values, uint64_t count,
                                      uint8_t **out, struct lake_error *err)
{
    size_t need;
    if (count > SIZE_MAX ||
        !base_size_mul((size_t)count, lance_leaf_row_bytes(values->type), &need))
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many values for one array");
    lake_status status = reserve_some(&values->fixed, need, err);
    if (status == LAKE_OK)
        *out = values->fixed.data + values->fixed.size;
    return status;
}

static lake_status grow_item_validity(struct lance_leaf_values *values, uint64_t count,
                                      struct lake_error *err)
{
    for (uint32_t d = 0; d < values->type->fsl_depth; d++) {
        uint64_t items = count * lance_leaf_items_at(values->type, d);
        if (!values->item_nulls[d])
            continue;
        lake_status status = lance_bits_append_run(&values->item_valid[d], true, items, err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

void lance_leaf_values_grew(struct lance_leaf_values *values, uint64_t count)
{
    values->fixed.size += (size_t)count * lance_leaf_row_bytes(values->type);
    values->count += count;
}

lake_status lance_leaf_values_need_item_validity(struct lance_leaf_values *values, uint32_t depth,
                                                 struct lake_error *err)
{
    if (values->item_nulls[depth])
        return LAKE_OK;
    lake_status status =
        lance_bits_append_run(&values->item_valid[depth], true,
                              values->count * lance_leaf_items_at(values->type, depth), err);
    if (status == LAKE_OK)
        values->item_nulls[depth] = true;
    return status;
}

/* The first offset, 0, is written with the first value. */
static lake_status offsets_reserve(struct lance_leaf_values *values, uint64_t count,
                                   struct lake_error *err)
{
    size_t need, width = values->type->offset_bytes;
    if (count >= SIZE_MAX || !base_size_mul((size_t)count + 1, width, &need))
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many values for one array");
    lake_status status = base_buffer_reserve(&values->offsets, need, err);
    if (status == LAKE_OK && values->offsets.size == 0)
        status = base_buffer_append_zeros(&values->offsets, width, err);
    return status;
}

static inline void push_offset(struct lance_leaf_values *values, uint64_t end)
{
    uint8_t *to = values->offsets.data + values->offsets.size;
    if (values->type->offset_bytes == 4)
        base_store_u32le(to, (uint32_t)end);
    else
        base_store_u64le(to, end);
    values->offsets.size += values->type->offset_bytes;
}

static lake_status reserve_data(struct lance_leaf_values *values, size_t size,
                                struct lake_error *err)
{
    if (size > values->data.max_bytes - values->data.size)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "more than %zu bytes of variable-width values in one array with %u-bit "
                         "offsets: read fewer rows at a time",
                         values->data.max_bytes, values->type->offset_bytes * 8);
    return reserve_some(&values->data, size, err);
}

lake_status lance_leaf_values_reserve_variable(struct lance_leaf_values *values, uint64_t count,
                                               uint64_t total, uint8_t **out,
                                               struct lake_error *err)
{
    lake_status status = total > SIZE_MAX - 16 ? lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                                                           "too many bytes in one array")
                                               : offsets_reserve(values, count, err);
    if (status == LAKE_OK)
        status = reserve_data(values, (size_t)total + 16, err);
    if (status == LAKE_OK)
        *out = values->data.data + values->data.size;
    return status;
}

lake_status lance_leaf_values_append_one(struct lance_leaf_values *values, const uint8_t *data,
                                         size_t size, struct lake_error *err)
{
    lake_status status = offsets_reserve(values, 1, err);
    if (status == LAKE_OK)
        status = reserve_data(values, size, err);
    if (status != LAKE_OK)
        return status;
    if (size > 0)
        memcpy(values->data.data + values->data.size, data, size);
    lance_leaf_values_push_size(values, size);
    return LAKE_OK;
}

lake_status lance_leaf_values_append_zeros(struct lance_leaf_values *values, uint64_t count,
                                           struct lake_error *err)
{
    lake_status status = LAKE_OK;
    const struct lance_leaf_type *type = values->type;
    size_t size;
    if (type->kind == LANCE_LEAF_PACKED) {
        for (size_t i = 0; status == LAKE_OK && i < values->member_count; i++)
            status = lance_leaf_values_append_zeros(&values->members[i], count, err);
    } else if (type->kind == LANCE_LEAF_VARIABLE) {
        status = offsets_reserve(values, count, err);
        for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
            push_offset(values, values->data.size);
    } else if (type->kind != LANCE_LEAF_NULL && type->item_bits == 1) {
        status = lance_bits_append_run(&values->booleans, false, count * type->items, err);
    } else if (type->kind != LANCE_LEAF_NULL) {
        if (!base_size_mul((size_t)count, lance_leaf_row_bytes(type), &size))
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many values for one array");
        status = base_buffer_append_zeros(&values->fixed, size, err);
    }
    if (status == LAKE_OK)
        status = grow_item_validity(values, count, err);
    if (status == LAKE_OK)
        values->count += count;
    return status;
}

lake_status lance_leaf_values_append_packed(struct lance_leaf_values *values, const uint8_t *rows,
                                            uint64_t count, struct lake_error *err)
{
    size_t stride = (size_t)values->type->item_bits / 8, at = 0;
    for (size_t i = 0; i < values->member_count; i++) {
        struct lance_leaf_values *member = &values->members[i];
        size_t width = lance_leaf_row_bytes(member->type);
        uint8_t *to;
        lake_status status = lance_leaf_values_reserve(member, count, &to, err);
        if (status != LAKE_OK)
            return status;
        for (uint64_t row = 0; width > 0 && row < count; row++)
            memcpy(to + row * width, rows + row * stride + at, width);
        lance_leaf_values_grew(member, count);
        at += width;
    }
    values->count += count;
    return LAKE_OK;
}

/* ---- copying runs ---- */

/* Offsets of either width, read from any alignment. */
static inline uint64_t load_offset(const uint8_t *offsets, uint32_t width, uint64_t i)
{
    return width == 4 ? base_load_u32le(offsets + 4 * i) : base_load_u64le(offsets + 8 * i);
}

/* True when offsets [0, count] do not fall. Without a branch a value, so that it vectorises. */
static bool offsets_rise(const uint8_t *offsets, uint32_t width, uint64_t count)
{
    uint64_t falls = 0;
    if (width == 4) {
        for (uint64_t i = 0; i < count; i++)
            falls |= base_load_u32le(offsets + 4 * i) > base_load_u32le(offsets + 4 * i + 4);
    } else {
        for (uint64_t i = 0; i < count; i++)
            falls |= base_load_u64le(offsets + 8 * i) > base_load_u64le(offsets + 8 * i + 8);
    }
    return falls == 0;
}

/* Appends `count` offsets, moved from base `first` to base `start`. */
static void rebase_offsets(struct lance_leaf_values *values, const uint8_t *offsets, uint32_t width,
                           uint64_t count, uint64_t first, uint64_t start)
{
    uint8_t *to = values->offsets.data + values->offsets.size;
    uint64_t delta = start - first; /* modulo 2^64; sums come out right */
    if (values->type->offset_bytes == 4 && width == 4) {
        for (uint64_t i = 0; i < count; i++)
            base_store_u32le(to + 4 * i, base_load_u32le(offsets + 4 * i + 4) + (uint32_t)delta);
    } else if (values->type->offset_bytes == 4) {
        for (uint64_t i = 0; i < count; i++)
            base_store_u32le(to + 4 * i, (uint32_t)(base_load_u64le(offsets + 8 * i + 8) + delta));
    } else {
        for (uint64_t i = 0; i < count; i++)
            base_store_u64le(to + 8 * i, load_offset(offsets, width, i + 1) + delta);
    }
    values->offsets.size += (size_t)count * values->type->offset_bytes;
    values->count += count;
}

/* Room for `size` bytes and a word of slack, with the check inline and growth by doubling. */
static inline lake_status fsst_room(struct lance_leaf_values *values, size_t size,
                                    struct lake_error *err)
{
    if (values->data.data != NULL && values->data.capacity - values->data.size >= size)
        return LAKE_OK;
    return reserve_data(values, size, err);
}

static lake_status append_fsst(struct lance_leaf_values *values,
                               const struct lance_variable_view *view, const uint8_t *offsets,
                               uint64_t count, struct lake_error *err)
{
    const struct lance_fsst_table *table = view->fsst->symbols;
    lake_status status = LAKE_OK;
    if (table == NULL)
        return lake_fail(err, LAKE_DATA_LOSS, "FSST strings without a symbol table");
    uint64_t at = load_offset(offsets, view->offset_bytes, 0);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++) {
        uint64_t end = load_offset(offsets, view->offset_bytes, i + 1);
        size_t size = (size_t)(end - at), written = 0;
        bool good = true;
        /* Each code gives at most eight bytes; the last may be written whole. */
        status = fsst_room(values, table->enabled ? size * 8 + 8 : size, err);
        if (status != LAKE_OK)
            break;
        uint8_t *to = values->data.data + values->data.size;
        if (table->enabled)
            good = lance_fsst_decode(table, view->base + at, size, to, &written);
        else if ((written = size) > 0)
            memcpy(to, view->base + at, size);
        if (!good)
            status = lake_fail(err, LAKE_DATA_LOSS, "an FSST string has a code without a symbol");
        else
            lance_leaf_values_push_size(values, written);
        at = end;
    }
    return status;
}

lake_status lance_leaf_values_append_view(struct lance_leaf_values *values,
                                          const struct lance_variable_view *view, uint64_t start,
                                          uint64_t count, struct lake_error *err)
{
    uint32_t width = view->offset_bytes;
    if (count == 0)
        return LAKE_OK;
    if (start > view->count || count > view->count - start)
        return lake_fail(err, LAKE_DATA_LOSS, "fewer strings than the page says");
    const uint8_t *offsets = view->offsets + start * width;
    uint64_t first = load_offset(offsets, width, 0), last = load_offset(offsets, width, count);
    if (!offsets_rise(offsets, width, count) || last > view->base_bytes)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "offsets of variable-width values fall or lead out "
                         "of their buffer");
    lake_status status = offsets_reserve(values, count, err);
    if (status != LAKE_OK)
        return status;
    if (view->fsst != NULL)
        return append_fsst(values, view, offsets, count, err);
    size_t size = (size_t)(last - first);
    status = reserve_data(values, size, err);
    if (status != LAKE_OK)
        return status;
    if (size > 0)
        memcpy(values->data.data + values->data.size, view->base + first, size);
    rebase_offsets(values, offsets, width, count, first, values->data.size);
    values->data.size += size;
    return LAKE_OK;
}

static lake_status append_item_validity(struct lance_leaf_values *values,
                                        const struct lance_leaf_values *from, uint64_t start,
                                        uint64_t count, struct lake_error *err)
{
    for (uint32_t d = 0; d < values->type->fsl_depth; d++) {
        uint64_t items = lance_leaf_items_at(values->type, d);
        lake_status status = LAKE_OK;
        if (from->item_nulls[d]) {
            status = lance_leaf_values_need_item_validity(values, d, err);
            if (status == LAKE_OK)
                status = lance_bits_append(&values->item_valid[d], from->item_valid[d].bytes.data,
                                           start * items, count * items, err);
        } else if (values->item_nulls[d]) {
            status = lance_bits_append_run(&values->item_valid[d], true, count * items, err);
        }
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

lake_status lance_leaf_values_append_slice(struct lance_leaf_values *values,
                                           const struct lance_leaf_values *from, uint64_t start,
                                           uint64_t count, struct lake_error *err)
{
    const struct lance_leaf_type *type = values->type;
    lake_status status;
    if (count == 0)
        return LAKE_OK;
    if (start > from->count || count > from->count - start)
        return lake_fail(err, LAKE_DATA_LOSS, "fewer values than the page says");
    if (type->kind == LANCE_LEAF_VARIABLE) {
        struct lance_variable_view view = {.offsets = from->offsets.data,
                                           .offset_bytes = from->type->offset_bytes,
                                           .base = from->data.data,
                                           .base_bytes = from->data.size,
                                           .count = from->count};
        return lance_leaf_values_append_view(values, &view, start, count, err);
    }
    if (type->kind == LANCE_LEAF_PACKED) {
        status = LAKE_OK;
        for (size_t i = 0; status == LAKE_OK && i < values->member_count; i++)
            status = lance_leaf_values_append_slice(&values->members[i], &from->members[i], start,
                                                    count, err);
        if (status == LAKE_OK)
            values->count += count;
        return status;
    }
    status = append_item_validity(values, from, start, count, err);
    if (status != LAKE_OK)
        return status;
    if (type->kind != LANCE_LEAF_NULL && type->item_bits == 1) {
        status = lance_bits_append(&values->booleans, from->booleans.bytes.data,
                                   start * type->items, count * type->items, err);
    } else if (type->kind != LANCE_LEAF_NULL) {
        size_t width = lance_leaf_row_bytes(type);
        status = base_buffer_append(&values->fixed, from->fixed.data + (size_t)start * width,
                                    (size_t)count * width, err);
    }
    if (status == LAKE_OK)
        values->count += count;
    return status;
}

static bool same_bytes(const struct base_buffer *a, const struct base_buffer *b, size_t size)
{
    return a->size >= size && b->size >= size && (size == 0 || memcmp(a->data, b->data, size) == 0);
}

bool lance_leaf_values_start_with(const struct lance_leaf_values *values,
                                  const struct lance_leaf_values *prefix)
{
    const struct lance_leaf_type *type = values->type;
    size_t count = (size_t)prefix->count;
    if (values->count < prefix->count)
        return false;
    if (type->kind == LANCE_LEAF_VARIABLE)
        return count == 0 ||
               (same_bytes(&values->offsets, &prefix->offsets, (count + 1) * type->offset_bytes) &&
                same_bytes(&values->data, &prefix->data, prefix->data.size));
    if (type->item_bits == 1)
        return count == 0;
    return same_bytes(&values->fixed, &prefix->fixed, count * lance_leaf_row_bytes(type));
}
