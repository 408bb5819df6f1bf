#include "array_build.h"

#include <string.h>

#define MAX_BUFFERS 3

/* What private_data points to. */
struct owned {
    void *memory[MAX_BUFFERS];
    const void *buffers[MAX_BUFFERS];
    struct ArrowArray *children;
    struct ArrowArray **child_pointers;
    struct ArrowArray dictionary;
};

/* Stands in for empty buffers, which consumers may not expect to be NULL. */
static const uint64_t zeros[8];

static void release_array(struct ArrowArray *array)
{
    struct owned *owned = array->private_data;
    for (size_t i = 0; i < MAX_BUFFERS; i++)
        base_free(owned->memory[i]);
    for (int64_t i = 0; i < array->n_children; i++)
        if (owned->children[i].release != NULL)
            owned->children[i].release(&owned->children[i]);
    if (owned->dictionary.release != NULL)
        owned->dictionary.release(&owned->dictionary);
    base_free(owned->children);
    base_free(owned->child_pointers);
    base_free(owned);
    array->release = NULL;
}

lake_status lance_array_new(uint64_t length, size_t buffer_count, size_t child_count,
                            bool dictionary, struct ArrowArray *out, struct lake_error *err)
{
    struct owned *owned = base_calloc_array(1, sizeof(*owned));
    if (owned == NULL)
        return base_fail_no_memory(err, sizeof(*owned));
    owned->children = base_calloc_array(child_count + 1, sizeof(*owned->children));
    owned->child_pointers = base_calloc_array(child_count + 1, sizeof(*owned->child_pointers));
    if (owned->children == NULL || owned->child_pointers == NULL) {
        base_free(owned->children);
        base_free(owned->child_pointers);
        base_free(owned);
        return base_fail_no_memory(err, child_count * sizeof(*owned->children));
    }
    for (size_t i = 0; i < child_count; i++)
        owned->child_pointers[i] = &owned->children[i];
    *out = (struct ArrowArray){.length = (int64_t)length,
                               .n_buffers = (int64_t)buffer_count,
                               .n_children = (int64_t)child_count,
                               .buffers = owned->buffers,
                               .children = owned->child_pointers,
                               .dictionary = dictionary ? &owned->dictionary : NULL,
                               .release = release_array,
                               .private_data = owned};
    return LAKE_OK;
}

void lance_array_set_buffer(struct ArrowArray *array, size_t index, struct base_buffer *buffer)
{
    struct owned *owned = array->private_data;
    size_t size;
    owned->memory[index] = base_buffer_take(buffer, &size);
    owned->buffers[index] = owned->memory[index] != NULL ? owned->memory[index] : zeros;
}

void lance_array_set_validity(struct ArrowArray *array, struct lance_bits *valid,
                              uint64_t null_count)
{
    array->null_count = (int64_t)null_count;
    if (null_count == 0)
        return;
    lance_array_set_buffer(array, 0, &valid->bytes);
    valid->count = 0;
}

lake_status lance_array_set_list_offsets(struct ArrowArray *out, struct lance_layer_out *layer,
                                         bool large, struct lake_error *err)
{
    lake_status status = base_buffer_reserve(&layer->starts, sizeof(int64_t), err);
    if (status != LAKE_OK)
        return status;
    base_store_u64le(layer->starts.data + layer->starts.size, layer->item_count);
    layer->starts.size += sizeof(int64_t);
    if (!large) {
        if (layer->item_count > INT32_MAX)
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                             "%llu list items in one array with 32-bit offsets: read fewer rows "
                             "at a time",
                             (unsigned long long)layer->item_count);
        uint8_t *data = layer->starts.data; /* narrowed in place, front to back */
        for (uint64_t i = 0; i <= layer->length; i++)
            base_store_u32le(data + 4 * i, (uint32_t)base_load_u64le(data + 8 * i));
    }
    lance_array_set_buffer(out, 1, &layer->starts);
    return LAKE_OK;
}

/* ---- leaves ---- */

static lake_status finish_offsets(struct lance_leaf_values *values, struct lake_error *err)
{
    if (values->offsets.size > 0)
        return LAKE_OK;
    return base_buffer_append_zeros(&values->offsets, values->type->offset_bytes, err);
}

/* The arrays below a fixed-size list: one per layer, the innermost with the items. */
static lake_status build_fsl_items(struct lance_leaf_values *values, uint32_t depth,
                                   uint64_t length, struct ArrowArray *out, struct lake_error *err)
{
    const struct lance_leaf_type *type = values->type;
    bool innermost = depth + 1 == type->fsl_depth;
    uint64_t items = length * type->fsl_sizes[depth];
    lake_status status = lance_array_new(items, innermost ? 2 : 1, !innermost, false, out, err);
    if (status != LAKE_OK)
        return status;
    if (values->item_nulls[depth]) {
        struct lance_bits *valid = &values->item_valid[depth];
        lance_array_set_validity(out, valid,
                                 items - lance_bits_count_set(valid->bytes.data, 0, items));
    }
    if (!innermost)
        return build_fsl_items(values, depth + 1, items, out->children[0], err);
    lance_array_set_buffer(out, 1, type->item_bits == 1 ? &values->booleans.bytes : &values->fixed);
    return LAKE_OK;
}

/* Under a null the key is 0, where nothing need be looked up; but a struct's null leaves its
 * members valid, so that even then there is an item. */
static lake_status build_dictionary(struct lance_leaf_values *dictionary, uint64_t keys,
                                    struct ArrowArray *out, struct lake_error *err)
{
    lake_status status = dictionary->count == 0 && keys > 0
                             ? lance_leaf_values_append_zeros(dictionary, 1, err)
                             : LAKE_OK;
    if (status != LAKE_OK)
        return status;
    struct lance_layer_out all_valid = {.length = dictionary->count};
    return lance_array_of_leaf(dictionary, &all_valid, NULL, out, err);
}

static lake_status build_members(struct lance_leaf_values *values, struct ArrowArray *out,
                                 struct lake_error *err)
{
    for (size_t i = 0; i < values->member_count; i++) {
        struct lance_layer_out all_valid = {.length = values->members[i].count};
        lake_status status =
            lance_array_of_leaf(&values->members[i], &all_valid, NULL, out->children[i], err);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

static lake_status fill_leaf(struct lance_leaf_values *values, uint64_t length,
                             struct lance_leaf_values *dictionary, struct ArrowArray *out,
                             struct lake_error *err)
{
    const struct lance_leaf_type *type = values->type;
    lake_status status;
    switch (type->kind) {
    case LANCE_LEAF_VARIABLE:
        status = finish_offsets(values, err);
        if (status != LAKE_OK)
            return status;
        lance_array_set_buffer(out, 1, &values->offsets);
        lance_array_set_buffer(out, 2, &values->data);
        return LAKE_OK;
    case LANCE_LEAF_FSL:
        return build_fsl_items(values, 0, length, out->children[0], err);
    case LANCE_LEAF_PACKED:
        return build_members(values, out, err);
    case LANCE_LEAF_DICTIONARY:
        lance_array_set_buffer(out, 1, &values->fixed);
        return build_dictionary(dictionary, length, out->dictionary, err);
    case LANCE_LEAF_FIXED:
        lance_array_set_buffer(out, 1,
                               type->item_bits == 1 ? &values->booleans.bytes : &values->fixed);
        return LAKE_OK;
    default:
        out->null_count = (int64_t)length;
        return LAKE_OK;
    }
}

static size_t leaf_buffers(enum lance_leaf_kind kind)
{
    switch (kind) {
    case LANCE_LEAF_NULL:
        return 0;
    case LANCE_LEAF_FSL:
    case LANCE_LEAF_PACKED:
        return 1;
    case LANCE_LEAF_VARIABLE:
        return 3;
    default:
        return 2;
    }
}

lake_status lance_array_of_leaf(struct lance_leaf_values *values, struct lance_layer_out *layer,
                                struct lance_leaf_values *dictionary, struct ArrowArray *out,
                                struct lake_error *err)
{
    enum lance_leaf_kind kind = values->type->kind;
    size_t children = kind == LANCE_LEAF_FSL      ? 1
                      : kind == LANCE_LEAF_PACKED ? (size_t)values->type->arrow->n_children
                                                  : 0;
    lake_status status = lance_array_new(layer->length, leaf_buffers(kind), children,
                                         kind == LANCE_LEAF_DICTIONARY, out, err);
    if (status != LAKE_OK)
        return status;
    if (kind != LANCE_LEAF_NULL)
        lance_array_set_validity(out, &layer->valid, layer->null_count);
    status = fill_leaf(values, layer->length, dictionary, out, err);
    if (status != LAKE_OK)
        out->release(out);
    else
        values->count = 0;
    return status;
}

/* ---- nulls ---- */

static lake_status zero_buffer(struct ArrowArray *array, size_t index, uint64_t size,
                               struct lake_error *err)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, SIZE_MAX);
    lake_status status = base_buffer_append_zeros(&buffer, (size_t)size, err);
    if (status == LAKE_OK)
        lance_array_set_buffer(array, index, &buffer);
    base_buffer_fini(&buffer);
    return status;
}

static lake_status null_children(const struct ArrowSchema *schema, uint64_t length,
                                 struct ArrowArray *out, struct lake_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        lake_status status =
            lance_array_of_nulls(schema->children[i], length, out->children[i], err);
        if (status != LAKE_OK)
            return status;
    }
    /* One value, so that the index 0 under a null is a valid one. */
    if (schema->dictionary != NULL)
        return lance_array_of_nulls(schema->dictionary, 1, out->dictionary, err);
    return LAKE_OK;
}

/* Bytes of the second buffer (values or offsets); no_buffer when the type has only validity. */
#define NO_BUFFER UINT64_MAX
static lake_status second_buffer(const struct ArrowSchema *schema, uint64_t length,
                                 uint64_t *child_length, uint64_t *bytes, struct lake_error *err)
{
    const char *format = schema->format;
    struct lance_leaf_type type;
    *child_length = 0;
    *bytes = NO_BUFFER;
    if (strcmp(format, "+s") == 0) {
        *child_length = length;
        return LAKE_OK;
    }
    if (strcmp(format, "+l") == 0 || strcmp(format, "+m") == 0 || strcmp(format, "+L") == 0) {
        *bytes = (length + 1) * (format[1] == 'L' ? 8 : 4);
        return LAKE_OK;
    }
    lake_status status;
    if (strncmp(format, "+w:", 3) == 0) {
        struct ArrowSchemaView view;
        if (ArrowSchemaViewInit(&view, schema, NULL) != NANOARROW_OK)
            return lake_fail(err, LAKE_INTERNAL, "not an Arrow type: %s", format);
        return base_u64_mul(length, (uint64_t)view.fixed_size, child_length)
                   ? LAKE_OK
                   : lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many null lists");
    }
    status = lance_leaf_type_of(schema, &type, err);
    if (status != LAKE_OK)
        return status;
    if (type.kind == LANCE_LEAF_VARIABLE)
        *bytes = (length + 1) * type.offset_bytes;
    else if (!base_u64_mul(length, type.item_bits, bytes))
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many nulls for one array");
    else
        *bytes = *bytes / 8 + 1;
    return LAKE_OK;
}

lake_status lance_array_of_nulls(const struct ArrowSchema *schema, uint64_t length,
                                 struct ArrowArray *out, struct lake_error *err)
{
    uint64_t child_length, bytes;
    struct ArrowSchemaView view;
    if (ArrowSchemaViewInit(&view, schema, NULL) != NANOARROW_OK)
        return lake_fail(err, LAKE_INTERNAL, "not an Arrow type: %s", schema->format);
    if (view.storage_type == NANOARROW_TYPE_NA) {
        lake_status status = lance_array_new(length, 0, 0, false, out, err);
        if (status == LAKE_OK)
            out->null_count = (int64_t)length;
        return status;
    }
    bool variable = view.storage_type == NANOARROW_TYPE_STRING ||
                    view.storage_type == NANOARROW_TYPE_BINARY ||
                    view.storage_type == NANOARROW_TYPE_LARGE_STRING ||
                    view.storage_type == NANOARROW_TYPE_LARGE_BINARY;
    lake_status status = second_buffer(schema, length, &child_length, &bytes, err);
    if (status != LAKE_OK)
        return status;
    size_t buffers = bytes == NO_BUFFER ? 1 : variable && schema->dictionary == NULL ? 3 : 2;
    status = lance_array_new(length, buffers, (size_t)schema->n_children,
                             schema->dictionary != NULL, out, err);
    if (status != LAKE_OK)
        return status;
    out->null_count = (int64_t)length;
    status = zero_buffer(out, 0, length / 8 + 1, err);
    if (status == LAKE_OK && bytes != NO_BUFFER)
        status = zero_buffer(out, 1, bytes, err);
    if (status == LAKE_OK && buffers == 3)
        status = zero_buffer(out, 2, 0, err);
    if (status == LAKE_OK)
        status = null_children(schema, child_length, out, err);
    if (status != LAKE_OK)
        out->release(out);
    return status;
}
