/*
 * Stable row ids: what a fragment says about the identity of its rows and the versions in which
 * they were made and last changed. Sequences are read (row_sequence.c) into plain arrays and
 * written in the shortest of the forms that the format offers for runs and for arbitrary values.
 */
#include "row_sequence.h"

#include <inttypes.h>
#include <string.h>

#define MAX_SEQUENCE_BYTES ((size_t)256 << 20)
#define LENGTH_DELIMITED   2

/* ---- writing ---- */

/* Puts what `buffer` holds from `start` on into a field of its own. */
static lake_status wrap(struct base_buffer *buffer, size_t start, uint32_t field,
                        struct lake_error *err)
{
    struct base_buffer inner;
    base_buffer_init(&inner, MAX_SEQUENCE_BYTES);
    lake_status status =
        base_buffer_append(&inner, buffer->data + start, buffer->size - start, err);
    if (status == LAKE_OK) {
        buffer->size = start;
        status = base_buffer_append_varint(buffer, field << 3 | LENGTH_DELIMITED, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(buffer, inner.size, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(buffer, inner.data, inner.size, err);
    }
    base_buffer_fini(&inner);
    return status;
}

static lake_status append_varint_field(struct base_buffer *out, uint32_t field, uint64_t value,
                                       struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, field << 3, err);
    return status == LAKE_OK ? base_buffer_append_varint(out, value, err) : status;
}

/* U64Segment { range { start, end } } */
static lake_status append_range(struct base_buffer *out, uint64_t start, uint64_t end,
                                struct lake_error *err)
{
    size_t at = out->size;
    lake_status status = append_varint_field(out, 1, start, err);
    if (status == LAKE_OK) {
        status = append_varint_field(out, 2, end, err);
    }
    return status == LAKE_OK ? wrap(out, at, 1, err) : status;
}

/* U64Segment { array { u64 { values } } } */
static lake_status append_array(struct base_buffer *out, const uint64_t *values, size_t count,
                                struct lake_error *err)
{
    size_t at = out->size;
    lake_status status = base_buffer_append(out, values, count * sizeof(*values), err);
    for (size_t i = 0; status == LAKE_OK && i < 3; i++) {
        static const uint32_t fields[] = {2, 3, 5};
        status = wrap(out, at, fields[i], err);
    }
    return status;
}

static size_t run_length(const uint64_t *values, size_t count, uint64_t step)
{
    size_t length = 1;
    while (length < count && values[length] == values[length - 1] + step) {
        length++;
    }
    return length;
}

lake_status lance_row_ids_encode(const uint64_t *ids, size_t count, struct base_buffer *out,
                                 struct lake_error *err)
{
    size_t runs = 0;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < count; i += run_length(ids + i, count - i, 1)) {
        runs++;
    }
    bool as_array = runs > count / 4 && runs > 1;
    for (size_t i = 0; i < count && status == LAKE_OK;) {
        size_t length = as_array ? count : run_length(ids + i, count - i, 1);
        size_t at = out->size;
        status = as_array ? append_array(out, ids, count, err)
                          : append_range(out, ids[i], ids[i] + length, err);
        if (status == LAKE_OK) {
            status = wrap(out, at, 1, err);
        }
        i += length;
    }
    return status;
}

/* RowDatasetVersionSequence { runs { span, version } }: only the length of a span counts. */
lake_status lance_row_versions_encode(const uint64_t *versions, size_t count,
                                      struct base_buffer *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < count && status == LAKE_OK;) {
        size_t length = run_length(versions + i, count - i, 0);
        size_t at = out->size;
        status = append_range(out, 0, length, err);
        if (status == LAKE_OK) {
            status = wrap(out, at, 1, err);
        }
        if (status == LAKE_OK) {
            status = append_varint_field(out, 2, versions[i], err);
        }
        if (status == LAKE_OK) {
            status = wrap(out, at, 1, err);
        }
        i += length;
    }
    return status;
}

static lake_status keep_bytes(struct base_arena *arena, const struct base_buffer *buffer,
                              protobuf_c_boolean *has, ProtobufCBinaryData *out,
                              struct lake_error *err)
{
    uint8_t *copy = base_arena_alloc(arena, buffer->size + 1);
    if (copy == NULL) {
        return base_fail_no_memory(err, buffer->size);
    }
    if (buffer->size > 0) {
        memcpy(copy, buffer->data, buffer->size);
    }
    *has = true;
    *out = (ProtobufCBinaryData){.len = buffer->size, .data = copy};
    return LAKE_OK;
}

lake_status lance_row_ids_set(struct base_arena *arena, LancePb__DataFragment *fragment,
                              const struct lance_row_identity *rows, size_t count,
                              struct lake_error *err)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, MAX_SEQUENCE_BYTES);
    lake_status status = lance_row_ids_encode(rows->ids, count, &buffer, err);
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, &fragment->has_inline_row_ids,
                            &fragment->inline_row_ids, err);
    }
    base_buffer_clear(&buffer);
    if (status == LAKE_OK && rows->created != NULL) {
        status = lance_row_versions_encode(rows->created, count, &buffer, err);
        if (status == LAKE_OK) {
            status = keep_bytes(arena, &buffer, &fragment->has_inline_created_at_versions,
                                &fragment->inline_created_at_versions, err);
        }
    }
    base_buffer_clear(&buffer);
    if (status == LAKE_OK && rows->updated != NULL) {
        status = lance_row_versions_encode(rows->updated, count, &buffer, err);
        if (status == LAKE_OK) {
            status = keep_bytes(arena, &buffer, &fragment->has_inline_last_updated_at_versions,
                                &fragment->inline_last_updated_at_versions, err);
        }
    }
    base_buffer_fini(&buffer);
    return status;
}

static lake_status give_version(struct base_arena *arena, uint64_t row_count, uint64_t version,
                                protobuf_c_boolean *has, ProtobufCBinaryData *out,
                                struct lake_error *err)
{
    struct base_buffer buffer;
    if (*has) {
        return LAKE_OK;
    }
    base_buffer_init(&buffer, 256);
    lake_status status = append_range(&buffer, 0, row_count, err);
    if (status == LAKE_OK) {
        status = wrap(&buffer, 0, 1, err);
    }
    if (status == LAKE_OK) {
        status = append_varint_field(&buffer, 2, version, err);
    }
    if (status == LAKE_OK) {
        status = wrap(&buffer, 0, 1, err);
    }
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, has, out, err);
    }
    base_buffer_fini(&buffer);
    return status;
}

lake_status lance_row_ids_give(struct base_arena *arena, LancePb__DataFragment *fragment,
                               uint64_t *next_row_id, uint64_t version, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t rows = fragment->physical_rows;
    if (!fragment->has_inline_row_ids) {
        struct base_buffer buffer;
        uint64_t end;
        if (!base_u64_add(*next_row_id, rows, &end)) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the table has used up its row ids");
        }
        base_buffer_init(&buffer, 256);
        status = append_range(&buffer, *next_row_id, end, err);
        if (status == LAKE_OK) {
            status = wrap(&buffer, 0, 1, err);
        }
        if (status == LAKE_OK) {
            status = keep_bytes(arena, &buffer, &fragment->has_inline_row_ids,
                                &fragment->inline_row_ids, err);
        }
        base_buffer_fini(&buffer);
        *next_row_id = end;
    }
    if (status == LAKE_OK) {
        status = give_version(arena, rows, version, &fragment->has_inline_created_at_versions,
                              &fragment->inline_created_at_versions, err);
    }
    if (status == LAKE_OK) {
        status = give_version(arena, rows, version, &fragment->has_inline_last_updated_at_versions,
                              &fragment->inline_last_updated_at_versions, err);
    }
    return status;
}

lake_status lance_manifest_row_ids(const struct lance_manifest *manifest, size_t fragment_index,
                                   struct lance_row_ids *out, struct lake_error *err)
{
    const ProtobufCBinaryData *bytes = &manifest->pb->fragments[fragment_index]->inline_row_ids;
    _Atomic bool *checked =
        manifest->row_ids_checked == NULL ? NULL : &manifest->row_ids_checked[fragment_index];
    struct lance_row_ids ids = {.bytes = {bytes->data, bytes->len},
                                .checked = checked != NULL &&
                                           atomic_load_explicit(checked, memory_order_relaxed)};
    lake_status status = ids.checked ? LAKE_OK : lance_row_ids_check(&ids, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (checked != NULL) {
        atomic_store_explicit(checked, true, memory_order_relaxed);
    }
    *out = ids;
    return LAKE_OK;
}

static lake_status decode_versions(bool given, ProtobufCBinaryData bytes, uint64_t rows,
                                   uint64_t *out, struct lake_error *err)
{
    if (!given) { /* as readers take it */
        for (uint64_t i = 0; i < rows; i++) {
            out[i] = 1;
        }
        return LAKE_OK;
    }
    return lance_row_versions_decode((struct lake_bytes){bytes.data, bytes.len}, rows, out, err);
}

lake_status lance_row_ids_of(const LancePb__DataFragment *fragment, uint64_t row_count,
                             const struct lance_row_identity *out, struct lake_error *err)
{
    if (!fragment->has_inline_row_ids) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "fragment %" PRIu64 " does not hold its row ids in the manifest",
                         fragment->id);
    }
    lake_status status = lance_row_ids_decode(
        (struct lake_bytes){fragment->inline_row_ids.data, fragment->inline_row_ids.len}, row_count,
        out->ids, err);
    if (status == LAKE_OK && out->created != NULL) {
        status =
            decode_versions(fragment->has_inline_created_at_versions,
                            fragment->inline_created_at_versions, row_count, out->created, err);
    }
    if (status == LAKE_OK && out->updated != NULL) {
        status = decode_versions(fragment->has_inline_last_updated_at_versions,
                                 fragment->inline_last_updated_at_versions, row_count, out->updated,
                                 err);
    }
    return status;
}
