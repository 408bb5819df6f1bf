/* Reads one top-level field: its leaves side by side, then the nested array from their layers. */
#include "array_build.h"
#include "file_read.h"

#include <string.h>

struct lance_field_reader {
    struct lance_file *file;
    const struct lance_field *field;   /* borrowed from the dataset's schema */
    struct lance_leaf_reader *readers; /* one for each leaf that the file has */
    struct lance_leaf_reader **leaves; /* into readers, NULL for a leaf it lacks */
    size_t leaf_count;
    size_t reader_count;
    uint64_t bytes_per_row;
};

/* Which layers of a leaf are lists, gathered from the top down. */
struct path {
    bool is_list[LANCE_MAX_LAYERS];
    size_t depth;
};

static lake_status open_leaf(struct lance_field_reader *reader, const struct lance_field *field,
                             const struct path *path, int32_t column,
                             struct lance_read_counters *counters, struct lake_error *err)
{
    bool leaf_first[LANCE_MAX_LAYERS];
    size_t leaf = reader->leaf_count++;
    if (column < 0)
        return LAKE_OK;
    if ((uint32_t)column >= reader->file->column_count)
        return lake_fail(err, LAKE_DATA_LOSS, "data file %.*s has no column %d, only %u",
                         LAKE_STR_FMT(reader->file->key), column, reader->file->column_count);
    for (size_t i = 0; i < path->depth; i++)
        leaf_first[i] = path->is_list[path->depth - 1 - i];
    struct lance_leaf_reader *made = &reader->readers[reader->reader_count];
    lake_status status = lance_leaf_reader_init(made, reader->file, (uint32_t)column, field->arrow,
                                                leaf_first, path->depth, counters, err);
    if (status != LAKE_OK)
        return lake_fail_wrap(err, status, "column \"%s\" cannot be read", field->name);
    reader->reader_count++;
    reader->leaves[leaf] = made;
    if (made->column->row_count > 0)
        reader->bytes_per_row += made->column->encoded_bytes / made->column->row_count + 1;
    return LAKE_OK;
}

static lake_status open_leaves(struct lance_field_reader *reader, const struct lance_field *field,
                               struct path *path, const int32_t *columns,
                               struct lance_read_counters *counters, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (path->depth == LANCE_MAX_LAYERS)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "field \"%s\" is nested deeper than %d",
                         field->name, LANCE_MAX_NESTING);
    if (field->kind == LANCE_NODE_FSL_STRUCT)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "field \"%s\": fixed-size lists of structs cannot be read", field->name);
    path->is_list[path->depth++] = field->kind == LANCE_NODE_LIST || field->kind == LANCE_NODE_MAP;
    if (field->kind == LANCE_NODE_LEAF)
        status = open_leaf(reader, field, path, columns[reader->leaf_count], counters, err);
    for (size_t i = 0; status == LAKE_OK && i < field->child_count; i++)
        if (field->kind != LANCE_NODE_LEAF)
            status = open_leaves(reader, &field->children[i], path, columns, counters, err);
    path->depth--;
    return status;
}

lake_status lance_field_reader_new(struct lance_file *file, const struct lance_field *field,
                                   const int32_t *columns, struct lance_read_counters *counters,
                                   struct lance_field_reader **out, struct lake_error *err)
{
    struct path path = {.depth = 0};
    size_t leaf_count = lance_field_leaf_count(field);
    struct lance_field_reader *reader = base_calloc_array(1, sizeof(*reader));
    lake_status status;
    if (reader == NULL)
        return base_fail_no_memory(err, sizeof(*reader));
    reader->file = lance_file_ref(file);
    reader->field = field;
    reader->readers = base_calloc_array(leaf_count + 1, sizeof(*reader->readers));
    reader->leaves = base_calloc_array(leaf_count + 1, sizeof(*reader->leaves));
    if (reader->readers == NULL || reader->leaves == NULL)
        status = base_fail_no_memory(err, leaf_count * sizeof(*reader->readers));
    else
        status = open_leaves(reader, field, &path, columns, counters, err);
    if (status == LAKE_OK)
        *out = reader;
    else
        lance_field_reader_free(reader);
    return status;
}

void lance_field_reader_free(struct lance_field_reader *reader)
{
    if (reader == NULL)
        return;
    for (size_t i = 0; i < reader->reader_count; i++)
        lance_leaf_reader_fini(&reader->readers[i]);
    base_free(reader->readers);
    base_free(reader->leaves);
    lance_file_unref(reader->file);
    base_free(reader);
}

uint64_t lance_field_reader_bytes_per_row(const struct lance_field_reader *reader)
{
    return BASE_MAX(reader->bytes_per_row, (uint64_t)1);
}

lake_status lance_field_reader_read(struct lance_field_reader *reader, uint64_t start,
                                    uint64_t count, struct ArrowArray *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < reader->reader_count; i++)
        status = lance_leaf_reader_read(&reader->readers[i], start, count, err);
    if (status == LAKE_OK)
        status = lance_assemble(reader->field, reader->leaves, count, out, err);
    return status;
}

/* ---- assembly ---- */

static lake_status build(const struct lance_field *field, struct lance_leaf_reader **leaves,
                         size_t depth, uint64_t length, struct ArrowArray *out,
                         struct lake_error *err);

/* Any leaf below the field tells its layers; the first that the file has. */
static struct lance_layer_out *layer_of(const struct lance_field *field,
                                        struct lance_leaf_reader **leaves, size_t depth)
{
    size_t count = lance_field_leaf_count(field);
    for (size_t i = 0; i < count; i++)
        if (leaves[i] != NULL)
            return &leaves[i]->layers.layers[leaves[i]->layers.count - 1 - depth];
    return NULL;
}

static lake_status list_offsets(struct lance_layer_out *layer, bool large, struct ArrowArray *out,
                                struct lake_error *err)
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

static lake_status build_children(const struct lance_field *field,
                                  struct lance_leaf_reader **leaves, size_t depth, uint64_t length,
                                  struct ArrowArray *out, struct lake_error *err)
{
    size_t leaf = 0;
    for (size_t i = 0; i < field->child_count; i++) {
        const struct lance_field *child = &field->children[i];
        lake_status status = build(child, leaves + leaf, depth + 1, length, out->children[i], err);
        if (status != LAKE_OK)
            return status;
        leaf += lance_field_leaf_count(child);
    }
    return LAKE_OK;
}

static lake_status build_nested(const struct lance_field *field, struct lance_leaf_reader **leaves,
                                size_t depth, struct lance_layer_out *layer, struct ArrowArray *out,
                                struct lake_error *err)
{
    bool list = field->kind == LANCE_NODE_LIST || field->kind == LANCE_NODE_MAP;
    uint64_t child_length = list ? layer->item_count : layer->length;
    lake_status status =
        lance_array_new(layer->length, list ? 2 : 1, field->child_count, false, out, err);
    if (status != LAKE_OK)
        return status;
    lance_array_set_validity(out, &layer->valid, layer->null_count);
    if (list)
        status = list_offsets(layer, strcmp(field->arrow->format, "+L") == 0, out, err);
    if (status == LAKE_OK)
        status = build_children(field, leaves, depth, child_length, out, err);
    if (status != LAKE_OK)
        out->release(out);
    return status;
}

static lake_status build(const struct lance_field *field, struct lance_leaf_reader **leaves,
                         size_t depth, uint64_t length, struct ArrowArray *out,
                         struct lake_error *err)
{
    struct lance_layer_out *layer = layer_of(field, leaves, depth);
    if (layer == NULL)
        return lance_array_of_nulls(field->arrow, length, out, err);
    if (layer->length != length)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "field \"%s\" has %llu values where its neighbours have %llu", field->name,
                         (unsigned long long)layer->length, (unsigned long long)length);
    if (field->kind == LANCE_NODE_LEAF)
        return lance_array_of_leaf(&leaves[0]->values, layer, &leaves[0]->dictionary, out, err);
    return build_nested(field, leaves, depth, layer, out, err);
}

lake_status lance_assemble(const struct lance_field *field, struct lance_leaf_reader **leaves,
                           uint64_t row_count, struct ArrowArray *out, struct lake_error *err)
{
    return build(field, leaves, 0, row_count, out, err);
}
