/*
 * Reads one top-level field: its leaves side by side, then the nested array from their layers.
 *
 * A fixed-size list of structs is no list to its leaves: they hold `dimension` rows for each row of
 * the list, and so do the layers of the list and of all above it. Such leaves are read over that
 * many rows, and what is above is thinned out.
 */
#include "array_build.h"
#include "file_read.h"
#include "stored_read.h"
#include "v20_read.h"

#include <string.h>

/* Encoded bytes and decoded rows that cost as much as one more run. */
#define GAP_BYTES ((uint64_t)8 << 10)
#define GAP_ROWS  ((uint64_t)512)

/* A leaf of the field: where it is read, or nowhere. A struct without fields is a leaf, too: its
 * column has no values, and the reference writes none that is null. */
struct leaf_slot {
    struct lance_leaf_reader *reader; /* NULL: there are no values to read */
    bool stored;                      /* else it reads as null */
    uint64_t rows_per_row;            /* fixed-size lists of structs above it */
};

struct lance_field_reader {
    const struct lance_field *field; /* borrowed from the dataset's schema */
    const struct ArrowSchema *type; /* of the arrays: descriptions of blobs differ from the field */
    struct ArrowSchema owned_type;  /* what it is then */
    bool blob_descriptions;
    struct lance_read_counters *counters;
    struct lance_leaf_reader *readers; /* one for each leaf that is stored */
    size_t reader_count;
    struct leaf_slot *leaves;
    size_t leaf_count;
    struct lance_v20_reader *v20; /* instead of leaves: storage 2.0 */
    uint64_t bytes_per_row;
};

/* ---- opening ---- */

/* The layers down to a leaf. */
struct path {
    bool is_list[LANCE_MAX_LAYERS];
    size_t depth;
    bool below_list;
    uint64_t rows_per_row;
    size_t node; /* the next source */
};

static lake_status open_leaf(struct lance_field_reader *reader, const struct lance_field *field,
                             const struct path *path, struct lance_column_source source,
                             struct lake_error *err)
{
    bool leaf_first[LANCE_MAX_LAYERS];
    struct leaf_slot *slot = &reader->leaves[reader->leaf_count++];
    *slot = (struct leaf_slot){.rows_per_row = path->rows_per_row, .stored = source.file != NULL};
    if (source.file == NULL || field->kind != LANCE_NODE_LEAF)
        return LAKE_OK;
    if (source.column < 0 || (uint32_t)source.column >= source.file->column_count)
        return lake_fail(err, LAKE_DATA_LOSS, "data file %.*s has no column %d, only %u",
                         LAKE_STR_FMT(source.file->key), source.column, source.file->column_count);
    if (field->stored == LANCE_STORED_BLOB_V1 && path->below_list)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "blobs within lists cannot be read (\"%s\")",
                         field->name);
    for (size_t i = 0; i < path->depth; i++)
        leaf_first[i] = path->is_list[path->depth - 1 - i];
    struct lance_leaf_reader *made = &reader->readers[reader->reader_count];
    lake_status status =
        lance_leaf_reader_init(made, source.file, (uint32_t)source.column, field->stored_arrow,
                               leaf_first, path->depth, reader->counters, err);
    if (status != LAKE_OK)
        return lake_fail_wrap(err, status, "column \"%s\" cannot be read", field->name);
    reader->reader_count++;
    slot->reader = made;
    if (made->column->row_count > 0)
        reader->bytes_per_row += made->column->encoded_bytes / made->column->row_count + 1;
    return LAKE_OK;
}

/* A fixed-size list of structs multiplies the rows of what is below it. */
static lake_status enter_fsl(const struct lance_field *field, struct path *path,
                             struct lake_error *err)
{
    struct ArrowSchemaView view;
    if (path->below_list)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "field \"%s\": fixed-size lists of structs within lists cannot be read",
                         field->name);
    if (ArrowSchemaViewInit(&view, field->arrow, NULL) != NANOARROW_OK || view.fixed_size < 1 ||
        !base_u64_mul(path->rows_per_row, (uint64_t)view.fixed_size, &path->rows_per_row) ||
        path->rows_per_row > LANCE_MAX_VALUE_BYTES)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "field \"%s\": a row has more than %u items",
                         field->name, LANCE_MAX_VALUE_BYTES);
    return LAKE_OK;
}

static lake_status open_leaves(struct lance_field_reader *reader, const struct lance_field *field,
                               const struct lance_column_source *sources, struct path *path,
                               struct lake_error *err)
{
    struct lance_column_source source = sources[path->node++];
    struct path outer = *path;
    bool list = field->kind == LANCE_NODE_LIST || field->kind == LANCE_NODE_MAP;
    lake_status status = LAKE_OK;
    if (path->depth == LANCE_MAX_LAYERS)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "field \"%s\" is nested deeper than %d",
                         field->name, LANCE_MAX_NESTING);
    path->is_list[path->depth++] = list;
    if (list && path->rows_per_row > 1)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "field \"%s\": lists within fixed-size lists of structs cannot be read",
                         field->name);
    path->below_list = path->below_list || list;
    if (field->kind == LANCE_NODE_FSL_STRUCT)
        status = enter_fsl(field, path, err);
    if (status == LAKE_OK && (field->kind == LANCE_NODE_LEAF || field->child_count == 0))
        status = open_leaf(reader, field, path, source, err);
    for (size_t i = 0; status == LAKE_OK && i < field->child_count; i++)
        if (field->kind != LANCE_NODE_LEAF)
            status = open_leaves(reader, &field->children[i], sources, path, err);
    path->depth--;
    path->below_list = outer.below_list;
    path->rows_per_row = outer.rows_per_row;
    return status;
}

/* All files of one container, or none at all. */
static lake_status find_container(const struct lance_field *field,
                                  const struct lance_column_source *sources, bool *is_v20,
                                  struct lake_error *err)
{
    size_t count = lance_field_node_count(field), v20 = 0, newer = 0;
    for (size_t i = 0; i < count; i++) {
        v20 += sources[i].file != NULL && sources[i].file->minor == 0;
        newer += sources[i].file != NULL && sources[i].file->minor != 0;
    }
    *is_v20 = v20 > 0;
    if (v20 > 0 && newer > 0)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the parts of column \"%s\" lie in files of storage 2.0 and of a later "
                         "version: compact the table",
                         field->name);
    return LAKE_OK;
}

static lake_status choose_type(struct lance_field_reader *reader, struct lake_error *err)
{
    reader->type = reader->field->arrow;
    if (!reader->blob_descriptions)
        return LAKE_OK;
    lake_status status = lance_field_description_type(reader->field, &reader->owned_type, err);
    reader->type = &reader->owned_type;
    return status;
}

static lake_status open_reader(struct lance_field_reader *reader,
                               const struct lance_column_source *sources, struct lake_error *err)
{
    struct path path = {.rows_per_row = 1};
    size_t leaf_count = lance_field_leaf_count(reader->field);
    bool v20;
    lake_status status = choose_type(reader, err);
    if (status == LAKE_OK)
        status = find_container(reader->field, sources, &v20, err);
    if (status != LAKE_OK)
        return status;
    if (v20) {
        status = lance_v20_reader_new(reader->field, sources, reader->blob_descriptions,
                                      reader->counters, &reader->v20, err);
        if (status == LAKE_OK)
            reader->bytes_per_row = lance_v20_reader_bytes_per_row(reader->v20);
        return status;
    }
    reader->readers = base_calloc_array(leaf_count + 1, sizeof(*reader->readers));
    reader->leaves = base_calloc_array(leaf_count + 1, sizeof(*reader->leaves));
    if (reader->readers == NULL || reader->leaves == NULL)
        return base_fail_no_memory(err, leaf_count * sizeof(*reader->readers));
    return open_leaves(reader, reader->field, sources, &path, err);
}

lake_status lance_field_reader_new(const struct lance_field *field,
                                   const struct lance_column_source *sources,
                                   bool blob_descriptions, struct lance_read_counters *counters,
                                   struct lance_field_reader **out, struct lake_error *err)
{
    struct lance_field_reader *reader = base_calloc_array(1, sizeof(*reader));
    if (reader == NULL)
        return base_fail_no_memory(err, sizeof(*reader));
    reader->field = field;
    reader->blob_descriptions = blob_descriptions;
    reader->counters = counters;
    lake_status status = open_reader(reader, sources, err);
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
    lance_v20_reader_free(reader->v20);
    if (reader->owned_type.release != NULL)
        reader->owned_type.release(&reader->owned_type);
    base_free(reader->readers);
    base_free(reader->leaves);
    base_free(reader);
}

uint64_t lance_field_reader_bytes_per_row(const struct lance_field_reader *reader)
{
    return BASE_MAX(reader->bytes_per_row, (uint64_t)1);
}

/* Whether anything below the field is fetched or translated row by row. */
static bool is_loaded(const struct lance_field *field, bool blob_descriptions)
{
    if (field->stored == LANCE_STORED_JSON)
        return true;
    if (field->stored != LANCE_STORED_PLAIN && !blob_descriptions)
        return true;
    for (size_t i = 0; i < field->child_count; i++) {
        if (is_loaded(&field->children[i], blob_descriptions))
            return true;
    }
    return false;
}

uint64_t lance_field_reader_gap_rows(const struct lance_field_reader *reader)
{
    uint64_t rows = GAP_BYTES / lance_field_reader_bytes_per_row(reader);
    return is_loaded(reader->field, reader->blob_descriptions) ? 0 : BASE_MIN(rows, GAP_ROWS);
}

lake_status lance_field_reader_want(struct lance_field_reader *reader,
                                    struct lance_read_ahead *ahead, uint64_t start, uint64_t count,
                                    struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < reader->leaf_count; i++) {
        const struct leaf_slot *leaf = &reader->leaves[i];
        uint64_t first, rows;
        if (leaf->reader == NULL || !base_u64_mul(start, leaf->rows_per_row, &first) ||
            !base_u64_mul(count, leaf->rows_per_row, &rows))
            continue; /* reading it says what is wrong */
        status = lance_leaf_reader_want(leaf->reader, ahead, first, rows, leaf->rows_per_row, err);
    }
    return status;
}

/* ---- assembly ---- */

/* A node of the field while its array is built. */
struct node {
    const struct lance_field *field;
    const struct ArrowSchema *type;
    struct leaf_slot *leaves;
    size_t depth;
    uint64_t rows_per_row; /* as in leaf_slot, down to here */
};

static lake_status build(const struct lance_field_reader *reader, struct node node, uint64_t length,
                         struct ArrowArray *out, struct lake_error *err);

/* Keeps every `step`-th slot of a layer that is no list. */
static void thin_out(struct lance_layer_out *layer, uint64_t step)
{
    uint64_t nulls = 0, length = layer->length / step;
    for (uint64_t i = 0; layer->null_count > 0 && i < length; i++) {
        uint8_t *to = &layer->valid.bytes.data[i / 8];
        uint64_t from = i * step;
        bool valid = (layer->valid.bytes.data[from / 8] >> (from % 8) & 1) != 0;
        *to = (uint8_t)((*to & ~(1U << (i % 8))) | (unsigned)valid << (i % 8));
        nulls += !valid;
    }
    layer->null_count = nulls;
    layer->length = length;
}

/* Any leaf below the field tells its layers; the first that is stored. */
static struct lance_layer_out *layer_of(struct node node)
{
    size_t count = lance_field_leaf_count(node.field);
    for (size_t i = 0; i < count; i++) {
        if (node.leaves[i].reader == NULL)
            continue;
        struct lance_layers *layers = &node.leaves[i].reader->layers;
        struct lance_layer_out *layer = &layers->layers[layers->count - 1 - node.depth];
        uint64_t step = node.leaves[i].rows_per_row / node.rows_per_row;
        if (step > 1)
            thin_out(layer, step);
        return layer;
    }
    return NULL;
}

static lake_status build_children(const struct lance_field_reader *reader, struct node parent,
                                  uint64_t length, struct ArrowArray *out, struct lake_error *err)
{
    const struct lance_field *field = parent.field;
    size_t leaf = 0;
    for (size_t i = 0; i < field->child_count; i++) {
        struct node child = {.field = &field->children[i],
                             .type = parent.type->children[i],
                             .leaves = parent.leaves + leaf,
                             .depth = parent.depth + 1,
                             .rows_per_row = parent.rows_per_row};
        lake_status status = build(reader, child, length, out->children[i], err);
        if (status != LAKE_OK)
            return status;
        leaf += lance_field_leaf_count(child.field);
    }
    return LAKE_OK;
}

/* Whether something below the field is stored although no leaf has values: structs without fields.
 * Then the structs around them are there, too. */
static bool is_stored(struct node node)
{
    size_t count = lance_field_leaf_count(node.field);
    for (size_t i = 0; i < count; i++) {
        if (node.leaves[i].stored)
            return true;
    }
    return false;
}

static lake_status build_without_values(const struct lance_field_reader *reader, struct node node,
                                        uint64_t length, struct ArrowArray *out,
                                        struct lake_error *err)
{
    if (node.field->kind != LANCE_NODE_STRUCT || !is_stored(node))
        return lance_array_of_nulls(node.type, length, out, err);
    lake_status status = lance_array_new(length, 1, node.field->child_count, false, out, err);
    if (status != LAKE_OK)
        return status;
    status = build_children(reader, node, length, out, err);
    if (status != LAKE_OK)
        out->release(out);
    return status;
}

static lake_status build_nested(const struct lance_field_reader *reader, struct node node,
                                struct lance_layer_out *layer, struct ArrowArray *out,
                                struct lake_error *err)
{
    const struct lance_field *field = node.field;
    bool list = field->kind == LANCE_NODE_LIST || field->kind == LANCE_NODE_MAP;
    uint64_t child_length = list ? layer->item_count : layer->length;
    if (field->kind == LANCE_NODE_FSL_STRUCT) {
        struct ArrowSchemaView view;
        if (ArrowSchemaViewInit(&view, field->arrow, NULL) != NANOARROW_OK)
            return lake_fail(err, LAKE_INTERNAL, "not a type: %s", field->arrow->format);
        node.rows_per_row *= (uint64_t)view.fixed_size;
        child_length *= (uint64_t)view.fixed_size;
    }
    lake_status status =
        lance_array_new(layer->length, list ? 2 : 1, field->child_count, false, out, err);
    if (status != LAKE_OK)
        return status;
    lance_array_set_validity(out, &layer->valid, layer->null_count);
    if (list)
        status =
            lance_array_set_list_offsets(out, layer, strcmp(field->arrow->format, "+L") == 0, err);
    if (status == LAKE_OK)
        status = build_children(reader, node, child_length, out, err);
    if (status != LAKE_OK)
        out->release(out);
    return status;
}

static lake_status build(const struct lance_field_reader *reader, struct node node, uint64_t length,
                         struct ArrowArray *out, struct lake_error *err)
{
    struct lance_layer_out *layer = layer_of(node);
    if (layer == NULL)
        return build_without_values(reader, node, length, out, err);
    if (layer->length != length)
        return lake_fail(
            err, LAKE_DATA_LOSS, "field \"%s\" has %llu values where its neighbours have %llu",
            node.field->name, (unsigned long long)layer->length, (unsigned long long)length);
    if (node.field->kind != LANCE_NODE_LEAF)
        return build_nested(reader, node, layer, out, err);
    struct lance_leaf_reader *leaf = node.leaves[0].reader;
    lake_status status = lance_array_of_leaf(&leaf->values, layer, &leaf->dictionary, out, err);
    return status != LAKE_OK
               ? status
               : lance_stored_load(leaf->file, node.field->stored, reader->blob_descriptions,
                                   reader->counters, out, err);
}

/* Storage 2.0 has no reader that goes on: each run is an array, and these become one. */
static lake_status read_v20_runs(struct lance_field_reader *reader, const struct lance_run *runs,
                                 size_t run_count, struct ArrowArray *out, struct lake_error *err)
{
    struct ArrowArray *arrays = base_calloc_array(run_count + 1, sizeof(*arrays));
    const struct ArrowArray **pointers = base_calloc_array(run_count + 1, sizeof(*pointers));
    struct lance_run *whole = base_alloc_array(run_count + 1, sizeof(*whole));
    uint32_t *sources = base_alloc_array(run_count + 1, sizeof(*sources));
    lake_status status = LAKE_OK;
    if (arrays == NULL || pointers == NULL || whole == NULL || sources == NULL)
        status = base_fail_no_memory(err, run_count * sizeof(*arrays));
    for (size_t i = 0; i < run_count && status == LAKE_OK; i++) {
        pointers[i] = &arrays[i];
        whole[i] = (struct lance_run){0, runs[i].count};
        sources[i] = (uint32_t)i;
        status = lance_v20_reader_read(reader->v20, runs[i].start, runs[i].count, &arrays[i], err);
    }
    if (status == LAKE_OK)
        status = lance_array_gather(reader->type, pointers, run_count, whole, sources, run_count,
                                    out, err);
    for (size_t i = 0; arrays != NULL && i < run_count; i++) {
        if (arrays[i].release != NULL)
            arrays[i].release(&arrays[i]);
    }
    base_free(arrays);
    base_free((void *)pointers);
    base_free(whole);
    base_free(sources);
    return status;
}

static lake_status read_leaf_runs(const struct leaf_slot *leaf, const struct lance_run *runs,
                                  size_t run_count, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    lance_leaf_reader_start(leaf->reader);
    leaf->reader->scattered = run_count > 1 && leaf->rows_per_row == 1;
    for (size_t i = 0; i < run_count && status == LAKE_OK; i++) {
        uint64_t first, rows;
        if (!base_u64_mul(runs[i].start, leaf->rows_per_row, &first) ||
            !base_u64_mul(runs[i].count, leaf->rows_per_row, &rows))
            return lake_fail(err, LAKE_OUT_OF_RANGE, "more items than can be counted");
        leaf->reader->next_runs = runs + i + 1;
        leaf->reader->next_run_count = leaf->reader->scattered ? run_count - i - 1 : 0;
        status = lance_leaf_reader_add(leaf->reader, first, rows, err);
    }
    leaf->reader->next_run_count = 0;
    return status;
}

lake_status lance_field_reader_read_runs(struct lance_field_reader *reader,
                                         const struct lance_run *runs, size_t run_count,
                                         struct ArrowArray *out, struct lake_error *err)
{
    struct node root = {
        .field = reader->field, .type = reader->type, .leaves = reader->leaves, .rows_per_row = 1};
    uint64_t total = 0;
    lake_status status = LAKE_OK;
    if (reader->v20 != NULL && run_count == 1)
        return lance_v20_reader_read(reader->v20, runs[0].start, runs[0].count, out, err);
    if (reader->v20 != NULL)
        return read_v20_runs(reader, runs, run_count, out, err);
    for (size_t i = 0; i < run_count; i++)
        total += runs[i].count;
    for (size_t i = 0; status == LAKE_OK && i < reader->leaf_count; i++) {
        if (reader->leaves[i].reader != NULL)
            status = read_leaf_runs(&reader->leaves[i], runs, run_count, err);
    }
    return status == LAKE_OK ? build(reader, root, total, out, err) : status;
}

lake_status lance_field_reader_read(struct lance_field_reader *reader, uint64_t start,
                                    uint64_t count, struct ArrowArray *out, struct lake_error *err)
{
    struct lance_run run = {start, count};
    return lance_field_reader_read_runs(reader, &run, 1, out, err);
}
