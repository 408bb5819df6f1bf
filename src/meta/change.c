/*
 * Deletes and updates: rows that a Query server found in a version, changed on top of it.
 *
 * The work is done without the table's gate, so that appends go on; Lance's conflict rules decide
 * whether it goes on top of what was committed meanwhile. The gate is taken before, to see whether
 * the operation was committed already, and after, to record it. Two requests with one operation ID
 * cannot both succeed: they change the same rows.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <string.h>

#define REFERENCE_ROWS  8192 /* taken at once */
#define REFERENCE_BYTES ((size_t)256 << 20)

struct rows {
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    const uint64_t *addresses;
    size_t count;
    uint32_t *columns; /* of the dataset: what child 1, 2, … of the batch become */
};

static void rows_fini(struct rows *rows)
{
    if (rows->batch.release != NULL)
        ArrowArrayRelease(&rows->batch);
    if (rows->schema.release != NULL)
        ArrowSchemaRelease(&rows->schema);
    if (rows->stream.release != NULL)
        ArrowArrayStreamRelease(&rows->stream);
    base_free(rows->columns);
}

/* ---- the request ---- */

static lake_status read_batch(struct rows *rows, struct lake_error *err)
{
    struct ArrowArray more = {.release = NULL};
    if (rows->stream.get_schema(&rows->stream, &rows->schema) != 0 ||
        rows->stream.get_next(&rows->stream, &rows->batch) != 0 ||
        (rows->batch.release != NULL && rows->stream.get_next(&rows->stream, &more) != 0))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the rows cannot be read: %s",
                         rows->stream.get_last_error(&rows->stream));
    if (more.release != NULL) {
        ArrowArrayRelease(&more);
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the rows come in more than one batch");
    }
    if (rows->batch.release == NULL)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "there are no rows to change");
    return arrow_array_validate(&rows->schema, &rows->batch, err);
}

static lake_status find_columns(struct rows *rows, const struct ArrowSchema *table,
                                struct lake_error *err)
{
    size_t count = (size_t)rows->schema.n_children - 1;
    rows->columns = base_alloc_array(count + 1, sizeof(*rows->columns));
    if (rows->columns == NULL)
        return base_fail_no_memory(err, count * sizeof(*rows->columns));
    for (size_t i = 0; i < count; i++) {
        const struct ArrowSchema *given = rows->schema.children[i + 1];
        int64_t at = 0;
        while (at < table->n_children && !meta_same_layout(table->children[at], given))
            at++;
        if (at == table->n_children)
            return lake_fail(err, LAKE_FAILED_PRECONDITION,
                             "the table has no column \"%.100s\" of the type that the rows have; "
                             "its columns were changed just now",
                             given->name == NULL ? "" : given->name);
        rows->columns[i] = (uint32_t)at;
        for (size_t before = 0; before < i; before++) {
            if (rows->columns[before] == rows->columns[i])
                return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%.100s\" is set twice",
                                 given->name);
        }
    }
    return LAKE_OK;
}

static lake_status rows_read(struct lake_bytes ipc, const struct ArrowSchema *table,
                             struct rows *out, struct lake_error *err)
{
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    lake_status status = arrow_ipc_open_bytes(ipc, &limits, &out->stream, err);
    if (status == LAKE_OK)
        status = read_batch(out, err);
    if (status != LAKE_OK)
        return status;
    const struct ArrowArray *address = out->batch.n_children > 0 ? out->batch.children[0] : NULL;
    if (address == NULL || strcmp(out->schema.children[0]->format, "L") != 0 ||
        address->null_count != 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the first column of the rows must be their addresses, uint64");
    out->addresses = (const uint64_t *)address->buffers[1] + address->offset + out->batch.offset;
    out->count = (size_t)out->batch.length;
    return find_columns(out, table, err);
}

/* ---- references (NAT-12) ---- */

struct references {
    struct meta_uri_set added;
    struct meta_uri_set removed;
    struct base_arena *memory; /* of the URIs of removed */
};

static void references_fini(struct references *references)
{
    meta_uri_set_fini(&references->added);
    meta_uri_set_fini(&references->removed);
    base_arena_free(references->memory);
}

static lake_status note_removed(void *context, struct lake_str uri, struct lake_error *err)
{
    struct references *references = context;
    char *copy = base_arena_strndup(references->memory, uri.data, uri.size);
    if (copy == NULL)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the rows refer to more objects than one change may remove; change fewer "
                         "rows at once");
    return meta_uri_set_add(&references->removed, (struct lake_str){copy, uri.size}, err);
}

/* What the rows refer to in those of `columns`, top-level ones (NULL: in all), that hold FILE
 * values. */
static lake_status read_removed(struct lance_dataset *base, const struct rows *rows,
                                const uint32_t *columns, size_t column_count,
                                struct references *references, struct lake_error *err)
{
    const struct ArrowSchema *table = lance_dataset_schema(base);
    const struct arrow_file_rule rule = {
        .stage = {"", 0}, .tenant_id = "", .found = note_removed, .context = references};
    uint32_t *files = base_alloc_array(column_count + 1, sizeof(*files));
    struct ArrowSchema schema = {.release = NULL};
    size_t count = 0;
    if (files == NULL)
        return base_fail_no_memory(err, column_count * sizeof(*files));
    for (size_t i = 0; i < column_count; i++) {
        uint32_t column = columns == NULL ? (uint32_t)i : columns[i];
        if (arrow_file_schema_contains(table->children[column]))
            files[count++] = column;
    }
    lake_status status = LAKE_OK;
    ArrowSchemaInit(&schema);
    if (ArrowSchemaSetTypeStruct(&schema, (int64_t)count) != NANOARROW_OK)
        status = base_fail_no_memory(err, count * sizeof(schema));
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        ArrowSchemaRelease(schema.children[i]);
        if (ArrowSchemaDeepCopy(table->children[files[i]], schema.children[i]) != NANOARROW_OK)
            status = base_fail_no_memory(err, sizeof(schema));
    }
    for (size_t done = 0; count > 0 && done < rows->count && status == LAKE_OK;) {
        size_t most = BASE_MIN(rows->count - done, (size_t)REFERENCE_ROWS);
        struct ArrowArray batch = {.release = NULL};
        status = lance_take(base, LANCE_TAKE_ADDRESSES, rows->addresses + done, most, files, count,
                            &batch, err);
        if (status == LAKE_OK) {
            status = arrow_file_values_check(&schema, &batch, &rule, err);
            ArrowArrayRelease(&batch);
        }
        done += most;
    }
    ArrowSchemaRelease(&schema);
    base_free(files);
    return status;
}

static lake_status find_references(struct meta_authority *authority,
                                   const struct meta_identity *identity, struct lance_dataset *base,
                                   const struct rows *rows, struct references *out,
                                   struct lake_error *err)
{
    size_t set = (size_t)rows->schema.n_children - 1;
    size_t all = (size_t)lance_dataset_schema(base)->n_children;
    lake_status status = base_arena_new(REFERENCE_BYTES, &out->memory, err);
    if (status != LAKE_OK)
        return status;
    if (set > 0) {
        status = meta_file_values_check(authority, identity->tenant_id, &rows->schema, &rows->batch,
                                        0, &out->added, err);
        return status == LAKE_OK ? read_removed(base, rows, rows->columns, set, out, err) : status;
    }
    return read_removed(base, rows, NULL, all, out, err);
}

/* ---- the change ---- */

static void release_view(struct ArrowArray *view)
{
    view->release = NULL; /* what it shows is the request's */
}

/* Puts the values of the request in the place of those that the rows had. */
static lake_status set_values(void *context, size_t first, struct ArrowArray *batch,
                              struct lake_error *err)
{
    const struct rows *rows = context;
    (void)err;
    for (int64_t i = 1; i < rows->batch.n_children; i++) {
        struct ArrowArray *child = batch->children[rows->columns[i - 1]];
        ArrowArrayRelease(child);
        *child = *rows->batch.children[i];
        child->offset += rows->batch.offset + (int64_t)first;
        child->length = batch->length;
        child->null_count = -1;
        child->release = release_view;
    }
    return LAKE_OK;
}

static lake_status publish(const struct meta_commit *commit, struct lance_dataset *base,
                           struct rows *rows, struct references *references,
                           struct lance_change *out, struct lake_error *err)
{
    struct meta_commit_marks marks;
    struct meta_delta_writer delta = {.authority = commit->authority,
                                      .incarnation = commit->registration->incarnation,
                                      .operation_id = commit->operation_id,
                                      .added = &references->added,
                                      .removed = &references->removed};
    struct lance_commit_options options;
    meta_commit_mark(commit, rows->count, &marks);
    lance_commit_options_init(&options);
    options.properties = marks.properties;
    options.property_count = BASE_ARRAY_LEN(marks.properties);
    options.before_publish = meta_delta_before_publish;
    options.context = &delta;
    lake_status status = BASE_FAULT("meta.change.before_write", err);
    if (status == LAKE_OK && rows->batch.n_children == 1)
        status = lance_delete_addresses(base, rows->addresses, rows->count, &options, out, err);
    else if (status == LAKE_OK)
        status = lance_update_addresses(base, rows->addresses, rows->count, set_values, rows,
                                        &options, out, err);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN)
        meta_delta_discard(&delta);
    return status;
}

/* ---- with the gate, before and after ---- */

static lake_status dropped_meanwhile(const struct meta_name *name, struct lake_error *err)
{
    return lake_fail(err, LAKE_ABORTED, "table %s.%s was dropped and created again meanwhile",
                     name->namespace_name, name->table);
}

static lake_status check_still_there(const struct meta_commit *commit, struct lake_error *err)
{
    struct meta_registration now;
    meta_registration_init(&now);
    const struct meta_name *name = &commit->registration->name;
    lake_status status = meta_registration_get(commit->authority, name, &now, err);
    if (status == LAKE_OK && strcmp(now.incarnation, commit->registration->incarnation) != 0)
        status = dropped_meanwhile(name, err);
    meta_registration_fini(&now);
    return status;
}

/* The gate is held. On success *newest is the caller's, and *done whether the operation was
 * committed before: then `out` says how. */
static lake_status look_held(const struct meta_commit *commit, struct lance_dataset **newest,
                             bool *done, struct meta_append_result *out, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    lake_status status = check_still_there(commit, err);
    if (status == LAKE_OK)
        status = meta_commit_open_newest(commit, &dataset, err);
    if (status != LAKE_OK)
        return status;
    status = meta_commit_find(commit, out, err);
    if (status != LAKE_OK && status != LAKE_NOT_FOUND) {
        lance_dataset_unref(dataset);
        return status;
    }
    *done = status == LAKE_OK;
    *newest = dataset;
    return LAKE_OK;
}

static lake_status look(const struct meta_commit *commit, const struct meta_wait *wait,
                        struct lance_dataset **newest, bool *done, struct meta_append_result *out,
                        struct lake_error *err)
{
    struct meta_claim claim;
    lake_status status =
        meta_table_enter(commit->authority, &commit->registration->name, wait, &claim, err);
    if (status != LAKE_OK)
        return status;
    status = look_held(commit, newest, done, out, err);
    meta_gate_leave(&commit->authority->gates, &claim);
    return status;
}

/* The version is there, whatever happens here. */
static lake_status record(const struct meta_commit *commit, uint64_t version,
                          struct lake_error *err)
{
    const struct meta_wait wait = {.timeout_ms = INT64_MAX};
    struct meta_claim claim;
    struct lance_dataset *newest = NULL;
    lake_status status = BASE_FAULT("meta.change.before_record", err);
    if (status == LAKE_OK)
        status =
            meta_table_enter(commit->authority, &commit->registration->name, &wait, &claim, err);
    if (status == LAKE_OK) {
        status = meta_commit_open_newest(commit, &newest, err);
        lance_dataset_unref(newest);
        meta_gate_leave(&commit->authority->gates, &claim);
    }
    if (status != LAKE_OK)
        return lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                              "the change is version %" PRIu64
                              " but that could not be recorded; ask again with operation ID %s",
                              version, commit->operation_id);
    return LAKE_OK;
}

/* No row passed: that, too, has happened once, and is not tried on rows which come later. */
static lake_status record_nothing(const struct meta_commit *commit, const struct meta_wait *wait,
                                  struct meta_append_result *out, struct lake_error *err)
{
    struct meta_claim claim;
    struct lance_dataset *newest = NULL;
    bool done = false;
    lake_status status =
        meta_table_enter(commit->authority, &commit->registration->name, wait, &claim, err);
    if (status != LAKE_OK)
        return status;
    status = look_held(commit, &newest, &done, out, err);
    if (status == LAKE_OK && !done) {
        *out = (struct meta_append_result){.version = lance_dataset_version(newest)};
        memcpy(out->incarnation, commit->registration->incarnation, sizeof(out->incarnation));
        status = meta_commit_record(commit, out->version, 0, err);
    }
    meta_gate_leave(&commit->authority->gates, &claim);
    lance_dataset_unref(newest);
    return status;
}

static lake_status open_base(const struct meta_commit *commit, struct lance_dataset *newest,
                             uint64_t version, struct lance_dataset **out, struct lake_error *err)
{
    if (version == lance_dataset_version(newest)) {
        *out = lance_dataset_ref(newest);
        return LAKE_OK;
    }
    if (version == 0 || version > lance_dataset_version(newest))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the table has no version %" PRIu64 " yet",
                         version);
    lake_status status = lance_dataset_open(commit->store, commit->authority->cache,
                                            commit->registration->incarnation, version, out, err);
    if (status == LAKE_NOT_FOUND)
        status = lake_fail_wrap(err, LAKE_ABORTED,
                                "version %" PRIu64 " was cleaned up; find the rows anew", version);
    return status;
}

static lake_status change(const struct meta_commit *commit, const struct meta_identity *identity,
                          const struct meta_wait *wait, const LakePb__ChangeRowsRequest *request,
                          struct meta_append_result *out, struct lake_error *err)
{
    struct lance_dataset *newest = NULL;
    struct lance_dataset *base = NULL;
    struct rows rows = {.count = 0};
    struct references references = {.memory = NULL};
    struct lance_change changed = {0};
    bool done = false;
    if (request->rows_ipc.len == 0)
        return record_nothing(commit, wait, out, err);
    lake_status status = look(commit, wait, &newest, &done, out, err);
    if (status != LAKE_OK || done)
        goto out;
    status = open_base(commit, newest, request->base_version, &base, err);
    if (status == LAKE_OK)
        status = rows_read((struct lake_bytes){request->rows_ipc.data, request->rows_ipc.len},
                           lance_dataset_schema(base), &rows, err);
    if (status == LAKE_OK)
        status = find_references(commit->authority, identity, base, &rows, &references, err);
    if (status == LAKE_OK)
        status = publish(commit, base, &rows, &references, &changed, err);
    if (status == LAKE_OK)
        status = record(commit, changed.version, err);
    if (status == LAKE_OK) {
        *out =
            (struct meta_append_result){.version = changed.version, .row_count = changed.row_count};
        memcpy(out->incarnation, commit->registration->incarnation, sizeof(out->incarnation));
    }
out:
    references_fini(&references);
    rows_fini(&rows);
    lance_dataset_unref(base);
    lance_dataset_unref(newest);
    return status;
}

lake_status meta_rows_change(struct meta_authority *authority, const struct meta_identity *identity,
                             const struct meta_wait *wait, const LakePb__ChangeRowsRequest *request,
                             struct meta_append_result *out, struct lake_error *err)
{
    struct meta_name name;
    struct meta_table table;
    char operation_id[BASE_UUID_TEXT_BYTES];
    lake_status status = meta_identity_name(identity, request->name, &name, err);
    if (status == LAKE_OK)
        status =
            meta_operation_check_id(meta_str_of_pb(request->operation_id), base_clock_unix_ms(),
                                    authority->append_retention_ms, operation_id, err);
    if (status == LAKE_OK && request->content_sha256.len != BASE_SHA256_BYTES)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the digest of the change has %zu bytes",
                           request->content_sha256.len);
    if (status == LAKE_OK)
        status = meta_table_open(authority, &name, &table, err);
    if (status != LAKE_OK)
        return status;
    if (!base_str_equal_c(meta_str_of_pb(request->incarnation), table.registration.incarnation)) {
        status = dropped_meanwhile(&name, err);
    } else {
        const struct meta_commit commit = {.authority = authority,
                                           .registration = &table.registration,
                                           .operation_id = operation_id,
                                           .content_sha256 = request->content_sha256.data,
                                           .store = table.store};
        status = change(&commit, identity, wait, request, out, err);
    }
    meta_table_close(&table);
    return status;
}
