#include "decode_array.h"

#include <nanoarrow/nanoarrow_ipc.h>
#include <stdatomic.h>
#include <string.h>

struct block { /* memory made while decoding, in a list */
    struct block *next;
    uint8_t memory[]; /* data at the first multiple of BLOCK_ALIGNMENT within */
};
#define BLOCK_ALIGNMENT 64

struct arrow_body_owner {
    atomic_uint_fast32_t refs;
    struct arrow_ipc_body body;
    struct block *blocks;
};

lake_status arrow_body_owner_new(struct arrow_ipc_body *body, struct arrow_body_owner **out,
                                 struct lake_error *err)
{
    struct arrow_body_owner *owner = base_calloc_array(1, sizeof(*owner));
    if (owner == NULL) {
        if (body->release != NULL) {
            body->release(body->context);
        }
        return base_fail_no_memory(err, sizeof(*owner));
    }
    atomic_init(&owner->refs, 1);
    owner->body = *body;
    *out = owner;
    return LAKE_OK;
}

void arrow_body_owner_unref(struct arrow_body_owner *owner)
{
    if (owner == NULL || atomic_fetch_sub_explicit(&owner->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (owner->body.release != NULL) {
        owner->body.release(owner->body.context);
    }
    while (owner->blocks != NULL) {
        struct block *next = owner->blocks->next;
        base_free(owner->blocks);
        owner->blocks = next;
    }
    base_free(owner);
}

/* Memory that lives as long as the owner, aligned. */
static void *owner_alloc(struct arrow_body_owner *owner, size_t size)
{
    size_t total;
    if (!base_size_add(size, sizeof(struct block) + BLOCK_ALIGNMENT, &total)) {
        return NULL;
    }
    struct block *block = base_alloc(total);
    if (block == NULL) {
        return NULL;
    }
    block->next = owner->blocks;
    owner->blocks = block;
    uintptr_t address = (uintptr_t)block->memory;
    return block->memory + (BASE_ALIGN_UP(address, (uintptr_t)BLOCK_ALIGNMENT) - address);
}

/* The private data of a decoded node, followed by its children's structs. */
struct decoded {
    struct arrow_body_owner *owner;
    const void **buffers;
    struct ArrowArray **child_pointers;
    struct ArrowArray *nodes; /* the children, then the dictionary */
};

static void release_decoded(struct ArrowArray *array)
{
    struct decoded *decoded = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release != NULL) {
            ArrowArrayRelease(array->children[i]);
        }
    }
    if (array->dictionary != NULL && array->dictionary->release != NULL) {
        ArrowArrayRelease(array->dictionary);
    }
    arrow_body_owner_unref(decoded->owner);
    base_free(decoded);
    array->release = NULL;
}

static lake_status new_node(struct arrow_reading *reading, const struct ArrowSchema *field,
                            size_t buffers, struct ArrowArray *out, struct lake_error *err)
{
    size_t children = field->dictionary != NULL ? 0 : (size_t)field->n_children;
    size_t nodes = children + (field->dictionary != NULL ? 1 : 0);
    size_t bytes = sizeof(struct decoded) + nodes * sizeof(struct ArrowArray) +
                   (children + buffers) * sizeof(void *); /* all bounded by the schema */
    struct decoded *decoded = base_calloc_array(1, bytes);
    if (decoded == NULL) {
        return base_fail_no_memory(err, bytes);
    }
    atomic_fetch_add_explicit(&reading->owner->refs, 1, memory_order_relaxed);
    decoded->owner = reading->owner;
    decoded->nodes = (struct ArrowArray *)(decoded + 1);
    decoded->child_pointers = (struct ArrowArray **)(decoded->nodes + nodes);
    decoded->buffers = (const void **)(decoded->child_pointers + children);
    for (size_t i = 0; i < children; i++) {
        decoded->child_pointers[i] = &decoded->nodes[i];
    }
    *out = (struct ArrowArray){
        .n_buffers = (int64_t)buffers,
        .n_children = (int64_t)children,
        .buffers = buffers == 0 ? NULL : decoded->buffers,
        .children = children == 0 ? NULL : decoded->child_pointers,
        .dictionary = field->dictionary == NULL ? NULL : &decoded->nodes[children],
        .release = release_decoded,
        .private_data = decoded,
    };
    return LAKE_OK;
}

static lake_status decompress(struct arrow_reading *reading, const struct ArrowSchema *field,
                              struct lake_bytes *buffer, struct lake_error *err)
{
    if (buffer->size < 8) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": a compressed buffer of %zu bytes has no length",
                         arrow_field_name(field), buffer->size);
    }
    int64_t size = (int64_t)base_load_u64le(buffer->data);
    struct lake_bytes packed = {buffer->data + 8, buffer->size - 8};
    if (size == -1) {
        *buffer = packed;
        return LAKE_OK;
    }
    if (size < 0 || (uint64_t)size > reading->decompressed_left) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "column \"%s\": a compressed buffer claims %lld bytes, %llu are allowed",
                         arrow_field_name(field), (long long)size,
                         (unsigned long long)reading->decompressed_left);
    }
    reading->decompressed_left -= (uint64_t)size;
    uint8_t *data = owner_alloc(reading->owner, (size_t)size);
    if (data == NULL) {
        return base_fail_no_memory(err, (size_t)size);
    }
    ArrowIpcDecompressFunction function = reading->codec == FB(CompressionType_ZSTD)
                                              ? ArrowIpcGetZstdDecompressionFunction()
                                              : ArrowIpcGetLZ4DecompressionFunction();
    struct ArrowError detail = {{0}};
    struct ArrowBufferView view = {.data.as_uint8 = packed.data,
                                   .size_bytes = (int64_t)packed.size};
    int code = function(view, data, size, &detail);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(err, code, &detail, "decompressing an IPC buffer");
    }
    *buffer = (struct lake_bytes){data, (size_t)size};
    return LAKE_OK;
}

/* The next buffer, of at least `needed` bytes, aligned for elements of `align` bytes. Empty ones
 * point to zeros, so that no consumer meets NULL where it expects offsets or data. */
static lake_status read_buffer(struct arrow_reading *reading, const struct ArrowSchema *field,
                               uint64_t needed, size_t align, struct lake_bytes *out,
                               struct lake_error *err)
{
    const char *name = arrow_field_name(field);
    if (reading->next_buffer == reading->buffer_count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": the IPC message has only %zu buffers", name,
                         reading->buffer_count);
    }
    FB(Buffer_struct_t) buffer = FB(Buffer_vec_at)(reading->buffers, reading->next_buffer++);
    int64_t offset = FB(Buffer_offset)(buffer);
    int64_t length = FB(Buffer_length)(buffer);
    if (offset < 0 || length < 0 || (uint64_t)offset > reading->body.size ||
        (uint64_t)length > reading->body.size - (uint64_t)offset) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": a buffer of %lld bytes at %lld lies outside the body of "
                         "%zu bytes",
                         name, (long long)length, (long long)offset, reading->body.size);
    }
    struct lake_bytes bytes = {reading->body.data + offset, (size_t)length};
    if (length > 0 && reading->codec >= 0) {
        lake_status status = decompress(reading, field, &bytes, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    if (bytes.size < needed) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": a buffer has %zu bytes, its rows need %llu", name,
                         bytes.size, (unsigned long long)needed);
    }
    if (bytes.size == 0) {
        bytes.data = arrow_zeros;
    } else if ((uintptr_t)bytes.data % align != 0) {
        void *aligned = owner_alloc(reading->owner, bytes.size);
        if (aligned == NULL) {
            return base_fail_no_memory(err, bytes.size);
        }
        memcpy(aligned, bytes.data, bytes.size);
        bytes.data = aligned;
    }
    *out = bytes;
    return LAKE_OK;
}

static lake_status read_validity(struct arrow_reading *reading, const struct ArrowSchema *field,
                                 struct ArrowArray *array, struct lake_error *err)
{
    struct lake_bytes validity;
    lake_status status = read_buffer(reading, field, 0, 1, &validity, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (array->null_count == -1 && validity.size == 0) {
        array->null_count = 0; /* not counted, and there are none */
    }
    uint64_t needed = array->null_count == 0 ? 0 : ((uint64_t)array->length + 7) / 8;
    if (validity.size < needed) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": %lld rows have nulls, but a validity bitmap of %zu bytes",
                         arrow_field_name(field), (long long)array->length, validity.size);
    }
    /* Counted, not believed: consumers size things by it. */
    if (array->null_count != 0) {
        array->null_count = arrow_count_nulls(validity.data, 0, array->length);
    }
    array->buffers[0] = array->null_count != 0 ? validity.data : NULL;
    return LAKE_OK;
}

/* Offsets of a list or of bytes; gives the last one, after which nothing may be asked for. */
static lake_status read_offsets(struct arrow_reading *reading, const struct ArrowSchema *field,
                                uint32_t width, struct ArrowArray *array, int64_t *last,
                                struct lake_error *err)
{
    struct lake_bytes offsets;
    uint64_t needed = array->length == 0 ? 0 : ((uint64_t)array->length + 1) * width;
    lake_status status = read_buffer(reading, field, needed, width, &offsets, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (array->length == 0 && offsets.size < width) {
        offsets.data = arrow_zeros;
    }
    array->buffers[1] = offsets.data;
    *last = 0;
    if (array->length > 0) {
        *last = width == 4 ? (int32_t)base_load_u32le(offsets.data + 4 * array->length)
                           : (int64_t)base_load_u64le(offsets.data + 8 * array->length);
    }
    if (*last < 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\": an offset is %lld",
                         arrow_field_name(field), (long long)*last);
    }
    return LAKE_OK;
}

static lake_status read_child(struct arrow_reading *reading, const struct ArrowSchema *field,
                              struct ArrowArray *array, int64_t index, int64_t needed_rows,
                              struct lake_error *err)
{
    struct ArrowArray *child = array->children[index];
    lake_status status = arrow_read_array(reading, field->children[index], child, err);
    if (status == LAKE_OK && child->length < needed_rows) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": its child has %lld rows, %lld are needed",
                         arrow_field_name(field), (long long)child->length, (long long)needed_rows);
    }
    return status;
}

static lake_status read_children(struct arrow_reading *reading, const struct ArrowSchema *field,
                                 struct ArrowArray *array, int64_t needed_rows,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < array->n_children; i++) {
        status = read_child(reading, field, array, i, needed_rows, err);
    }
    return status;
}

/* Buffer `index`, of `width` bytes a row. */
static lake_status read_values(struct arrow_reading *reading, const struct ArrowSchema *field,
                               struct ArrowArray *array, int64_t index, int64_t bit_width,
                               struct lake_error *err)
{
    struct lake_bytes values;
    uint64_t needed;
    if (!base_u64_mul((uint64_t)array->length, (uint64_t)bit_width, &needed)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\": impossibly many bytes",
                         arrow_field_name(field));
    }
    /* Elements wider than 8 bytes are read in pieces of 8 at most. */
    size_t bytes = (size_t)bit_width / 8;
    size_t align = bytes % 8 == 0 && bytes > 0 ? 8 : bytes == 2 || bytes == 4 ? bytes : 1;
    lake_status status =
        read_buffer(reading, field, needed / 8 + (needed % 8 != 0), align, &values, err);
    if (status == LAKE_OK) {
        array->buffers[index] = values.data;
    }
    return status;
}

static lake_status read_views(struct arrow_reading *reading, const struct ArrowSchema *field,
                              struct ArrowArray *array, struct lake_error *err)
{
    int64_t variadic = array->n_buffers - 3;
    int64_t *sizes = owner_alloc(reading->owner, (size_t)(variadic + 1) * sizeof(*sizes));
    if (sizes == NULL) {
        return base_fail_no_memory(err, (size_t)variadic);
    }
    lake_status status = read_values(reading, field, array, 1, 128, err);
    for (int64_t i = 0; status == LAKE_OK && i < variadic; i++) {
        struct lake_bytes data;
        status = read_buffer(reading, field, 0, 1, &data, err);
        if (status == LAKE_OK) {
            array->buffers[2 + i] = data.data;
            sizes[i] = (int64_t)data.size;
        }
    }
    array->buffers[array->n_buffers - 1] = sizes;
    return status;
}

static lake_status read_bytes(struct arrow_reading *reading, const struct ArrowSchema *field,
                              uint32_t width, struct ArrowArray *array, struct lake_error *err)
{
    int64_t last;
    struct lake_bytes data;
    lake_status status = read_offsets(reading, field, width, array, &last, err);
    if (status == LAKE_OK) {
        status = read_buffer(reading, field, (uint64_t)last, 1, &data, err);
    }
    if (status == LAKE_OK) {
        array->buffers[2] = data.data;
    }
    return status;
}

static lake_status read_layout(struct arrow_reading *reading, const struct ArrowSchema *field,
                               const struct arrow_type_layout *layout, struct ArrowArray *array,
                               struct lake_error *err)
{
    lake_status status = LAKE_OK;
    int64_t last;
    switch (layout->layout) {
    case ARROW_LAYOUT_NULL:
        array->null_count = array->length;
        return LAKE_OK;
    case ARROW_LAYOUT_FIXED:
        return read_values(reading, field, array, 1, layout->bit_width, err);
    case ARROW_LAYOUT_BYTES:
        return read_bytes(reading, field, layout->offset_bytes, array, err);
    case ARROW_LAYOUT_LIST:
        status = read_offsets(reading, field, layout->offset_bytes, array, &last, err);
        return status == LAKE_OK ? read_child(reading, field, array, 0, last, err) : status;
    case ARROW_LAYOUT_LIST_VIEW:
        for (int64_t i = 1; status == LAKE_OK && i <= 2; i++) {
            status = read_values(reading, field, array, i, 8 * (int64_t)layout->offset_bytes, err);
        }
        return status == LAKE_OK ? read_child(reading, field, array, 0, 0, err) : status;
    case ARROW_LAYOUT_FIXED_LIST:
        if (__builtin_mul_overflow(array->length, layout->list_size, &last)) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\": impossibly many items",
                             arrow_field_name(field));
        }
        return read_child(reading, field, array, 0, last, err);
    case ARROW_LAYOUT_STRUCT:
        return read_children(reading, field, array, array->length, err);
    case ARROW_LAYOUT_VIEW:
        return read_views(reading, field, array, err);
    case ARROW_LAYOUT_SPARSE_UNION:
        status = read_values(reading, field, array, 0, 8, err);
        return status == LAKE_OK ? read_children(reading, field, array, array->length, err)
                                 : status;
    case ARROW_LAYOUT_DENSE_UNION:
        status = read_values(reading, field, array, 0, 8, err);
        if (status == LAKE_OK) {
            status = read_values(reading, field, array, 1, 32, err);
        }
        return status == LAKE_OK ? read_children(reading, field, array, 0, err) : status;
    case ARROW_LAYOUT_RUN_END:
        return read_children(reading, field, array, 0, err);
    }
    return lake_fail(err, LAKE_INTERNAL, "layout %d is not known", (int)layout->layout);
}

/* Attaches the present values of a dictionary field, or none at all when it never got any. */
static lake_status attach_dictionary(struct arrow_reading *reading, const struct ArrowSchema *field,
                                     struct ArrowArray *array, struct lake_error *err)
{
    size_t i = 0;
    while (i < reading->dictionaries->count && reading->dictionaries->fields[i] != field) {
        i++;
    }
    if (i == reading->dictionaries->count) {
        return lake_fail(err, LAKE_INTERNAL, "column \"%s\": its dictionary is not known",
                         arrow_field_name(field));
    }
    if (reading->values[i] == NULL) {
        struct ArrowArray empty;
        struct ArrowError detail = {{0}};
        int code = ArrowArrayInitFromSchema(&empty, field->dictionary, &detail);
        if (code == NANOARROW_OK) {
            code = ArrowArrayFinishBuildingDefault(&empty, &detail);
            if (code != NANOARROW_OK) {
                ArrowArrayRelease(&empty);
            }
        }
        if (code != NANOARROW_OK) {
            return arrow_fail_code(err, code, &detail, "making an empty dictionary");
        }
        lake_status status = arrow_batch_new(&empty, &reading->values[i], err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    return arrow_clone_with_batch(arrow_batch_array(reading->values[i]), reading->values[i],
                                  array->dictionary, err);
}

static lake_status next_node(struct arrow_reading *reading, const struct ArrowSchema *field,
                             int64_t *length, int64_t *null_count, struct lake_error *err)
{
    if (reading->next_node == reading->node_count) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": the IPC message has only %zu nodes",
                         arrow_field_name(field), reading->node_count);
    }
    FB(FieldNode_struct_t) node = FB(FieldNode_vec_at)(reading->nodes, reading->next_node++);
    *length = FB(FieldNode_length)(node);
    *null_count = FB(FieldNode_null_count)(node);
    if (*length < 0 || *length > ARROW_MAX_ROWS || *null_count < -1 || *null_count > *length) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "column \"%s\": a node of %lld rows and %lld nulls is not possible",
                         arrow_field_name(field), (long long)*length, (long long)*null_count);
    }
    return LAKE_OK;
}

lake_status arrow_read_array(struct arrow_reading *reading, const struct ArrowSchema *field,
                             struct ArrowArray *out, struct lake_error *err)
{
    struct arrow_type_layout layout;
    struct ArrowArray array;
    int64_t length = 0;
    int64_t null_count = 0;
    lake_status status = arrow_layout_of(field, &layout, err);
    if (status == LAKE_OK) {
        status = next_node(reading, field, &length, &null_count, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    size_t buffers = layout.buffer_count;
    if (layout.layout == ARROW_LAYOUT_VIEW) {
        int64_t variadic =
            reading->next_variadic < reading->variadic_count
                ? flatbuffers_int64_vec_at(reading->variadic_counts, reading->next_variadic)
                : -1;
        reading->next_variadic++;
        if (variadic < 0 || (uint64_t)variadic > reading->buffer_count) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column \"%s\": the count of its data buffers is missing or wrong",
                             arrow_field_name(field));
        }
        buffers = (size_t)variadic + 3;
    }
    status = new_node(reading, field, buffers, &array, err);
    if (status != LAKE_OK) {
        return status;
    }
    array.length = length;
    array.null_count = null_count;
    if (layout.has_validity) {
        status = read_validity(reading, field, &array, err);
    }
    if (status == LAKE_OK) {
        status = read_layout(reading, field, &layout, &array, err);
    }
    if (status == LAKE_OK && field->dictionary != NULL) {
        status = attach_dictionary(reading, field, &array, err);
    }
    if (status != LAKE_OK) {
        ArrowArrayRelease(&array);
        return status;
    }
    *out = array;
    return LAKE_OK;
}
