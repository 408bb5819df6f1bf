/*
 * Shredding: rows of nested Arrow arrays to values and levels of one leaf.
 *
 * Every array has its own offset, and a struct's offset also moves its children: an index below is
 * always logical, counted from the array's offset. Null slots are written as zeros or empty, so
 * that a page never depends on what an array hides under its nulls.
 */
#include "file_write.h"

#include <string.h>

#define MAX_ROWS_BYTES ((size_t)1 << 40)

lake_status lance_page_rows_init(struct lance_page_rows *rows, const struct lance_field *leaf,
                                 const struct lance_leaf_path *path, struct lake_error *err)
{
    struct lance_leaf_type type, dictionary_type = {.items = 1};
    bool json = leaf->stored == LANCE_STORED_JSON;
    lake_status status = lance_leaf_type_of(leaf->stored_arrow, &type, err);
    if (status == LAKE_OK && type.kind == LANCE_LEAF_DICTIONARY)
        status = lance_leaf_type_of(type.dictionary, &dictionary_type, err);
    if (status == LAKE_OK && type.kind == LANCE_LEAF_DICTIONARY &&
        (dictionary_type.kind != LANCE_LEAF_VARIABLE &&
         (dictionary_type.kind != LANCE_LEAF_FIXED || dictionary_type.item_bits < 8)))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "dictionaries of values of type \"%s\" cannot be written",
                           type.dictionary->format);
    if (status == LAKE_OK && type.kind == LANCE_LEAF_PACKED)
        status = lake_fail(err, LAKE_UNIMPLEMENTED, "packed structs cannot be written");
    if (status != LAKE_OK)
        return status;
    *rows = (struct lance_page_rows){.type = type,
                                     .dictionary_type = dictionary_type,
                                     .offset_bytes = json ? 4 : type.offset_bytes,
                                     .json_field = json ? leaf->name : NULL,
                                     .path = *path};
    lance_jsonb_encoder_init(&rows->json);
    uint32_t level = 0;
    bool below_list = true;
    for (size_t i = path->layer_count; i-- > 0;) { /* leaf first */
        rows->null_level[i] = level + 1;
        level += path->is_list[i] ? 2 : 1;
        if (path->is_list[i]) {
            rows->list_count++;
            below_list = false;
        }
        if (below_list)
            rows->visible_level = level;
    }
    lance_leaf_values_init(&rows->values, &rows->type);
    lance_leaf_values_init(&rows->dictionary, type.kind == LANCE_LEAF_DICTIONARY
                                                  ? &rows->dictionary_type
                                                  : &rows->type);
    base_buffer_init(&rows->rep, MAX_ROWS_BYTES);
    base_buffer_init(&rows->def, MAX_ROWS_BYTES);
    for (size_t i = 0; i < BASE_ARRAY_LEN(rows->work); i++)
        base_buffer_init(&rows->work[i], MAX_ROWS_BYTES);
    return LAKE_OK;
}

void lance_page_rows_fini(struct lance_page_rows *rows)
{
    lance_leaf_values_fini(&rows->values);
    lance_leaf_values_fini(&rows->dictionary);
    lance_jsonb_encoder_fini(&rows->json);
    base_buffer_fini(&rows->rep);
    base_buffer_fini(&rows->def);
    for (size_t i = 0; i < BASE_ARRAY_LEN(rows->work); i++)
        base_buffer_fini(&rows->work[i]);
}

void lance_page_rows_clear(struct lance_page_rows *rows)
{
    rows->first_row += rows->row_count;
    rows->row_count = rows->entry_count = 0;
    rows->has_def = false;
    memset(rows->level_used, 0, sizeof(rows->level_used));
    base_buffer_clear(&rows->rep);
    base_buffer_clear(&rows->def);
    lance_leaf_values_clear(&rows->values);
    lance_leaf_values_clear(&rows->dictionary);
}

uint64_t lance_page_rows_bytes(const struct lance_page_rows *rows)
{
    return rows->values.fixed.size + rows->values.data.size + rows->values.offsets.size +
           rows->values.booleans.bytes.size + rows->rep.size + rows->row_count;
}

lake_status lance_page_rows_reserve(struct lance_page_rows *rows, uint64_t bytes,
                                    struct lake_error *err)
{
    struct base_buffer *to =
        rows->type.kind == LANCE_LEAF_VARIABLE ? &rows->values.data : &rows->values.fixed;
    if (rows->type.kind == LANCE_LEAF_NULL || rows->type.item_bits == 1 || to->size >= bytes)
        return LAKE_OK;
    return base_buffer_reserve(to, (size_t)bytes - to->size, err);
}

/* ---- walking arrays ---- */

static inline bool bit_at(const void *bits, uint64_t i)
{
    return (((const uint8_t *)bits)[i / 8] >> (i % 8) & 1) != 0;
}

/* Where a list's (or string's) range starts: entry `i` of its offsets. */
static inline uint64_t offset_at(const struct ArrowArray *array, bool large, uint64_t i)
{
    const uint8_t *offsets = array->buffers[1];
    if (array->length == 0 || offsets == NULL)
        return 0;
    i += (uint64_t)array->offset;
    return large ? base_load_u64le(offsets + 8 * i) : base_load_u32le(offsets + 4 * i);
}

static bool has_nulls(const struct ArrowArray *array)
{
    return array->null_count != 0 && array->n_buffers > 0 && array->buffers[0] != NULL;
}

/* The child of layer `i`, and where logical index `at` of the parent lies in it. */
static const struct ArrowArray *enter(const struct lance_page_rows *rows,
                                      const struct ArrowArray *array, size_t i, uint64_t *at)
{
    if (rows->path.is_list[i])
        *at = offset_at(array, rows->path.large_list[i], *at);
    else
        *at += (uint64_t)array->offset;
    return array->children[rows->path.child_index[i]];
}

/* Bytes that rows [start, end) add, nearly: exact for their values unless nulls hide some. */
static uint64_t range_bytes(const struct lance_page_rows *rows, const struct ArrowArray *array,
                            uint64_t start, uint64_t end)
{
    uint64_t bytes = end - start;
    for (size_t i = 0; i + 1 < rows->path.layer_count; i++) {
        const struct ArrowArray *parent = array;
        array = enter(rows, parent, i, &start);
        (void)enter(rows, parent, i, &end);
    }
    if (rows->type.kind == LANCE_LEAF_VARIABLE) {
        bool large = rows->offset_bytes == 8;
        bytes += (end - start) * rows->type.offset_bytes + offset_at(array, large, end) -
                 offset_at(array, large, start);
    } else {
        bytes += (end - start) * ((rows->type.items * rows->type.item_bits + 7) / 8);
    }
    return rows->list_count > 0 ? bytes + 4 * (end - start) : bytes;
}

uint64_t lance_page_rows_fitting(const struct lance_page_rows *rows, const struct ArrowArray *field,
                                 uint64_t start, uint64_t count, uint64_t budget)
{
    uint64_t low = 1, high = count;
    if (range_bytes(rows, field, start, start + count) <= budget)
        return count;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (range_bytes(rows, field, start, start + middle) <= budget)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* ---- Arrow dictionaries ---- */

static const struct ArrowArray *leaf_array(const struct lance_page_rows *rows,
                                           const struct ArrowArray *field)
{
    for (size_t i = 0; i + 1 < rows->path.layer_count; i++)
        field = field->children[rows->path.child_index[i]];
    return field;
}

/* True when the page's items start with exactly the items of `array`. */
static bool dictionary_is(const struct lance_page_rows *rows, const struct ArrowArray *array)
{
    const struct lance_leaf_values *have = &rows->dictionary;
    uint64_t count = (uint64_t)array->length;
    if (have->count < count)
        return false;
    if (rows->dictionary_type.kind == LANCE_LEAF_FIXED) {
        size_t width = (size_t)rows->dictionary_type.item_bits / 8;
        const uint8_t *from = (const uint8_t *)array->buffers[1];
        return count == 0 || memcmp(have->fixed.data, from + (size_t)array->offset * width,
                                    (size_t)count * width) == 0;
    }
    bool large = rows->dictionary_type.offset_bytes == 8;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t start, end, from = offset_at(array, large, i), to = offset_at(array, large, i + 1);
        lance_leaf_values_range(have, i, &start, &end);
        if (end - start != to - from ||
            (to > from && memcmp(have->data.data + start, (const uint8_t *)array->buffers[2] + from,
                                 to - from) != 0))
            return false;
    }
    return true;
}

bool lance_page_rows_must_flush(const struct lance_page_rows *rows, const struct ArrowArray *field)
{
    if (rows->type.kind != LANCE_LEAF_DICTIONARY || rows->dictionary.count == 0)
        return false;
    const struct ArrowArray *dictionary = leaf_array(rows, field)->dictionary;
    return !dictionary_is(rows, dictionary) &&
           rows->dictionary.count + (uint64_t)dictionary->length >
               lance_leaf_key_limit(&rows->type) + 1;
}

/* ---- values ---- */

static lake_status append_items(struct lance_page_rows *rows, const struct ArrowArray *array,
                                uint64_t start, uint64_t items, struct lake_error *err)
{
    struct lance_leaf_values *values = &rows->values;
    const uint8_t *from = array->buffers[1];
    uint64_t bits = rows->type.item_bits;
    start += (uint64_t)array->offset;
    if (items == 0)
        return LAKE_OK;
    if (bits == 1)
        return lance_bits_append(&values->booleans, from, start, items, err);
    return base_buffer_append(&values->fixed, from + start * (bits / 8),
                              (size_t)(items * (bits / 8)), err);
}

static lake_status append_fsl(struct lance_page_rows *rows, const struct ArrowArray *array,
                              uint64_t start, uint64_t count, struct lake_error *err)
{
    struct lance_leaf_values *values = &rows->values;
    uint64_t items = count;
    lake_status status = LAKE_OK;
    for (uint32_t depth = 0; status == LAKE_OK && depth < rows->type.fsl_depth; depth++) {
        uint64_t size = rows->type.fsl_sizes[depth];
        start = (start + (uint64_t)array->offset) * size;
        items *= size;
        array = array->children[0];
        if (has_nulls(array)) {
            status = lance_leaf_values_need_item_validity(values, depth, err);
            if (status == LAKE_OK)
                status = lance_bits_append(&values->item_valid[depth], array->buffers[0],
                                           start + (uint64_t)array->offset, items, err);
        } else if (values->item_nulls[depth]) {
            status = lance_bits_append_run(&values->item_valid[depth], true, items, err);
        }
    }
    if (status == LAKE_OK)
        status = append_items(rows, array, start, items, err);
    return status;
}

static lake_status append_dictionary(struct lance_page_rows *rows,
                                     const struct ArrowArray *dictionary, uint64_t *base,
                                     struct lake_error *err)
{
    struct lance_leaf_values *items = &rows->dictionary;
    uint64_t count = (uint64_t)dictionary->length;
    *base = 0;
    if (dictionary_is(rows, dictionary))
        return LAKE_OK;
    *base = items->count;
    if (rows->dictionary_type.kind == LANCE_LEAF_FIXED) {
        size_t width = (size_t)rows->dictionary_type.item_bits / 8;
        const uint8_t *from = dictionary->buffers[1];
        lake_status status = base_buffer_append(
            &items->fixed, from + (size_t)dictionary->offset * width, (size_t)count * width, err);
        if (status == LAKE_OK)
            items->count += count;
        return status;
    }
    uint32_t width = rows->dictionary_type.offset_bytes;
    struct lance_variable_view view = {.offsets = (const uint8_t *)dictionary->buffers[1] +
                                                  (size_t)dictionary->offset * width,
                                       .offset_bytes = width,
                                       .base = dictionary->buffers[2],
                                       .base_bytes = SIZE_MAX,
                                       .count = count};
    return lance_leaf_values_append_view(items, &view, 0, count, err);
}

/* Keys moved up by `base`; a key outside its dictionary is the caller's mistake. */
static lake_status append_keys(struct lance_page_rows *rows, const struct ArrowArray *array,
                               uint64_t start, uint64_t count, uint64_t base,
                               struct lake_error *err)
{
    size_t width = (size_t)rows->type.item_bits / 8, first = rows->values.fixed.size;
    lake_status status = append_items(rows, array, start, count, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++) {
        uint64_t key = 0;
        uint8_t *at = rows->values.fixed.data + first + i * width;
        memcpy(&key, at, width);
        if (key >= (uint64_t)array->dictionary->length) {
            rows->values.fixed.size = first;
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "dictionary key %llu, but the dictionary has %lld values",
                             (unsigned long long)key, (long long)array->dictionary->length);
        }
        key += base;
        memcpy(at, &key, width);
    }
    return status;
}

static lake_status append_json(struct lance_page_rows *rows, const struct ArrowArray *array,
                               uint64_t start, uint64_t count, struct lake_error *err)
{
    for (uint64_t i = start; i < start + count; i++) {
        uint64_t from = offset_at(array, false, i), to = offset_at(array, false, i + 1);
        struct lake_str text = {(const char *)array->buffers[2] + from, (size_t)(to - from)};
        struct lake_bytes document;
        struct lake_error why;
        lake_status status = lance_jsonb_of_text(&rows->json, text, &document, &why);
        if (status != LAKE_OK) /* in one sentence: causes stay on the server */
            return lake_fail(err, status, "column %s, row %llu of a batch: %s", rows->json_field,
                             (unsigned long long)i, why.message);
        status = lance_leaf_values_append_one(&rows->values, document.data, document.size, err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* `count` valid slots of the leaf array from logical index `start`. */
static lake_status append_valid(struct lance_page_rows *rows, const struct ArrowArray *array,
                                uint64_t start, uint64_t count, uint64_t base,
                                struct lake_error *err)
{
    struct lance_leaf_values *values = &rows->values;
    lake_status status;
    switch (rows->type.kind) {
    case LANCE_LEAF_VARIABLE: {
        uint32_t width = rows->offset_bytes;
        if (rows->json_field != NULL)
            return append_json(rows, array, start, count, err);
        struct lance_variable_view view = {.offsets = (const uint8_t *)array->buffers[1] +
                                                      (start + (uint64_t)array->offset) * width,
                                           .offset_bytes = width,
                                           .base = array->buffers[2],
                                           .base_bytes = SIZE_MAX,
                                           .count = count};
        return lance_leaf_values_append_view(values, &view, 0, count, err);
    }
    case LANCE_LEAF_FSL:
        status = append_fsl(rows, array, start, count, err);
        break;
    case LANCE_LEAF_DICTIONARY:
        status = append_keys(rows, array, start, count, base, err);
        break;
    case LANCE_LEAF_FIXED:
        status = append_items(rows, array, start, count, err);
        break;
    default:
        status = LAKE_OK;
        break;
    }
    if (status == LAKE_OK)
        values->count += count;
    return status;
}

/* Slots of entries with the given levels: runs of valid ones are copied, the others are zeros.
 * `index[i]` is where an entry's value lies, or with index NULL first + i. */
static lake_status append_slots(struct lance_page_rows *rows, const struct ArrowArray *array,
                                const uint16_t *def, const int64_t *index, uint64_t first,
                                uint64_t count, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t i = 0, base = 0;
    if (rows->type.kind == LANCE_LEAF_DICTIONARY)
        status = append_dictionary(rows, array->dictionary, &base, err);
    if (status == LAKE_OK && def == NULL && index == NULL)
        return append_valid(rows, array, first, count, base, err);
    while (status == LAKE_OK && i < count) {
        uint64_t run = i;
        if (def != NULL && def[i] > rows->visible_level) {
            i++;
            continue;
        }
        if (def != NULL && def[i] != 0) {
            while (run < count && def[run] != 0 && def[run] <= rows->visible_level)
                run++;
            status = lance_leaf_values_append_zeros(&rows->values, run - i, err);
        } else {
            int64_t from = index == NULL ? (int64_t)(first + i) : index[i];
            while (run < count && (def == NULL || def[run] == 0) &&
                   (index == NULL || index[run] == from + (int64_t)(run - i)))
                run++;
            status = append_valid(rows, array, (uint64_t)from, run - i, base, err);
        }
        i = run;
    }
    return status;
}

/* ---- levels ---- */

static lake_status need_def(struct lance_page_rows *rows, struct lake_error *err)
{
    if (rows->has_def)
        return LAKE_OK;
    rows->has_def = true;
    return base_buffer_append_zeros(&rows->def, (size_t)rows->entry_count * 2, err);
}

/* True when slot `at` of the leaf or struct is null: by its bitmap, or because its dictionary says
 * so, or because the type has only nulls. */
static bool slot_is_null(const struct lance_page_rows *rows, const struct ArrowArray *array,
                         bool leaf, uint64_t at)
{
    if (leaf && rows->type.kind == LANCE_LEAF_NULL)
        return true;
    uint64_t physical = at + (uint64_t)array->offset;
    if (has_nulls(array) && !bit_at(array->buffers[0], physical))
        return true;
    if (!leaf || rows->type.kind != LANCE_LEAF_DICTIONARY || !has_nulls(array->dictionary))
        return false;
    uint64_t key = 0;
    size_t width = (size_t)rows->type.item_bits / 8;
    memcpy(&key, (const uint8_t *)array->buffers[1] + physical * width, width);
    return key < (uint64_t)array->dictionary->length &&
           !bit_at(array->dictionary->buffers[0], key + (uint64_t)array->dictionary->offset);
}

static bool may_have_nulls(const struct lance_page_rows *rows, const struct ArrowArray *array,
                           bool leaf)
{
    if (leaf && rows->type.kind == LANCE_LEAF_NULL)
        return true;
    return has_nulls(array) ||
           (leaf && rows->type.kind == LANCE_LEAF_DICTIONARY && has_nulls(array->dictionary));
}

/* Marks the nulls of one layer; called from the leaf up, so that the outermost null stays. */
static lake_status mark_nulls(struct lance_page_rows *rows, const struct ArrowArray *array,
                              size_t layer, uint64_t start, uint64_t count, struct lake_error *err)
{
    bool leaf = layer + 1 == rows->path.layer_count;
    uint16_t level = (uint16_t)rows->null_level[layer];
    if (!may_have_nulls(rows, array, leaf))
        return LAKE_OK;
    uint16_t *def = (uint16_t *)(void *)rows->def.data;
    if (!rows->has_def) {
        lake_status status = need_def(rows, err);
        if (status == LAKE_OK)
            status = base_buffer_append_zeros(&rows->def, (size_t)count * 2, err);
        if (status != LAKE_OK)
            return status;
        def = (uint16_t *)(void *)rows->def.data;
    }
    def += rows->entry_count;
    for (uint64_t i = 0; i < count; i++) {
        if (slot_is_null(rows, array, leaf, start + i))
            def[i] = level;
    }
    return LAKE_OK;
}

/* Rows without lists: one entry a row. */
static lake_status append_flat_rows(struct lance_page_rows *rows, const struct ArrowArray *field,
                                    uint64_t start, uint64_t count, struct lake_error *err)
{
    const struct ArrowArray *arrays[LANCE_MAX_LAYERS];
    uint64_t starts[LANCE_MAX_LAYERS];
    size_t layers = rows->path.layer_count;
    lake_status status = LAKE_OK;
    arrays[0] = field;
    starts[0] = start;
    for (size_t i = 0; i + 1 < layers; i++) {
        starts[i + 1] = starts[i];
        arrays[i + 1] = enter(rows, arrays[i], i, &starts[i + 1]);
    }
    if (rows->has_def)
        status = base_buffer_append_zeros(&rows->def, (size_t)count * 2, err);
    for (size_t i = layers; status == LAKE_OK && i-- > 0;)
        status = mark_nulls(rows, arrays[i], i, starts[i], count, err);
    if (status != LAKE_OK)
        return status;
    const uint16_t *def =
        rows->has_def ? (const uint16_t *)(const void *)rows->def.data + rows->entry_count : NULL;
    for (uint64_t i = 0; def != NULL && i < count; i++)
        rows->level_used[def[i]] = true;
    status = append_slots(rows, arrays[layers - 1], def, NULL, starts[layers - 1], count, err);
    rows->entry_count += count;
    return status;
}

/* Entries while they are taken apart from the top layer down. */
struct entries {
    struct base_buffer *rep, *def; /* u16 */
    struct base_buffer *index;     /* i64 into the current array; -1 once the entry is decided */
    uint64_t count;
};

static lake_status reserve_entries(struct entries *to, uint64_t more, struct lake_error *err)
{
    size_t bytes;
    if (more > SIZE_MAX || !base_size_mul((size_t)more, sizeof(int64_t), &bytes))
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many list items in one batch");
    lake_status status = base_buffer_reserve(to->rep, bytes / 4, err);
    if (status == LAKE_OK)
        status = base_buffer_reserve(to->def, bytes / 4, err);
    return status != LAKE_OK ? status : base_buffer_reserve(to->index, bytes, err);
}

/* Into room that is reserved. */
static inline void push_entry(struct entries *to, uint16_t rep, uint16_t def, int64_t index)
{
    ((uint16_t *)(void *)to->rep->data)[to->count] = rep;
    ((uint16_t *)(void *)to->def->data)[to->count] = def;
    ((int64_t *)(void *)to->index->data)[to->count] = index;
    to->count++;
    to->rep->size += sizeof(rep);
    to->def->size += sizeof(def);
    to->index->size += sizeof(index);
}

/* An item layer: nulls are decided, the others move on to the child (or stay at the leaf). */
static void enter_item(const struct lance_page_rows *rows, const struct ArrowArray *array,
                       size_t layer, struct entries *entries)
{
    bool leaf = layer + 1 == rows->path.layer_count;
    uint16_t *def = (uint16_t *)(void *)entries->def->data;
    int64_t *index = (int64_t *)(void *)entries->index->data;
    bool nulls = may_have_nulls(rows, array, leaf);
    for (uint64_t i = 0; i < entries->count; i++) {
        if (index[i] < 0)
            continue;
        if (nulls && slot_is_null(rows, array, leaf, (uint64_t)index[i])) {
            def[i] = (uint16_t)rows->null_level[layer];
            index[i] = -1;
        } else if (!leaf) {
            index[i] += array->offset;
        }
    }
}

/* A list layer: every list becomes its items; `below` lists are still to come. */
static lake_status enter_list(const struct lance_page_rows *rows, const struct ArrowArray *array,
                              size_t layer, uint16_t below, const struct entries *from,
                              struct entries *to, struct lake_error *err)
{
    const uint16_t *rep = (const uint16_t *)(const void *)from->rep->data;
    const uint16_t *def = (const uint16_t *)(const void *)from->def->data;
    const int64_t *index = (const int64_t *)(const void *)from->index->data;
    uint16_t null_level = (uint16_t)rows->null_level[layer];
    bool large = rows->path.large_list[layer];
    bool nulls = has_nulls(array);
    for (uint64_t i = 0; i < from->count; i++) {
        uint64_t at = (uint64_t)index[i], start = 0, end = 0;
        bool null =
            index[i] >= 0 && nulls && !bit_at(array->buffers[0], at + (uint64_t)array->offset);
        if (index[i] >= 0 && !null) {
            start = offset_at(array, large, at);
            end = offset_at(array, large, at + 1);
        }
        uint64_t items = end > start ? end - start : 0;
        lake_status status = reserve_entries(to, BASE_MAX(items, (uint64_t)1), err);
        if (status != LAKE_OK)
            return status;
        if (index[i] < 0)
            push_entry(to, rep[i], def[i], -1);
        else if (items == 0)
            push_entry(to, rep[i], (uint16_t)(null_level + !null), -1);
        for (uint64_t k = 0; k < items; k++)
            push_entry(to, k == 0 ? rep[i] : below, 0, (int64_t)(start + k));
    }
    return LAKE_OK;
}

static void clear_entries(struct entries *entries)
{
    base_buffer_clear(entries->rep);
    base_buffer_clear(entries->def);
    base_buffer_clear(entries->index);
    entries->count = 0;
}

static lake_status finish_entries(struct lance_page_rows *rows, const struct ArrowArray *leaf,
                                  const struct entries *entries, struct lake_error *err)
{
    const uint16_t *def = (const uint16_t *)(const void *)entries->def->data;
    lake_status status = need_def(rows, err);
    for (uint64_t i = 0; i < entries->count; i++)
        rows->level_used[def[i]] = true;
    if (status == LAKE_OK)
        status = base_buffer_append(&rows->rep, entries->rep->data, entries->rep->size, err);
    if (status == LAKE_OK)
        status = base_buffer_append(&rows->def, entries->def->data, entries->def->size, err);
    if (status == LAKE_OK)
        status = append_slots(rows, leaf, def, (const int64_t *)(const void *)entries->index->data,
                              0, entries->count, err);
    rows->entry_count += entries->count;
    return status;
}

static lake_status append_list_rows(struct lance_page_rows *rows, const struct ArrowArray *field,
                                    uint64_t start, uint64_t count, struct lake_error *err)
{
    struct base_buffer other_rep, other_def, other_index;
    struct entries now = {&rows->work[0], &rows->work[1], &rows->work[2], 0};
    struct entries next = {&other_rep, &other_def, &other_index, 0};
    uint16_t lists = (uint16_t)rows->list_count;
    const struct ArrowArray *array = field;
    lake_status status = LAKE_OK;
    base_buffer_init(&other_rep, MAX_ROWS_BYTES);
    base_buffer_init(&other_def, MAX_ROWS_BYTES);
    base_buffer_init(&other_index, MAX_ROWS_BYTES);
    clear_entries(&now);
    status = reserve_entries(&now, count, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
        push_entry(&now, lists, 0, (int64_t)(start + i));
    for (size_t i = 0; status == LAKE_OK && i < rows->path.layer_count; i++) {
        if (rows->path.is_list[i]) {
            clear_entries(&next);
            status = enter_list(rows, array, i, --lists, &now, &next, err);
            struct entries swap = now;
            now = next;
            next = swap;
        } else {
            enter_item(rows, array, i, &now);
        }
        if (i + 1 < rows->path.layer_count)
            array = array->children[rows->path.child_index[i]];
    }
    if (status == LAKE_OK)
        status = finish_entries(rows, array, &now, err);
    base_buffer_fini(&other_rep);
    base_buffer_fini(&other_def);
    base_buffer_fini(&other_index);
    return status;
}

lake_status lance_page_rows_append(struct lance_page_rows *rows, const struct ArrowArray *field,
                                   uint64_t start, uint64_t count, struct lake_error *err)
{
    lake_status status = rows->list_count > 0 ? append_list_rows(rows, field, start, count, err)
                                              : append_flat_rows(rows, field, start, count, err);
    rows->row_count += count;
    return status;
}
