/*
 * An append (DESIGN 8): data files -> transaction -> reference delta -> manifest, the commit point
 * -> operation record. The first three are lance's, with the delta written in its hook.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PRUNE_EVERY_US (60 * 1000000LL)

/* ---- checks before anything is held ---- */

/* The columns, not the schema's own metadata: clients put their own things there. */
static lake_status check_columns(const struct meta_registration *registration,
                                 const struct ArrowSchema *given, struct lake_error *err)
{
    const struct meta_name *name = &registration->name;
    struct ArrowSchema registered = {.release = NULL};
    ProtobufCBinaryData ipc = registration->record->schema_ipc;
    lake_status status =
        arrow_ipc_schema_from_bytes((struct lake_bytes){ipc.data, ipc.len}, &registered, err);
    if (status != LAKE_OK)
        return lake_fail_wrap(err, LAKE_DATA_LOSS, "the registered schema of %s.%s does not parse",
                              name->namespace_name, name->table);
    if (given->n_children != registered.n_children)
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT,
                      "table %s.%s has %lld columns; the rows have %lld", name->namespace_name,
                      name->table, (long long)registered.n_children, (long long)given->n_children);
    for (int64_t i = 0; i < registered.n_children && status == LAKE_OK; i++) {
        char path[256] = "";
        if (!arrow_schema_equal(registered.children[i], given->children[i], path, sizeof(path))) {
            struct base_buffer want;
            struct base_buffer have;
            base_buffer_init(&want, 4096);
            base_buffer_init(&have, 4096);
            (void)arrow_type_format(registered.children[i], &want, NULL);
            (void)arrow_type_format(given->children[i], &have, NULL);
            const char *given_name = given->children[i]->name;
            struct lake_str want_text = {(const char *)want.data, want.size};
            struct lake_str have_text = {(const char *)have.data, have.size};
            status = lake_fail(
                err, LAKE_INVALID_ARGUMENT,
                "column %lld of table %s.%s differs at \"%s\": the table has \"%s\" %.*s, the "
                "rows have \"%s\" %.*s; names, types, nullability and field metadata must be equal",
                (long long)i, name->namespace_name, name->table, path, registered.children[i]->name,
                LAKE_STR_FMT(want_text), given_name == NULL ? "" : given_name,
                LAKE_STR_FMT(have_text));
            base_buffer_fini(&have);
            base_buffer_fini(&want);
        }
    }
    registered.release(&registered);
    return status;
}

/* Before rows are refused for their columns, the registered ones are brought up to date. */
static lake_status check_schema(struct meta_authority *authority,
                                struct meta_registration *registration,
                                const struct ArrowSchema *given, struct lake_error *err)
{
    bool changed = false;
    lake_status status = check_columns(registration, given, err);
    if (status == LAKE_INVALID_ARGUMENT &&
        meta_registration_follow(authority, registration, &changed, NULL) == LAKE_OK && changed)
        status = check_columns(registration, given, err);
    return status;
}

static lake_status check_rows(struct meta_authority *authority,
                              const struct meta_identity *identity,
                              const struct meta_append *append, struct meta_uri_set *uris,
                              struct lake_error *err)
{
    if (append->row_count == 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an append needs at least one row");
    if (append->row_count > META_APPEND_MAX_ROWS)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an append of %" PRIu64 " rows; at most %d are taken at once",
                         append->row_count, META_APPEND_MAX_ROWS);
    int64_t first_row = 0;
    for (size_t i = 0; i < append->batch_count; i++) {
        lake_status status = arrow_array_validate(append->schema, &append->batches[i], err);
        if (status == LAKE_OK)
            status = meta_file_values_check(authority, identity->tenant_id, append->schema,
                                            &append->batches[i], first_row, uris, err);
        if (status != LAKE_OK)
            return status;
        first_row += append->batches[i].length;
    }
    return LAKE_OK;
}

static lake_status check_incarnation(const struct meta_append *append,
                                     const struct meta_registration *registration,
                                     struct lake_error *err)
{
    if (append->expected_incarnation.size == 0)
        return LAKE_OK;
    struct base_uuid expected;
    char text[BASE_UUID_TEXT_BYTES];
    if (!base_uuid_parse(append->expected_incarnation, &expected))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the expected incarnation is not a UUID");
    base_uuid_format(&expected, text);
    if (strcmp(text, registration->incarnation) != 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "table %s.%s was dropped and created again: it is incarnation %s, not %s",
                         registration->name.namespace_name, registration->name.table,
                         registration->incarnation, text);
    return LAKE_OK;
}

/* ---- with the table's gate held ---- */

struct commit {
    struct meta_commit base;
    const struct meta_append *append;
    struct meta_uri_set *uris;
};

/* Any Lance writer may change a table's columns, also just now. The rows have the registered ones,
 * and are written by the dataset's: where these differ, values would be taken for those of another
 * type. */
static lake_status check_dataset_schema(const struct commit *commit,
                                        const struct lance_dataset *dataset, struct lake_error *err)
{
    const struct meta_name *name = &commit->base.registration->name;
    const struct ArrowSchema *have = lance_dataset_schema(dataset);
    const struct ArrowSchema *given = commit->append->schema;
    if (have->n_children != given->n_children)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "another program changed the columns of table %s.%s: version %" PRIu64
                         " has %lld, the rows have %lld; describe the table again",
                         name->namespace_name, name->table, lance_dataset_version(dataset),
                         (long long)have->n_children, (long long)given->n_children);
    for (int64_t i = 0; i < have->n_children; i++) {
        if (meta_same_layout(have->children[i], given->children[i]))
            continue;
        struct base_buffer type;
        base_buffer_init(&type, 4096);
        (void)arrow_type_format(have->children[i], &type, NULL);
        struct lake_str text = {(const char *)type.data, type.size};
        lake_status status = lake_fail(
            err, LAKE_FAILED_PRECONDITION,
            "another program changed the columns of table %s.%s: column %lld of version %" PRIu64
            " is \"%.100s\" %.*s, the rows have \"%.100s\"; describe the table again",
            name->namespace_name, name->table, (long long)i, lance_dataset_version(dataset),
            have->children[i]->name, LAKE_STR_FMT(text), given->children[i]->name);
        base_buffer_fini(&type);
        return status;
    }
    return LAKE_OK;
}

static lake_status publish(const struct commit *commit, struct lance_dataset *base,
                           uint64_t *version, struct lake_error *err)
{
    struct meta_commit_marks marks;
    meta_commit_mark(&commit->base, commit->append->row_count, &marks);
    struct meta_delta_writer delta = {.authority = commit->base.authority,
                                      .incarnation = commit->base.registration->incarnation,
                                      .operation_id = commit->base.operation_id,
                                      .added = commit->uris};
    struct lance_commit_options options;
    lance_commit_options_init(&options);
    options.properties = marks.properties;
    options.property_count = BASE_ARRAY_LEN(marks.properties);
    options.before_publish = meta_delta_before_publish;
    options.context = &delta;

    struct lance_append *writer = NULL;
    lake_status status = lance_append_new(commit->base.store, base, &writer, err);
    for (size_t i = 0; i < commit->append->batch_count && status == LAKE_OK; i++) {
        if (commit->append->batches[i].length > 0)
            status = lance_append_write(writer, &commit->append->batches[i], err);
    }
    if (status == LAKE_OK)
        status = lance_append_commit(writer, &options, version, err);
    /* While the outcome is unknown the version may be there, and it needs its sidecar (L21). */
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN)
        meta_delta_discard(&delta);
    lance_append_free(writer);
    return status;
}

static lake_status unrecorded(uint64_t version, const char *operation_id, struct lake_error *err)
{
    return lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                          "the rows are in version %" PRIu64
                          " but that could not be recorded; ask again with operation ID %s",
                          version, operation_id);
}

static lake_status commit_held(struct commit *commit, struct meta_append_result *out,
                               struct lake_error *err)
{
    struct lance_dataset *base = NULL;
    uint64_t version = 0;
    lake_status status = meta_commit_find(&commit->base, out, err);
    if (status != LAKE_NOT_FOUND)
        return status;
    status = meta_table_store(commit->base.authority, &commit->base.registration->name,
                              &commit->base.store, err);
    if (status == LAKE_OK)
        status = meta_commit_open_newest(&commit->base, &base, err);
    if (status != LAKE_OK)
        goto out;
    status = meta_commit_find(&commit->base, out, err);
    if (status != LAKE_NOT_FOUND)
        goto out;
    status = check_dataset_schema(commit, base, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.append.before_write", err);
    if (status == LAKE_OK)
        status = publish(commit, base, &version, err);
    if (status != LAKE_OK)
        goto out;

    status = BASE_FAULT("meta.append.before_record", err);
    if (status == LAKE_OK)
        status = meta_commit_record(&commit->base, version, commit->append->row_count, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.append.after_record", err);
    if (status != LAKE_OK) {
        status = unrecorded(version, commit->base.operation_id, err);
        goto out;
    }
    *out = (struct meta_append_result){.version = version, .row_count = commit->append->row_count};
    memcpy(out->incarnation, commit->base.registration->incarnation, sizeof(out->incarnation));
out:
    lance_dataset_unref(base);
    storage_store_unref(commit->base.store);
    return status;
}

/* ---- the whole ---- */

/* Every minute one append removes what has expired. */
static void prune_sometimes(struct meta_authority *authority)
{
    int64_t now_us = base_clock_monotonic_us();
    int64_t last_us = atomic_load(&authority->last_prune_us);
    if (now_us - last_us < PRUNE_EVERY_US ||
        !atomic_compare_exchange_strong(&authority->last_prune_us, &last_us, now_us))
        return;
    uint64_t pruned = 0;
    struct lake_error err = {.code = LAKE_OK};
    if (meta_operation_prune(authority, base_clock_unix_ms(), &pruned, &err) != LAKE_OK)
        base_log(BASE_LOG_WARN, "expired operations could not be removed", "reason", err.message,
                 NULL);
}

lake_status meta_append_commit(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const struct meta_append *append, struct meta_append_result *out,
                               struct lake_error *err)
{
    char operation_id[BASE_UUID_TEXT_BYTES];
    struct meta_registration before;
    struct meta_registration held;
    struct meta_uri_set uris = {NULL, 0, 0};
    struct meta_claim claim;
    lake_status status = meta_identity_require(identity, append->name.namespace_name, err);
    if (status != LAKE_OK)
        return status;
    status = meta_operation_check_id(append->operation_id, base_clock_unix_ms(),
                                     authority->append_retention_ms, operation_id, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.append.received", err);
    if (status != LAKE_OK)
        return status;
    meta_registration_init(&before);
    meta_registration_init(&held);
    status = meta_registration_get(authority, &append->name, &before, err);
    if (status == LAKE_OK)
        status = check_incarnation(append, &before, err);
    if (status == LAKE_OK)
        status = check_schema(authority, &before, append->schema, err);
    if (status == LAKE_OK)
        status = check_rows(authority, identity, append, &uris, err);
    if (status == LAKE_OK)
        status = meta_table_enter(authority, &append->name, wait, &claim, err);
    if (status != LAKE_OK)
        goto out;
    status = meta_registration_get(authority, &append->name, &held, err);
    if (status == LAKE_OK && strcmp(held.incarnation, before.incarnation) != 0)
        status = lake_fail(err, LAKE_ABORTED,
                           "table %s.%s was dropped and created again meanwhile; try again",
                           append->name.namespace_name, append->name.table);
    if (status == LAKE_OK) {
        struct commit commit = {.base = {.authority = authority,
                                         .registration = &held,
                                         .operation_id = operation_id,
                                         .content_sha256 = append->content_sha256},
                                .append = append,
                                .uris = &uris};
        status = commit_held(&commit, out, err);
    }
    meta_gate_leave(&authority->gates, &claim);
    if (status == LAKE_OK)
        prune_sometimes(authority);
out:
    meta_uri_set_fini(&uris);
    meta_registration_fini(&held);
    meta_registration_fini(&before);
    return status;
}
