#include "arrow_internal.h"

#include <stdatomic.h>
#include <string.h>

struct arrow_batch {
    atomic_uint_fast32_t refs;
    struct ArrowArray array;
};

lake_status arrow_batch_new(struct ArrowArray *array, struct arrow_batch **out,
                            struct lake_error *err)
{
    struct arrow_batch *batch = base_alloc(sizeof(*batch));
    if (batch == NULL) {
        ArrowArrayRelease(array);
        return base_fail_no_memory(err, sizeof(*batch));
    }
    atomic_init(&batch->refs, 1);
    ArrowArrayMove(array, &batch->array);
    *out = batch;
    return LAKE_OK;
}

struct arrow_batch *arrow_batch_ref(struct arrow_batch *batch)
{
    atomic_fetch_add_explicit(&batch->refs, 1, memory_order_relaxed);
    return batch;
}

void arrow_batch_unref(struct arrow_batch *batch)
{
    if (batch != NULL && atomic_fetch_sub_explicit(&batch->refs, 1, memory_order_acq_rel) == 1) {
        if (batch->array.release != NULL) {
            ArrowArrayRelease(&batch->array);
        }
        base_free(batch);
    }
}

const struct ArrowArray *arrow_batch_array(const struct arrow_batch *batch)
{
    return &batch->array;
}

/* The private data of a cloned node: its children's structs, and the batch that owns the buffers.
 */
struct clone {
    struct arrow_batch *batch;
    struct ArrowArray **child_pointers;
    struct ArrowArray *nodes; /* the children, then the dictionary */
};

static void release_clone(struct ArrowArray *array)
{
    struct clone *clone = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release != NULL) {
            ArrowArrayRelease(array->children[i]);
        }
    }
    if (array->dictionary != NULL && array->dictionary->release != NULL) {
        ArrowArrayRelease(array->dictionary);
    }
    arrow_batch_unref(clone->batch);
    base_free(clone);
    array->release = NULL;
}

lake_status arrow_clone_with_batch(const struct ArrowArray *array, struct arrow_batch *batch,
                                   struct ArrowArray *out, struct lake_error *err)
{
    size_t children = (size_t)array->n_children;
    size_t nodes = children + (array->dictionary != NULL ? 1 : 0);
    size_t per_node = sizeof(struct ArrowArray) + sizeof(struct ArrowArray *);
    size_t bytes;
    if (!base_size_mul(nodes, per_node, &bytes) ||
        !base_size_add(bytes, sizeof(struct clone), &bytes)) {
        return base_fail_no_memory(err, SIZE_MAX);
    }
    struct clone *clone = base_calloc_array(1, bytes);
    if (clone == NULL) {
        return base_fail_no_memory(err, bytes);
    }
    clone->batch = arrow_batch_ref(batch);
    clone->nodes = (struct ArrowArray *)(clone + 1);
    clone->child_pointers = (struct ArrowArray **)(clone->nodes + nodes);
    struct ArrowArray copy = *array; /* buffers are borrowed: their pointers are the batch's */
    copy.private_data = clone;
    copy.release = release_clone;
    copy.children = children == 0 ? NULL : clone->child_pointers;
    for (size_t i = 0; i < children; i++) {
        clone->child_pointers[i] = &clone->nodes[i];
    }
    copy.dictionary = array->dictionary == NULL ? NULL : &clone->nodes[children];
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < nodes; i++) {
        const struct ArrowArray *from = i < children ? array->children[i] : array->dictionary;
        status = arrow_clone_with_batch(from, batch, &clone->nodes[i], err);
    }
    if (status != LAKE_OK) {
        ArrowArrayRelease(&copy);
        return status;
    }
    *out = copy;
    return LAKE_OK;
}

lake_status arrow_batch_slice(struct arrow_batch *batch, int64_t offset, int64_t length,
                              struct ArrowArray *out, struct lake_error *err)
{
    const struct ArrowArray *array = &batch->array;
    if (offset < 0 || length < 0 || offset > array->length || length > array->length - offset) {
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "rows [%lld, %lld) of a batch of %lld rows do not exist",
                         (long long)offset, (long long)offset + length, (long long)array->length);
    }
    struct ArrowArray slice;
    lake_status status = arrow_clone_with_batch(array, batch, &slice, err);
    if (status != LAKE_OK) {
        return status;
    }
    bool rows_valid = slice.null_count == 0 || slice.n_buffers == 0 || slice.buffers[0] == NULL;
    if (slice.n_buffers == 1 && rows_valid) {
        /* The offset moves into the columns: importers of record batches want none at the top. */
        bool whole = array->offset == 0 && length == array->length;
        for (int64_t i = 0; i < slice.n_children; i++) {
            slice.children[i]->offset += array->offset + offset;
            slice.children[i]->length = length;
            if (!whole && slice.children[i]->null_count != 0) {
                slice.children[i]->null_count = -1;
            }
        }
        slice.offset = 0;
        slice.null_count = 0;
    } else {
        slice.offset += offset;
        slice.null_count = rows_valid ? 0 : -1;
    }
    slice.length = length;
    *out = slice;
    return LAKE_OK;
}
