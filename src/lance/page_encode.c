/* Turns gathered rows into one encoded page: renumbers levels, then picks the layout. */
#include "file_write.h"

#include <string.h>

#define MAX_PAGE_BUFFER_BYTES ((size_t)1 << 40)
#define PLAN_ARENA_BYTES      ((size_t)16 << 20)

void lance_encoded_page_init(struct lance_encoded_page *page)
{
    *page = (struct lance_encoded_page){.buffer_count = 0};
    for (size_t i = 0; i < LANCE_PAGE_BUFFERS; i++)
        base_buffer_init(&page->buffers[i], MAX_PAGE_BUFFER_BYTES);
    base_buffer_init(&page->layout, 1U << 24);
}

void lance_encoded_page_fini(struct lance_encoded_page *page)
{
    for (size_t i = 0; i < LANCE_PAGE_BUFFERS; i++)
        base_buffer_fini(&page->buffers[i]);
    base_buffer_fini(&page->layout);
}

static void clear_page(struct lance_encoded_page *page)
{
    for (size_t i = 0; i < LANCE_PAGE_BUFFERS; i++)
        base_buffer_clear(&page->buffers[i]);
    base_buffer_clear(&page->layout);
    page->buffer_count = 0;
}

struct lance_encoding *lance_encoding_new(struct base_arena *arena, enum lance_encoding_kind kind,
                                          uint64_t bits, const struct lance_encoding *values)
{
    struct lance_encoding *node = base_arena_calloc_array(arena, 1, sizeof(*node));
    if (node != NULL) {
        node->kind = kind;
        node->bits = bits;
        node->values = values;
    }
    return node;
}

void lance_plan_layout(const struct lance_page_plan *plan, struct lance_page_layout *out)
{
    *out = (struct lance_page_layout){.layer_count = plan->layer_count};
    memcpy(out->layers, plan->layers, plan->layer_count);
}

static uint8_t list_layer(bool nulls, bool empties)
{
    if (nulls)
        return empties ? LANCE_NULL_AND_EMPTY_LIST : LANCE_NULLABLE_LIST;
    return empties ? LANCE_EMPTYABLE_LIST : LANCE_ALL_VALID_LIST;
}

/* True when a layer outside `layer` (top first), from `first` on, is null or empty somewhere in the
 * page. */
static bool hidden_from_above(const struct lance_page_rows *rows, size_t first, size_t layer)
{
    for (size_t i = first; i < layer; i++)
        if (rows->level_used[rows->null_level[i]] ||
            (rows->path.is_list[i] && rows->level_used[rows->null_level[i] + 1]))
            return true;
    return false;
}

/* A struct that is only null where one around it is. The reference reader takes one without a level
 * of its own for present there, and then misses its members that may not be null. */
static bool needs_null_level(const struct lance_page_rows *rows, size_t layer)
{
    size_t first = layer;
    while (first > 0 && !rows->path.is_list[first - 1])
        first--;
    return rows->path.has_required[layer] && hidden_from_above(rows, first, layer);
}

/* Layers by the levels that occur in the page, and the new number of each old level. */
static void choose_layers(const struct lance_page_rows *rows, struct lance_page_plan *plan,
                          uint16_t *renumber)
{
    const struct lance_leaf_path *path = &rows->path;
    uint16_t level = 0;
    bool below_list = true;
    for (size_t i = path->layer_count; i-- > 0;) { /* leaf first */
        uint32_t null = rows->null_level[i];
        bool nulls = rows->level_used[null];
        uint8_t layer;
        if (nulls)
            renumber[null] = ++level;
        if (path->is_list[i]) {
            bool empties = rows->level_used[null + 1];
            /* The reference reader takes levels above a list without levels of its own for levels
             * of the list's items, so such a list gets one, though nothing uses it. */
            if (!nulls && !empties && hidden_from_above(rows, 0, i)) {
                nulls = true;
                ++level;
            }
            if (empties)
                renumber[null + 1] = ++level;
            layer = list_layer(nulls, empties);
            plan->max_rep++;
            below_list = false;
        } else {
            if (!nulls && needs_null_level(rows, i)) {
                nulls = true;
                ++level;
            }
            layer = nulls ? LANCE_NULLABLE_ITEM : LANCE_ALL_VALID_ITEM;
        }
        if (below_list)
            plan->visible_level = level;
        plan->layers[plan->layer_count++] = layer;
    }
    plan->max_def = level;
}

static void make_plan(struct lance_page_rows *rows, struct lance_page_plan *plan)
{
    uint16_t renumber[2 * LANCE_MAX_LAYERS + 1] = {0};
    choose_layers(rows, plan, renumber);
    uint16_t *def = (uint16_t *)(void *)rows->def.data;
    if (rows->has_def && plan->max_def > 0) {
        for (uint64_t i = 0; i < rows->entry_count; i++)
            def[i] = renumber[def[i]];
        plan->def = def;
    }
    if (rows->list_count > 0)
        plan->rep = (const uint16_t *)(const void *)rows->rep.data;
}

/* ---- constant pages ---- */

#define INLINE_VALUE_BYTES 32

/* Raw levels as two buffers, behind the value's buffer if there is one. */
static lake_status put_levels(const struct lance_page_plan *plan, struct lance_encoded_page *out,
                              struct lake_error *err)
{
    struct base_buffer *rep = &out->buffers[out->buffer_count++];
    struct base_buffer *def = &out->buffers[out->buffer_count++];
    size_t bytes = (size_t)plan->rows->entry_count * sizeof(uint16_t);
    lake_status status = LAKE_OK;
    if (plan->rep != NULL)
        status = base_buffer_append(rep, plan->rep, bytes, err);
    if (status == LAKE_OK && plan->def != NULL)
        status = base_buffer_append(def, plan->def, bytes, err);
    return status;
}

static bool all_null(const struct lance_page_plan *plan)
{
    if (plan->def == NULL)
        return false;
    for (uint64_t i = 0; i < plan->rows->entry_count; i++)
        if (plan->def[i] == 0)
            return false;
    return true;
}

/* Every slot has the bytes of the first one. Null slots are zeros, so any null among values that
 * are not zero says no, which costs little and keeps this simple. */
static bool all_same(const struct lance_leaf_values *values)
{
    const struct lance_leaf_type *type = values->type;
    uint64_t first, end, from, to;
    if (values->count < 2)
        return false;
    if (type->kind == LANCE_LEAF_VARIABLE) {
        lance_leaf_values_range(values, 0, &first, &end);
        for (uint64_t i = 1; i < values->count; i++) {
            lance_leaf_values_range(values, i, &from, &to);
            if (to - from != end - first)
                return false;
            if (to > from &&
                memcmp(values->data.data + from, values->data.data + first, to - from) != 0)
                return false;
        }
        return true;
    }
    if (type->kind != LANCE_LEAF_FIXED || type->item_bits == 0)
        return false;
    if (type->item_bits == 1) {
        uint64_t set = lance_bits_count_set(values->booleans.bytes.data, 0, values->count);
        return set == 0 || set == values->count;
    }
    size_t width = (size_t)type->item_bits / 8;
    /* Compares the run with itself, one value further. */
    return memcmp(values->fixed.data, values->fixed.data + width,
                  (size_t)(values->count - 1) * width) == 0;
}

static lake_status put_value_buffer(const struct lance_leaf_values *values,
                                    struct lance_encoded_page *out, struct lake_error *err)
{
    struct base_buffer *to = &out->buffers[out->buffer_count++];
    const struct lance_leaf_type *type = values->type;
    uint8_t header[12], offsets[16] = {0};
    uint64_t start = 0, end = type->item_bits / 8;
    bool variable = type->kind == LANCE_LEAF_VARIABLE;
    size_t header_bytes = variable ? 12 : 8;
    const uint8_t *data = values->fixed.data;
    if (variable) {
        lance_leaf_values_range(values, 0, &start, &end);
        data = values->data.data;
        base_store_u32le(header + 4, 2 * type->offset_bytes);
        if (type->offset_bytes == 4)
            base_store_u32le(offsets + 4, (uint32_t)(end - start));
        else
            base_store_u64le(offsets + 8, end - start);
    }
    base_store_u32le(header, variable ? 2 : 1);
    base_store_u32le(header + header_bytes - 4, (uint32_t)(end - start));
    lake_status status = base_buffer_append(to, header, header_bytes, err);
    if (status == LAKE_OK && variable)
        status = base_buffer_append(to, offsets, 2 * (size_t)type->offset_bytes, err);
    if (status == LAKE_OK && end > start)
        status = base_buffer_append(to, data + start, (size_t)(end - start), err);
    return status;
}

/* *done false: the page's values are not all null or all the same. */
static lake_status encode_constant(const struct lance_page_plan *plan,
                                   struct lance_encoded_page *out, bool *done,
                                   struct lake_error *err)
{
    const struct lance_leaf_values *values = &plan->rows->values;
    struct lance_page_layout layout;
    uint8_t boolean;
    lake_status status = LAKE_OK;
    bool null = all_null(plan), same = !null && plan->options->minor >= 2 && all_same(values);
    *done = null || same;
    if (!*done)
        return LAKE_OK;
    lance_plan_layout(plan, &layout);
    layout.kind = LANCE_CONSTANT_PAGE;
    if (same && values->type->kind == LANCE_LEAF_FIXED &&
        values->type->item_bits <= INLINE_VALUE_BYTES * 8) {
        boolean = values->type->item_bits == 1 && (values->booleans.bytes.data[0] & 1) != 0;
        layout.has_inline_value = true;
        layout.inline_value =
            values->type->item_bits == 1
                ? (struct lake_bytes){&boolean, 1}
                : (struct lake_bytes){values->fixed.data, (size_t)values->type->item_bits / 8};
    } else if (same) {
        status = put_value_buffer(values, out, err);
    }
    bool plain_null = null && plan->layer_count == 1;
    if (status == LAKE_OK && !plain_null && (plan->rep != NULL || plan->def != NULL))
        status = put_levels(plan, out, err);
    return status != LAKE_OK ? status : lance_page_layout_print(&layout, &out->layout, err);
}

/* ---- full-zip pages ---- */

static uint32_t level_bits(uint32_t max)
{
    return max == 0 ? 0 : 32 - (uint32_t)__builtin_clz(max);
}

struct zip {
    const struct lance_page_plan *plan;
    const struct lance_leaf_values *values;
    uint32_t bits_rep, bits_def, control_bytes;
    bool variable;
    struct lance_value_plan value_plan; /* of strings: their symbols, if they have some */
    struct base_buffer *out;
};

static lake_status put_fixed_value(const struct zip *zip, uint64_t slot, struct lake_error *err)
{
    const struct lance_leaf_values *values = zip->values;
    const struct lance_leaf_type *type = values->type;
    lake_status status = LAKE_OK;
    for (uint32_t depth = 0; status == LAKE_OK && depth < type->fsl_depth; depth++) {
        uint64_t items = lance_leaf_items_at(type, depth);
        size_t bytes = (size_t)(items + 7) / 8;
        if (!values->item_nulls[depth])
            continue;
        status = base_buffer_append_zeros(zip->out, bytes, err);
        if (status == LAKE_OK)
            lance_bits_copy(zip->out->data + zip->out->size - bytes, 0,
                            values->item_valid[depth].bytes.data, slot * items, items);
    }
    if (status != LAKE_OK)
        return status;
    if (type->item_bits == 1 && type->kind == LANCE_LEAF_FIXED) {
        uint8_t byte = (values->booleans.bytes.data[slot / 8] >> (slot % 8)) & 1;
        return base_buffer_append(zip->out, &byte, 1, err);
    }
    if (type->item_bits == 1) {
        size_t bytes = (size_t)(type->items + 7) / 8;
        status = base_buffer_append_zeros(zip->out, bytes, err);
        if (status == LAKE_OK)
            lance_bits_copy(zip->out->data + zip->out->size - bytes, 0, values->booleans.bytes.data,
                            slot * type->items, type->items);
        return status;
    }
    size_t bytes = (size_t)(type->items * (type->item_bits / 8));
    return base_buffer_append(zip->out, values->fixed.data + slot * bytes, bytes, err);
}

static lake_status put_variable_value(const struct zip *zip, uint64_t slot, struct lake_error *err)
{
    uint64_t start, end;
    uint8_t length[8];
    size_t width = zip->values->type->offset_bytes;
    lance_leaf_values_range(zip->values, slot, &start, &end);
    base_store_u64le(length, end - start);
    lake_status status = base_buffer_append(zip->out, length, width, err);
    if (status == LAKE_OK && end > start)
        status = base_buffer_append(zip->out, zip->values->data.data + start, (size_t)(end - start),
                                    err);
    return status;
}

/* One entry; *slot moves on when it has one. */
static lake_status put_entry(const struct zip *zip, uint64_t entry, uint64_t *slot,
                             struct lake_error *err)
{
    const struct lance_page_plan *plan = zip->plan;
    uint32_t rep = plan->rep == NULL ? 0 : plan->rep[entry];
    uint32_t def = plan->def == NULL ? 0 : plan->def[entry];
    uint8_t control[4];
    base_store_u32le(control, rep << zip->bits_def | def);
    lake_status status = base_buffer_append(zip->out, control, zip->control_bytes, err);
    if (status != LAKE_OK || def > plan->visible_level)
        return status;
    uint64_t at = (*slot)++;
    if (!zip->variable)
        return put_fixed_value(zip, at, err);
    return def == 0 ? put_variable_value(zip, at, err) : LAKE_OK;
}

/* Offsets of the rows and the end, all of the smallest width that holds the end. */
static lake_status put_row_index(const uint64_t *starts, uint64_t count, uint64_t end,
                                 struct base_buffer *out, struct lake_error *err)
{
    size_t width = end <= UINT8_MAX ? 1 : end <= UINT16_MAX ? 2 : end <= UINT32_MAX ? 4 : 8;
    lake_status status = base_buffer_reserve(out, (size_t)(count + 1) * width, err);
    for (uint64_t i = 0; status == LAKE_OK && i <= count; i++) {
        uint64_t value = i < count ? starts[i] : end;
        status = base_buffer_append(out, &value, width, err); /* little endian */
    }
    return status;
}

/* Strings as they are, or each as symbols. */
static lake_status variable_zip_encoding(struct zip *zip, struct lance_page_layout *layout,
                                         struct lake_error *err)
{
    const struct lance_leaf_values *values = zip->values;
    struct base_arena *arena = zip->plan->arena;
    uint64_t plain = values->data.size + values->offsets.size;
    uint64_t best = plain - plain / 100 * zip->plan->options->min_saving;
    struct lance_encoding *node = lance_encoding_new(arena, LANCE_ENCODING_VARIABLE, 0, NULL);
    layout->bits_per_offset = values->type->offset_bytes * 8;
    if (node != NULL)
        node->lengths = lance_encoding_flat(arena, layout->bits_per_offset);
    if (node == NULL || node->lengths == NULL)
        return lance_encoding_out_of_memory(err);
    layout->values = node;
    lake_status status = lance_try_symbols(zip->plan, node, &best, &zip->value_plan, err);
    if (status == LAKE_OK && zip->value_plan.encoding != NULL) {
        layout->values = zip->value_plan.encoding;
        zip->values = &zip->value_plan.symbols;
    }
    return status;
}

static lake_status zip_encoding(struct zip *zip, struct lance_page_layout *layout,
                                struct lake_error *err)
{
    const struct lance_leaf_type *type = zip->values->type;
    struct base_arena *arena = zip->plan->arena;
    uint64_t bytes = type->item_bits == 1 && type->kind == LANCE_LEAF_FIXED
                         ? 1
                         : (type->items * type->item_bits + 7) / 8;
    struct lance_encoding *node;
    if (zip->variable)
        return variable_zip_encoding(zip, layout, err);
    node = lance_encoding_new(arena, LANCE_ENCODING_FLAT,
                              type->kind == LANCE_LEAF_FIXED ? bytes * 8 : type->item_bits, NULL);
    for (uint32_t depth = type->fsl_depth; node != NULL && depth-- > 0;) {
        node = lance_encoding_new(arena, LANCE_ENCODING_FIXED_SIZE_LIST, 0, node);
        if (node == NULL)
            break;
        node->items = type->fsl_sizes[depth];
        node->has_validity = zip->values->item_nulls[depth];
        if (node->has_validity)
            bytes += (lance_leaf_items_at(type, depth) + 7) / 8;
    }
    layout->bits_per_value = bytes * 8;
    layout->values = node;
    return node != NULL ? LAKE_OK : base_fail_no_memory(err, sizeof(*node));
}

/* Bits of a row in the Arrow buffer, 0 for booleans, which full-zip widens. */
static uint64_t row_bits(const struct lance_leaf_type *type)
{
    return type->item_bits == 1 ? 0 : type->items * type->item_bits;
}

static lake_status encode_full_zip(const struct lance_page_plan *plan,
                                   struct lance_encoded_page *out, struct lake_error *err)
{
    struct lance_page_rows *rows = plan->rows;
    struct zip zip = {.plan = plan,
                      .values = &rows->values,
                      .bits_rep = level_bits(plan->max_rep),
                      .bits_def = level_bits(plan->max_def),
                      .variable = rows->type.kind == LANCE_LEAF_VARIABLE,
                      .out = &out->buffers[0]};
    struct lance_page_layout layout;
    uint64_t slot = 0, row = 0;
    uint32_t bits = zip.bits_rep + zip.bits_def;
    if (rows->type.kind == LANCE_LEAF_DICTIONARY || rows->type.kind == LANCE_LEAF_NULL)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "more than %u empty or null lists in a row around type \"%s\"", UINT16_MAX,
                         rows->type.arrow->format);
    zip.control_bytes = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
    lance_plan_layout(plan, &layout);
    layout.kind = LANCE_FULL_ZIP;
    layout.bits_rep = zip.bits_rep;
    layout.bits_def = zip.bits_def;
    layout.item_count = rows->entry_count;
    layout.visible_item_count = rows->values.count;
    lance_value_plan_init(&zip.value_plan);
    lake_status status = zip_encoding(&zip, &layout, err);
    base_buffer_clear(&rows->work[0]);
    if (status == LAKE_OK)
        status = base_buffer_reserve(&rows->work[0], (size_t)rows->row_count * 8, err);
    uint64_t *starts = (uint64_t *)(void *)rows->work[0].data;
    bool plain = !zip.variable && bits == 0 && layout.bits_per_value == row_bits(&rows->type);
    if (status == LAKE_OK && plain)
        status = base_buffer_append(zip.out, rows->values.fixed.data, rows->values.fixed.size, err);
    for (uint64_t i = 0; status == LAKE_OK && !plain && i < rows->entry_count; i++) {
        if (plan->rep == NULL || plan->rep[i] == plan->max_rep)
            starts[row++] = zip.out->size;
        status = put_entry(&zip, i, &slot, err);
    }
    out->buffer_count = 1;
    if (status == LAKE_OK && (zip.variable || plan->rep != NULL)) {
        status = put_row_index(starts, row, zip.out->size, &out->buffers[1], err);
        out->buffer_count = 2;
    }
    lance_value_plan_fini(&zip.value_plan);
    return status != LAKE_OK ? status : lance_page_layout_print(&layout, &out->layout, err);
}

/* ---- the layout ---- */

/* Long values go one by one behind their levels, so that one can be read without its neighbours. */
static bool wants_full_zip(const struct lance_page_plan *plan)
{
    const struct lance_page_rows *rows = plan->rows;
    const struct lance_leaf_type *type = &rows->type;
    if (plan->options->always_mini_block)
        return false;
    if (type->kind == LANCE_LEAF_VARIABLE) {
        for (uint64_t i = 0; !plan->options->always_full_zip && i < rows->values.count; i++) {
            uint64_t start, end;
            lance_leaf_values_range(&rows->values, i, &start, &end);
            if (end - start >= LANCE_FULL_ZIP_FROM)
                return true;
        }
        return plan->options->always_full_zip;
    }
    return (type->kind == LANCE_LEAF_FSL || type->kind == LANCE_LEAF_FIXED) &&
           type->item_bits >= 8 &&
           (plan->options->always_full_zip ||
            type->items * (type->item_bits / 8) >= LANCE_FULL_ZIP_FROM);
}

lake_status lance_page_encode(struct lance_page_rows *rows,
                              const struct lance_encode_options *options,
                              struct lance_compressor *compressor, struct lance_encoded_page *out,
                              struct lake_error *err)
{
    struct lance_page_plan plan = {.rows = rows, .options = options, .compressor = compressor};
    bool done = false;
    compressor->level = options->level;
    clear_page(out);
    make_plan(rows, &plan);
    lake_status status = base_arena_new(PLAN_ARENA_BYTES, &plan.arena, err);
    if (status != LAKE_OK)
        return status;
    status = encode_constant(&plan, out, &done, err);
    if (status == LAKE_OK && !done && !wants_full_zip(&plan)) {
        clear_page(out);
        status = lance_mini_block_encode(&plan, out, &done, err);
    }
    if (status == LAKE_OK && !done) {
        clear_page(out);
        status = encode_full_zip(&plan, out, err);
    }
    base_arena_free(plan.arena);
    return status;
}
