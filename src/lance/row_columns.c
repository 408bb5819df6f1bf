/*
 * What every row has beside its columns: its address, its id and the versions that made and last
 * changed it. A table without stable ids has addresses for ids, and knows of no version but the
 * first, as the reference shows it.
 */
#include "array_build.h"
#include "row_sequence.h"
#include "scan.h"

#include <inttypes.h>
#include <string.h>

#define FLAG_SPILLED_LINEAGE (UINT64_C(1) << 11)

static const char *const names[LANCE_ROW_COLUMNS] = {
    "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"};

size_t lance_row_column_count(uint32_t wanted)
{
    return (size_t)__builtin_popcount(wanted & LANCE_ROW_ALL);
}

lake_status lance_row_column_types(uint32_t wanted, struct ArrowSchema **children,
                                   struct lake_error *err)
{
    for (size_t i = 0; i < LANCE_ROW_COLUMNS; i++) {
        if ((wanted >> i & 1) == 0) {
            continue;
        }
        struct ArrowSchema *child = *children++;
        if (ArrowSchemaSetType(child, NANOARROW_TYPE_UINT64) != NANOARROW_OK ||
            ArrowSchemaSetName(child, names[i]) != NANOARROW_OK) {
            return base_fail_no_memory(err, sizeof(*child));
        }
    }
    return LAKE_OK;
}

static lake_status spilled(const LancePb__DataFragment *fragment, const char *name,
                           struct lake_error *err)
{
    return lake_fail(err, LAKE_UNIMPLEMENTED,
                     "%s of fragment %" PRIu64 " is not kept in the manifest, where alone it is "
                     "read from",
                     name, fragment->id);
}

/* Numbers of rows [start, start + count) of a fragment. */
static lake_status read_numbers(const struct lance_manifest *manifest, size_t index, size_t column,
                                uint64_t start, uint64_t count, uint64_t *out,
                                struct lake_error *err)
{
    const LancePb__Manifest *pb = manifest->pb;
    const LancePb__DataFragment *fragment = pb->fragments[index];
    bool stable = (pb->reader_feature_flags & LANCE_FLAG_STABLE_ROW_IDS) != 0;
    bool may_be_spilled = (pb->reader_feature_flags & FLAG_SPILLED_LINEAGE) != 0;
    uint32_t kind = (uint32_t)1 << column;
    const protobuf_c_boolean *has = NULL;
    const ProtobufCBinaryData *bytes = NULL;
    if (kind == LANCE_ROW_ID && stable) {
        has = &fragment->has_inline_row_ids;
        bytes = &fragment->inline_row_ids;
    } else if (kind == LANCE_ROW_CREATED_AT) {
        has = &fragment->has_inline_created_at_versions;
        bytes = &fragment->inline_created_at_versions;
    } else if (kind == LANCE_ROW_UPDATED_AT) {
        has = &fragment->has_inline_last_updated_at_versions;
        bytes = &fragment->inline_last_updated_at_versions;
    }
    if (bytes == NULL) {
        for (uint64_t i = 0; i < count; i++) {
            out[i] = fragment->id << 32 | (start + i);
        }
        return LAKE_OK;
    }
    if (!*has && (may_be_spilled || kind == LANCE_ROW_ID)) {
        return spilled(fragment, names[column], err);
    }
    if (!*has) {
        for (uint64_t i = 0; i < count; i++) {
            out[i] = 1;
        }
        return LAKE_OK;
    }
    if (kind != LANCE_ROW_ID) {
        struct lake_bytes sequence = {bytes->data, bytes->len};
        return lance_row_versions_read(sequence, start, count, out, err);
    }
    struct lance_row_ids ids;
    lake_status status = lance_manifest_row_ids(manifest, index, &ids, err);
    return status == LAKE_OK ? lance_row_ids_read(ids, start, count, out, err) : status;
}

/* `span` numbers, of which those of `runs` stay. */
static void keep_runs(uint64_t *numbers, const struct lance_run *runs, size_t run_count)
{
    uint64_t at = 0;
    for (size_t i = 0; i < run_count; i++) {
        memmove(numbers + at, numbers + (runs[i].start - runs[0].start),
                (size_t)runs[i].count * sizeof(*numbers));
        at += runs[i].count;
    }
}

static lake_status read_column(const struct lance_task *task, size_t column,
                               const struct lance_run *runs, size_t run_count, uint64_t row_count,
                               struct ArrowArray *out, struct lake_error *err)
{
    const struct lance_manifest *manifest = task->scan->dataset->manifest;
    const struct lance_run *last = &runs[run_count - 1];
    uint64_t span = last->start + last->count - runs[0].start;
    struct base_buffer numbers;
    base_buffer_init(&numbers, SIZE_MAX);
    lake_status status = base_buffer_reserve(&numbers, (size_t)span * sizeof(uint64_t), err);
    if (status == LAKE_OK) {
        uint64_t *values = (uint64_t *)(void *)numbers.data;
        status = read_numbers(manifest, task->fragment, column, task->cursor + runs[0].start, span,
                              values, err);
        if (status == LAKE_OK) {
            keep_runs(values, runs, run_count);
            numbers.size = (size_t)row_count * sizeof(uint64_t);
            status = lance_array_new(row_count, 2, 0, false, out, err);
        }
    }
    if (status == LAKE_OK) {
        lance_array_set_buffer(out, 1, &numbers);
    }
    base_buffer_fini(&numbers);
    return status;
}

lake_status lance_row_columns_read(struct lance_task *task, const struct lance_run *runs,
                                   size_t run_count, uint64_t row_count, struct lake_error *err)
{
    size_t output = 0;
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < LANCE_ROW_COLUMNS; i++) {
        if ((task->scan->row_columns >> i & 1) != 0) {
            status =
                read_column(task, i, runs, run_count, row_count, &task->row_arrays[output], err);
            output++;
        }
    }
    return status;
}
