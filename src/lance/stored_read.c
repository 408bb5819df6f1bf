#include "stored_read.h"

#include "array_build.h"
#include "jsonb.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_GAP_BYTES  4096 /* between neighbours that are read at once */
#define MAX_READ_BYTES ((uint64_t)8 << 20)

enum blob_kind { /* of version 2 */
    BLOB_INLINE = 0,
    BLOB_PACKED = 1,
    BLOB_DEDICATED = 2,
    BLOB_EXTERNAL = 3
};

/* One blob. `sidecar` 0: in the data file. */
struct blob {
    bool valid;
    uint32_t sidecar;
    uint64_t position;
    uint64_t size;
};

struct blobs {
    struct lance_file *file;
    enum lance_stored stored;
    struct lance_read_counters *counters;
    const struct ArrowArray *rows;
};

static bool bit_at(const void *bits, int64_t i)
{
    return (((const uint8_t *)bits)[i / 8] >> (i % 8) & 1) != 0;
}

/* Row `i`, whose arrays have no offset: decoders made them. */
static lake_status describe(const struct blobs *blobs, int64_t i, struct blob *out,
                            struct lake_error *err)
{
    const struct ArrowArray *rows = blobs->rows;
    bool v1 = blobs->stored == LANCE_STORED_BLOB_V1;
    const uint8_t *positions = rows->children[v1 ? 0 : 1]->buffers[1];
    const uint8_t *sizes = rows->children[v1 ? 1 : 2]->buffers[1];
    *out = (struct blob){.position = base_load_u64le(positions + 8 * i),
                         .size = base_load_u64le(sizes + 8 * i)};
    bool null = rows->null_count != 0 && !bit_at(rows->buffers[0], i);
    out->valid = !null && !(v1 && out->size == 0 && out->position != 0);
    if (!out->valid || v1)
        return LAKE_OK;
    uint8_t kind = ((const uint8_t *)rows->children[0]->buffers[1])[i];
    uint32_t id = base_load_u32le((const uint8_t *)rows->children[3]->buffers[1] + 4 * i);
    if (kind == BLOB_EXTERNAL)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "a blob lies outside the dataset, where it is not read from; its "
                         "description can be read");
    if (kind > BLOB_EXTERNAL)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "unknown kind of blob %u", kind);
    if (kind != BLOB_INLINE && id == 0)
        return lake_fail(err, LAKE_DATA_LOSS, "a blob in a file of its own has no id");
    out->sidecar = kind == BLOB_INLINE ? 0 : id;
    out->position = kind == BLOB_DEDICATED ? 0 : out->position;
    return LAKE_OK;
}

/* data/<name>.lance to data/<name>/<bits of the id, lowest first>.blob */
static lake_status sidecar_key(const struct lance_file *file, uint32_t id,
                               char out[STORAGE_MAX_KEY_BYTES + 1], struct lake_error *err)
{
    char bits[33];
    struct lake_str stem = file->key;
    if (base_str_has_suffix(stem, ".lance"))
        stem.size -= strlen(".lance");
    for (unsigned i = 0; i < 32; i++)
        bits[i] = (id >> i & 1) != 0 ? '1' : '0';
    bits[32] = '\0';
    int length = snprintf(out, STORAGE_MAX_KEY_BYTES + 1, "%.*s/%s.blob", LAKE_STR_FMT(stem), bits);
    if (length < 0 || length > STORAGE_MAX_KEY_BYTES)
        return lake_fail(err, LAKE_DATA_LOSS, "the name of a blob's file is too long");
    return LAKE_OK;
}

static lake_status read_bytes(const struct blobs *blobs, uint32_t sidecar, uint64_t position,
                              uint64_t size, uint8_t *out, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    struct lance_file *file = blobs->file;
    struct lake_str name = file->key;
    lake_status status = LAKE_OK;
    if (size == 0)
        return LAKE_OK;
    if (sidecar != 0) {
        status = sidecar_key(file, sidecar, key, err);
        if (status != LAKE_OK)
            return status;
        name = base_str_of(key);
    }
    if (blobs->counters != NULL)
        __atomic_fetch_add(&blobs->counters->bytes_read, size, __ATOMIC_RELAXED);
    status = storage_read_range(file->store, name, position, (size_t)size, out, err);
    if (status == LAKE_NOT_FOUND || status == LAKE_OUT_OF_RANGE)
        status = lake_fail_wrap(err, LAKE_DATA_LOSS, "a blob is not in %.*s", LAKE_STR_FMT(name));
    return status;
}

/* What is claimed must be there before memory is taken for it. */
static lake_status check_extent(const struct blobs *blobs, const struct blob *blob,
                                struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    struct storage_object_info info = {.size_bytes = blobs->file->size_bytes};
    lake_status status = LAKE_OK;
    uint64_t end;
    if (!base_u64_add(blob->position, blob->size, &end))
        return lake_fail(err, LAKE_DATA_LOSS, "a blob lies outside its file");
    if (blob->sidecar != 0) {
        if (blob->size <= LANCE_MAX_BLOBS_BYTES)
            return LAKE_OK;
        status = sidecar_key(blobs->file, blob->sidecar, key, err);
        if (status == LAKE_OK)
            status = storage_stat(blobs->file->store, base_str_of(key), &info, err);
        if (status != LAKE_OK)
            return status;
    }
    if (blob->size > info.size_bytes || blob->position > info.size_bytes - blob->size)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a blob of %" PRIu64 " bytes at %" PRIu64 " lies outside its file",
                         blob->size, blob->position);
    return LAKE_OK;
}

/* Offsets and validity; *total is the bytes of all. */
static lake_status measure(const struct blobs *blobs, struct lance_leaf_values *values,
                           struct lance_layer_out *layer, uint64_t *total, struct lake_error *err)
{
    int64_t length = blobs->rows->length;
    uint64_t end = 0;
    lake_status status =
        base_buffer_reserve(&values->offsets, ((size_t)length + 1) * sizeof(uint64_t), err);
    if (status != LAKE_OK)
        return status;
    base_store_u64le(values->offsets.data, 0);
    for (int64_t i = 0; i < length; i++) {
        struct blob blob;
        status = describe(blobs, i, &blob, err);
        if (status == LAKE_OK && blob.valid && blob.size > 0)
            status = check_extent(blobs, &blob, err);
        if (status == LAKE_OK)
            status = lance_bits_append_run(&layer->valid, blob.valid, 1, err);
        if (status != LAKE_OK)
            return status;
        layer->null_count += !blob.valid;
        uint64_t size = blob.valid ? blob.size : 0;
        if (size > LANCE_MAX_BLOB_BYTES)
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "a blob of %" PRIu64 " bytes is more than %" PRIu64
                             ", the most that is read at once; its description can be read",
                             size, LANCE_MAX_BLOB_BYTES);
        end += size;
        if (end > LANCE_MAX_BLOBS_BYTES && length > 1)
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                             "more than %" PRIu64 " bytes of blobs: read fewer rows at a time",
                             LANCE_MAX_BLOBS_BYTES);
        base_store_u64le(values->offsets.data + 8 * (i + 1), end);
    }
    values->offsets.size = ((size_t)length + 1) * sizeof(uint64_t);
    values->count = layer->length = (uint64_t)length;
    *total = end;
    return LAKE_OK;
}

/* Blobs [from, to), which lie close together in one file, into `out`, one after the other. */
static lake_status read_run(const struct blobs *blobs, int64_t from, int64_t to, uint64_t start,
                            uint64_t end, uint32_t sidecar, struct base_buffer *scratch,
                            uint8_t *out, struct lake_error *err)
{
    struct blob blob;
    if (to == from + 1)
        return read_bytes(blobs, sidecar, start, end - start, out, err);
    base_buffer_clear(scratch);
    lake_status status = base_buffer_reserve(scratch, (size_t)(end - start), err);
    if (status == LAKE_OK)
        status = read_bytes(blobs, sidecar, start, end - start, scratch->data, err);
    for (int64_t i = from; status == LAKE_OK && i < to; i++) {
        status = describe(blobs, i, &blob, err);
        if (status != LAKE_OK || !blob.valid || blob.size == 0)
            continue;
        memcpy(out, scratch->data + (blob.position - start), (size_t)blob.size);
        out += blob.size;
    }
    return status;
}

static lake_status read_all(const struct blobs *blobs, struct base_buffer *scratch, uint8_t *out,
                            struct lake_error *err)
{
    int64_t length = blobs->rows->length;
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < length;) {
        struct blob first, next;
        int64_t to = i + 1;
        status = describe(blobs, i, &first, err);
        if (status != LAKE_OK || !first.valid || first.size == 0) {
            i = to;
            continue;
        }
        uint64_t end = first.position + first.size, bytes = first.size;
        for (; to < length; to++) {
            status = describe(blobs, to, &next, err);
            if (status != LAKE_OK)
                return status;
            if (!next.valid || next.size == 0)
                continue;
            if (next.sidecar != first.sidecar || next.position < end ||
                next.position - end > MAX_GAP_BYTES ||
                next.position + next.size - first.position > MAX_READ_BYTES)
                break;
            end = next.position + next.size;
            bytes += next.size;
        }
        status = read_run(blobs, i, to, first.position, end, first.sidecar, scratch, out, err);
        out += bytes;
        i = to;
    }
    return status;
}

static lake_status load_blobs(struct lance_file *file, enum lance_stored stored,
                              struct lance_read_counters *counters, struct ArrowArray *array,
                              struct lake_error *err)
{
    static const struct lance_leaf_type type = {
        .kind = LANCE_LEAF_VARIABLE, .items = 1, .offset_bytes = 8};
    struct blobs blobs = {.file = file, .stored = stored, .counters = counters, .rows = array};
    struct lance_leaf_values values;
    struct lance_layer_out layer = {0};
    struct base_buffer scratch;
    struct ArrowArray made = {.release = NULL};
    uint64_t total = 0;
    lance_leaf_values_init(&values, &type);
    lance_bits_init(&layer.valid);
    base_buffer_init(&scratch, (size_t)LANCE_MAX_BLOB_BYTES);
    lake_status status = measure(&blobs, &values, &layer, &total, err);
    if (status == LAKE_OK)
        status = base_buffer_reserve(&values.data, (size_t)total + 1, err);
    if (status == LAKE_OK)
        status = read_all(&blobs, &scratch, values.data.data, err);
    if (status == LAKE_OK) {
        values.data.size = (size_t)total;
        status = lance_array_of_leaf(&values, &layer, NULL, &made, err);
    }
    array->release(array);
    if (status == LAKE_OK)
        *array = made;
    base_buffer_fini(&scratch);
    lance_bits_fini(&layer.valid);
    lance_leaf_values_fini(&values);
    return status;
}

lake_status lance_stored_load(struct lance_file *file, enum lance_stored stored,
                              bool blob_descriptions, struct lance_read_counters *counters,
                              struct ArrowArray *array, struct lake_error *err)
{
    if (stored == LANCE_STORED_PLAIN)
        return LAKE_OK;
    if (stored == LANCE_STORED_JSON)
        return lance_jsonb_array_to_text(array, err);
    return blob_descriptions ? LAKE_OK : load_blobs(file, stored, counters, array, err);
}
