/*
 * A struct has no column worth reading: its validity cannot be stored. A list's column holds where
 * each list ends, counted from where its page's items start; the items of a page follow those of
 * the page before it in the child's column, which has pages of its own.
 */
#include "v20_read.h"

#include "array_build.h"
#include "stored_read.h"
#include "v20_page.h"

#include <string.h>

/* Items of one read: above it lists are read in smaller batches. */
#define MAX_LIST_ITEMS ((uint64_t)1 << 26)

/* One node of the field's tree. */
struct v20_node {
    const struct lance_field *field;
    const struct ArrowSchema *type; /* of its arrays */
    struct lance_column_source source;
    bool is_open;                    /* what follows is there, by the field's kind */
    struct lance_v20_leaf leaf;      /* leaves */
    struct lance_v20_column offsets; /* lists and maps */
    uint64_t *first_item;            /* lists: by page, and the end of all */
};

struct lance_v20_reader {
    struct v20_node *nodes; /* pre-order */
    size_t node_count;
    bool blob_descriptions;
    struct ArrowSchema type;
    struct lance_read_counters *counters;
    uint64_t bytes_per_row;
};

static bool is_list(const struct lance_field *field)
{
    return field->kind == LANCE_NODE_LIST || field->kind == LANCE_NODE_MAP;
}

/* ---- opening ---- */

/* How many items each page of lists covers is said in the page's encoding. */
static lake_status index_items(struct v20_node *node, struct lake_error *err)
{
    const struct lance_file_column *column = node->offsets.column;
    uint64_t total = 0;
    node->first_item = base_calloc_array(column->page_count + 1, sizeof(uint64_t));
    if (node->first_item == NULL)
        return base_fail_no_memory(err, column->page_count * sizeof(uint64_t));
    for (size_t i = 0; i < column->page_count; i++) {
        bool changed;
        lake_status status = lance_v20_column_open_page(&node->offsets, i, &changed, err);
        if (status != LAKE_OK)
            return status;
        if (node->offsets.encoding->kind != LANCE_V20_LIST ||
            !base_u64_add(total, node->offsets.encoding->count, &total))
            return lake_fail(err, LAKE_DATA_LOSS, "page %zu of column %u is not of lists", i,
                             node->offsets.column_index);
        node->first_item[i + 1] = total;
    }
    return LAKE_OK;
}

static lake_status open_node(struct lance_v20_reader *reader, struct v20_node *node,
                             struct lake_error *err)
{
    struct lance_column_source source = node->source;
    const struct lance_field *field = node->field;
    lake_status status = LAKE_OK;
    if (source.file == NULL || (field->kind != LANCE_NODE_LEAF && !is_list(field)))
        return LAKE_OK;
    if (source.column < 0 || (uint32_t)source.column >= source.file->column_count)
        return lake_fail(err, LAKE_DATA_LOSS, "data file %.*s has no column %d, only %u",
                         LAKE_STR_FMT(source.file->key), source.column, source.file->column_count);
    const struct lance_file_column *column = &source.file->columns[source.column];
    if (column->row_count > 0)
        reader->bytes_per_row += column->encoded_bytes / column->row_count + 1;
    if (field->kind == LANCE_NODE_LEAF) {
        status =
            lance_v20_leaf_init(&node->leaf, source, field->stored_arrow, reader->counters, err);
        node->is_open = status == LAKE_OK;
    } else {
        lance_v20_column_init(&node->offsets, source, reader->counters);
        node->is_open = true;
        status = index_items(node, err);
    }
    return status == LAKE_OK
               ? LAKE_OK
               : lake_fail_wrap(err, status, "column \"%s\" cannot be read", field->name);
}

static lake_status open_nodes(struct lance_v20_reader *reader, const struct lance_field *field,
                              const struct ArrowSchema *type,
                              const struct lance_column_source *sources, struct lake_error *err)
{
    struct v20_node *node = &reader->nodes[reader->node_count];
    node->field = field;
    node->type = type;
    node->source = sources[reader->node_count++];
    if (field->kind == LANCE_NODE_FSL_STRUCT)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "column \"%s\" is a fixed-size list of structs in storage 2.0, which "
                         "cannot be read",
                         field->name);
    lake_status status = open_node(reader, node, err);
    for (size_t i = 0;
         status == LAKE_OK && field->kind != LANCE_NODE_LEAF && i < field->child_count; i++)
        status = open_nodes(reader, &field->children[i], type->children[i], sources, err);
    return status;
}

lake_status lance_v20_reader_new(const struct lance_field *field,
                                 const struct lance_column_source *sources, bool blob_descriptions,
                                 struct lance_read_counters *counters,
                                 struct lance_v20_reader **out, struct lake_error *err)
{
    struct lance_v20_reader *reader = base_calloc_array(1, sizeof(*reader));
    size_t count = lance_field_node_count(field);
    lake_status status = LAKE_OK;
    if (reader == NULL)
        return base_fail_no_memory(err, sizeof(*reader));
    reader->blob_descriptions = blob_descriptions;
    reader->counters = counters;
    reader->nodes = base_calloc_array(count + 1, sizeof(*reader->nodes));
    if (reader->nodes == NULL)
        status = base_fail_no_memory(err, count * sizeof(*reader->nodes));
    else if (blob_descriptions)
        status = lance_field_description_type(field, &reader->type, err);
    if (status == LAKE_OK)
        status = open_nodes(reader, field, blob_descriptions ? &reader->type : field->arrow,
                            sources, err);
    if (status == LAKE_OK)
        *out = reader;
    else
        lance_v20_reader_free(reader);
    return status;
}

void lance_v20_reader_free(struct lance_v20_reader *reader)
{
    if (reader == NULL)
        return;
    for (size_t i = 0; i < reader->node_count; i++) {
        struct v20_node *node = &reader->nodes[i];
        if (node->is_open && node->field->kind == LANCE_NODE_LEAF)
            lance_v20_leaf_fini(&node->leaf);
        else if (node->is_open)
            lance_v20_column_fini(&node->offsets);
        base_free(node->first_item);
    }
    if (reader->type.release != NULL)
        reader->type.release(&reader->type);
    base_free(reader->nodes);
    base_free(reader);
}

uint64_t lance_v20_reader_bytes_per_row(const struct lance_v20_reader *reader)
{
    return reader->bytes_per_row;
}

/* ---- reading ---- */

static lake_status read_node(struct lance_v20_reader *reader, size_t *index, uint64_t start,
                             uint64_t count, struct ArrowArray *out, struct lake_error *err);

static lake_status read_leaf(const struct lance_v20_reader *reader, struct v20_node *node,
                             uint64_t start, uint64_t count, struct ArrowArray *out,
                             struct lake_error *err)
{
    struct lance_v20_leaf *leaf = &node->leaf;
    struct lance_layer_out layer = {.length = count};
    lake_status status = lance_v20_leaf_read(leaf, start, count, err);
    if (status != LAKE_OK)
        return status;
    layer.null_count = count - lance_bits_count_set(leaf->valid.bytes.data, 0, count);
    layer.valid = leaf->valid;
    status = lance_array_of_leaf(&leaf->values, &layer, &leaf->dictionary, out, err);
    leaf->valid = layer.valid; /* what was moved out of it is gone */
    return status != LAKE_OK
               ? status
               : lance_stored_load(node->source.file, node->field->stored,
                                   reader->blob_descriptions, reader->counters, out, err);
}

/* Lists [start, start + count): where they start among the items that the read covers, which are
 * items [*first_item, *first_item + layer->item_count) of the child. */
static lake_status read_offsets(struct v20_node *node, uint64_t start, uint64_t count,
                                struct lance_layer_out *layer, uint64_t *first_item,
                                struct lake_error *err)
{
    struct lance_v20_column *column = &node->offsets;
    struct base_buffer offsets;
    uint64_t end;
    lake_status status = LAKE_OK;
    if (!base_u64_add(start, count, &end) || end > column->column->row_count)
        return lake_fail(err, LAKE_DATA_LOSS, "column %u has %llu lists, not %llu and %llu more",
                         column->column_index, (unsigned long long)column->column->row_count,
                         (unsigned long long)start, (unsigned long long)count);
    base_buffer_init(&offsets, LANCE_MAX_DECODED_BYTES);
    while (status == LAKE_OK && start < end) {
        size_t index = lance_find_page(column->column, start);
        const struct lance_file_page *page = &column->column->pages[index];
        uint64_t row = start - page->first_row, take = BASE_MIN(end - start, page->row_count - row);
        uint64_t page_start = 0;
        bool changed;
        status = lance_v20_column_open_page(column, index, &changed, err);
        if (status == LAKE_OK)
            status = lance_v20_read_list_ends(column, row, take, &offsets, &page_start,
                                              &layer->valid, err);
        if (status != LAKE_OK)
            break;
        uint64_t items = base_load_u64le(offsets.data + 8 * take);
        uint64_t at = node->first_item[index] + page_start;
        if (layer->length == 0)
            *first_item = at;
        if (at != *first_item + layer->item_count || page_start > column->encoding->count ||
            items > column->encoding->count - page_start)
            status =
                lake_fail(err, LAKE_DATA_LOSS, "lists of page %zu do not end at its items", index);
        else if (items > MAX_LIST_ITEMS - layer->item_count)
            status = lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                               "more than %llu list items in one array: read fewer rows at a time",
                               (unsigned long long)MAX_LIST_ITEMS);
        for (uint64_t i = 0; status == LAKE_OK && i < take; i++) {
            uint64_t from = layer->item_count + base_load_u64le(offsets.data + 8 * i);
            status = base_buffer_append(&layer->starts, &from, sizeof(from), err);
        }
        layer->item_count += items;
        layer->length += take;
        start += take;
    }
    base_buffer_fini(&offsets);
    return status;
}

static lake_status read_list(struct lance_v20_reader *reader, struct v20_node *node, size_t *index,
                             uint64_t start, uint64_t count, struct ArrowArray *out,
                             struct lake_error *err)
{
    struct lance_layer_out layer = {.is_list = true};
    uint64_t first_item = 0;
    lance_bits_init(&layer.valid);
    base_buffer_init(&layer.starts, LANCE_MAX_DECODED_BYTES);
    lake_status status = read_offsets(node, start, count, &layer, &first_item, err);
    if (status == LAKE_OK)
        status = lance_array_new(count, 2, 1, false, out, err);
    if (status != LAKE_OK)
        goto done;
    layer.null_count =
        count == 0 ? 0 : count - lance_bits_count_set(layer.valid.bytes.data, 0, count);
    lance_array_set_validity(out, &layer.valid, layer.null_count);
    status = lance_array_set_list_offsets(out, &layer,
                                          strcmp(node->field->arrow->format, "+L") == 0, err);
    if (status == LAKE_OK)
        status = read_node(reader, index, first_item, layer.item_count, out->children[0], err);
    if (status != LAKE_OK)
        out->release(out);
done:
    lance_bits_fini(&layer.valid);
    base_buffer_fini(&layer.starts);
    return status;
}

static lake_status read_struct(struct lance_v20_reader *reader, struct v20_node *node,
                               size_t *index, uint64_t start, uint64_t count,
                               struct ArrowArray *out, struct lake_error *err)
{
    size_t children = node->field->child_count;
    lake_status status = lance_array_new(count, 1, children, false, out, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; status == LAKE_OK && i < children; i++)
        status = read_node(reader, index, start, count, out->children[i], err);
    if (status != LAKE_OK)
        out->release(out);
    return status;
}

/* Whether anything of the field is stored. */
static bool is_stored(const struct lance_v20_reader *reader, size_t index)
{
    size_t end = index + lance_field_node_count(reader->nodes[index].field);
    for (; index < end; index++)
        if (reader->nodes[index].source.file != NULL)
            return true;
    return false;
}

/* *index is the node's; afterwards that of what follows it and all below it. */
static lake_status read_node(struct lance_v20_reader *reader, size_t *index, uint64_t start,
                             uint64_t count, struct ArrowArray *out, struct lake_error *err)
{
    struct v20_node *node = &reader->nodes[*index];
    bool nested = node->field->kind != LANCE_NODE_LEAF;
    if (!is_stored(reader, *index) || ((!nested || is_list(node->field)) && !node->is_open)) {
        *index += lance_field_node_count(node->field);
        return lance_array_of_nulls(node->type, count, out, err);
    }
    (*index)++;
    if (!nested)
        return read_leaf(reader, node, start, count, out, err);
    if (is_list(node->field))
        return read_list(reader, node, index, start, count, out, err);
    return read_struct(reader, node, index, start, count, out, err);
}

lake_status lance_v20_reader_read(struct lance_v20_reader *reader, uint64_t start, uint64_t count,
                                  struct ArrowArray *out, struct lake_error *err)
{
    size_t index = 0;
    return read_node(reader, &index, start, count, out, err);
}
