/*
 * Restore: an older version's content as the newest, under an operation ID like every change.
 *
 * Its delta says what the table refers to again and what it no longer does (NAT-12), so the
 * version that is replaced must be the one just below: a delete, an update or a compaction, which
 * publish without the table's gate, may come between, and then all is read anew.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RESTORE_MAX_ATTEMPTS 5
#define REFERENCE_BYTES      ((size_t)256 << 20) /* of the URIs of both versions */

/* ---- references (NAT-12) ---- */

struct found {
    struct meta_uri_set *set;
    struct base_arena *memory;
};

static lake_status note_uri(void *context, struct lake_str uri, struct lake_error *err)
{
    struct found *found = context;
    char *copy = base_arena_strndup(found->memory, uri.data, uri.size);
    if (copy == NULL)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the two versions refer to more objects than one restore can compare");
    return meta_uri_set_add(found->set, (struct lake_str){copy, uri.size}, err);
}

static lake_status read_stream(struct ArrowArrayStream *stream, const struct arrow_file_rule *rule,
                               const struct meta_wait *wait, struct lake_error *err)
{
    struct ArrowSchema schema = {.release = NULL};
    lake_status status = LAKE_OK;
    bool end = stream->get_schema(stream, &schema) != 0;
    bool failed = end;
    while (!end && status == LAKE_OK) {
        struct ArrowArray batch = {.release = NULL};
        failed = stream->get_next(stream, &batch) != 0;
        end = failed || batch.release == NULL;
        if (!end) {
            status = arrow_file_values_check(&schema, &batch, rule, err);
            ArrowArrayRelease(&batch);
        }
        if (status == LAKE_OK && wait->cancelled != NULL && wait->cancelled(wait->context))
            status = lake_fail(err, LAKE_CANCELLED, "the caller went away");
    }
    if (failed) {
        status = lance_scan_stream_status(stream);
        status = lake_fail(err, status == LAKE_OK ? LAKE_INTERNAL : status,
                           "the references of a version cannot be read: %s",
                           stream->get_last_error(stream));
    }
    if (schema.release != NULL)
        ArrowSchemaRelease(&schema);
    return status;
}

/* Every occurrence of a URI in the FILE columns of a version. */
static lake_status read_references(struct lance_dataset *dataset, struct found *found,
                                   const struct meta_wait *wait, struct lake_error *err)
{
    const struct ArrowSchema *table = lance_dataset_schema(dataset);
    const struct arrow_file_rule rule = {
        .stage = {"", 0}, .tenant_id = "", .found = note_uri, .context = found};
    struct ArrowArrayStream stream = {.release = NULL};
    struct lance_scan_options options;
    size_t count = 0;
    uint32_t *columns = base_alloc_array((size_t)table->n_children + 1, sizeof(*columns));
    if (columns == NULL)
        return base_fail_no_memory(err, (size_t)table->n_children * sizeof(*columns));
    for (int64_t i = 0; i < table->n_children; i++) {
        if (arrow_file_schema_contains(table->children[i]))
            columns[count++] = (uint32_t)i;
    }
    lance_scan_options_init(&options);
    options.columns = columns;
    options.column_count = count;
    lake_status status = count == 0 ? LAKE_OK : lance_scan_stream(dataset, &options, &stream, err);
    if (status == LAKE_OK && count > 0) {
        status = read_stream(&stream, &rule, wait, err);
        ArrowArrayStreamRelease(&stream);
    }
    base_free(columns);
    return status;
}

/* ---- the version ---- */

struct restore {
    const struct meta_commit *commit;
    const struct meta_wait *wait;
    uint64_t version; /* that comes back */
};

struct publication {
    struct meta_delta_writer delta;
    uint64_t replaced;
};

static lake_status before_publish(void *context, uint64_t version, struct lake_error *err)
{
    struct publication *publication = context;
    if (version != publication->replaced + 1)
        return lake_fail(err, LAKE_ABORTED,
                         "others changed the table while it was being restored; try again");
    return meta_delta_before_publish(&publication->delta, version, err);
}

static lake_status publish(const struct restore *restore, struct lance_dataset *base,
                           struct lance_dataset *old, uint64_t *version, struct lake_error *err)
{
    const struct meta_commit *commit = restore->commit;
    struct meta_uri_set added = {NULL, 0, 0};
    struct meta_uri_set removed = {NULL, 0, 0};
    struct meta_commit_marks marks;
    struct lance_commit_options options;
    struct base_arena *memory = NULL;
    struct publication publication = {.delta = {.authority = commit->authority,
                                                .incarnation = commit->registration->incarnation,
                                                .operation_id = commit->operation_id,
                                                .added = &added,
                                                .removed = &removed},
                                      .replaced = lance_dataset_version(base)};
    struct found to_old = {&added, NULL};
    struct found to_base = {&removed, NULL};
    lake_status status = base_arena_new(REFERENCE_BYTES, &memory, err);
    to_old.memory = to_base.memory = memory;
    if (status == LAKE_OK)
        status = read_references(old, &to_old, restore->wait, err);
    if (status == LAKE_OK)
        status = read_references(base, &to_base, restore->wait, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.restore.before_write", err);
    if (status == LAKE_OK) {
        meta_uri_sets_cancel(&added, &removed);
        meta_commit_mark(commit, lance_dataset_row_count(old), &marks);
        lance_commit_options_init(&options);
        options.properties = marks.properties;
        options.property_count = BASE_ARRAY_LEN(marks.properties);
        options.before_publish = before_publish;
        options.context = &publication;
        status = lance_restore(base, restore->version, &options, version, err);
        if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN)
            meta_delta_discard(&publication.delta);
    }
    meta_uri_set_fini(&removed);
    meta_uri_set_fini(&added);
    base_arena_free(memory);
    return status;
}

static lake_status open_old(const struct meta_commit *commit, const struct lance_dataset *newest,
                            uint64_t version, struct lance_dataset **out, struct lake_error *err)
{
    const struct meta_registration *registration = commit->registration;
    lake_status status = LAKE_NOT_FOUND;
    if (version > 0 && version <= lance_dataset_version(newest))
        status = lance_dataset_open(commit->store, commit->authority->cache,
                                    registration->incarnation, version, out, err);
    if (status == LAKE_NOT_FOUND)
        return lake_fail(err, LAKE_NOT_FOUND, "table %s.%s has no version %" PRIu64,
                         registration->name.namespace_name, registration->name.table, version);
    if (status != LAKE_OK)
        return status;
    const char *said = lance_dataset_config(*out, META_CONFIG_INCARNATION);
    if (said != NULL && strcmp(said, registration->incarnation) == 0)
        return LAKE_OK;
    lance_dataset_unref(*out);
    *out = NULL;
    return lake_fail(err, LAKE_FAILED_PRECONDITION,
                     "version %" PRIu64 " is not of this table: it does not say its incarnation",
                     version);
}

/* One attempt, from what is the newest version now. */
static lake_status restore_newest(const struct restore *restore, struct meta_append_result *out,
                                  struct lake_error *err)
{
    const struct meta_commit *commit = restore->commit;
    struct lance_dataset *base = NULL;
    struct lance_dataset *old = NULL;
    uint64_t version = 0;
    lake_status status = meta_commit_open_newest(commit, &base, err);
    if (status != LAKE_OK)
        return status;
    status = meta_commit_find(commit, out, err);
    if (status != LAKE_NOT_FOUND)
        goto out;
    status = open_old(commit, base, restore->version, &old, err);
    if (status == LAKE_OK)
        status = publish(restore, base, old, &version, err);
    if (status != LAKE_OK)
        goto out;
    status = BASE_FAULT("meta.restore.before_record", err);
    if (status == LAKE_OK)
        status = meta_commit_record(commit, version, lance_dataset_row_count(old), err);
    if (status != LAKE_OK) {
        status = lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                                "the table is restored as version %" PRIu64
                                " but that could not be recorded; ask again with operation ID %s",
                                version, commit->operation_id);
        goto out;
    }
    *out =
        (struct meta_append_result){.version = version, .row_count = lance_dataset_row_count(old)};
    memcpy(out->incarnation, commit->registration->incarnation, sizeof(out->incarnation));
out:
    lance_dataset_unref(old);
    lance_dataset_unref(base);
    return status;
}

/* The table's gate is held. */
static lake_status restore_held(struct meta_authority *authority, const struct meta_name *name,
                                const char *operation_id, uint64_t version,
                                const struct meta_wait *wait, struct meta_append_result *out,
                                struct lake_error *err)
{
    char content[48];
    uint8_t digest[BASE_SHA256_BYTES];
    struct meta_table table;
    bool changed = false;
    (void)snprintf(content, sizeof(content), "restore %" PRIu64, version);
    lake_status status = base_sha256_once(base_bytes_of_str(base_str_of(content)), digest, err);
    if (status == LAKE_OK)
        status = meta_table_open(authority, name, &table, err);
    if (status != LAKE_OK)
        return status;
    const struct meta_commit commit = {.authority = authority,
                                       .registration = &table.registration,
                                       .operation_id = operation_id,
                                       .content_sha256 = digest,
                                       .store = table.store};
    const struct restore restore = {&commit, wait, version};
    status = LAKE_ABORTED;
    for (int i = 0; i < RESTORE_MAX_ATTEMPTS && status == LAKE_ABORTED; i++)
        status = restore_newest(&restore, out, err);
    if (status == LAKE_OK) { /* failing, it is done when somebody asks for the schema */
        (void)meta_registration_follow(authority, &table.registration, &changed, NULL);
        lake_error_clear(err); /* of the attempts before */
    }
    meta_table_close(&table);
    return status;
}

lake_status meta_table_restore(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const LakePb__RestoreTableRequest *request,
                               struct meta_append_result *out, struct lake_error *err)
{
    struct meta_name name;
    struct meta_claim history;
    struct meta_claim claim;
    char operation_id[BASE_UUID_TEXT_BYTES];
    lake_status status = meta_identity_name(identity, request->name, &name, err);
    if (status == LAKE_OK)
        status =
            meta_operation_check_id(meta_str_of_pb(request->operation_id), base_clock_unix_ms(),
                                    authority->append_retention_ms, operation_id, err);
    if (status == LAKE_OK)
        status = meta_history_enter(authority, &name, wait, &history, err);
    if (status != LAKE_OK)
        return status;
    status = meta_table_enter(authority, &name, wait, &claim, err);
    if (status == LAKE_OK) {
        status = restore_held(authority, &name, operation_id, request->version, wait, out, err);
        meta_gate_leave(&authority->gates, &claim);
    }
    meta_gate_leave(&authority->gates, &history);
    return status;
}
