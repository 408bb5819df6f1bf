/*
 * What every operation on a table's rows shares: an ID that makes it happen once (NAT-6).
 *
 * ID and content digest stand in the version's transaction, so that a process which dies between
 * publishing a version and recording its operation leaves enough to restore the record: every
 * operation whose ID has no record first looks at the versions above the last recorded one.
 * Normally there are none, and the look is the probe for the newest version that it makes anyway.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The operation that made a version, as its transaction tells; NOT_FOUND for other versions. */
static lake_status read_operation(const struct lance_dataset *dataset, const char *incarnation,
                                  char operation_id[BASE_UUID_TEXT_BYTES],
                                  struct meta_operation *out, struct lake_error *err)
{
    struct base_buffer value;
    struct base_uuid id;
    base_buffer_init(&value, 256);
    lake_status status =
        lance_dataset_transaction_property(dataset, META_PROPERTY_OPERATION, &value, err);
    if (status != LAKE_OK)
        goto out;
    struct lake_str text = {(const char *)value.data, value.size};
    if (!base_uuid_parse(text, &id)) {
        status = lake_fail(err, LAKE_NOT_FOUND, "the operation ID in a transaction is not a UUID");
        goto out;
    }
    base_uuid_format(&id, operation_id);
    status = lance_dataset_transaction_property(dataset, META_PROPERTY_CONTENT, &value, err);
    if (status != LAKE_OK)
        goto out;
    text = (struct lake_str){(const char *)value.data, value.size};
    if (!base_sha256_hex_valid(text) || !base_hex_decode(text, out->content_sha256)) {
        status = lake_fail(err, LAKE_NOT_FOUND, "the digest in a transaction is not a SHA-256");
        goto out;
    }
    out->row_count = 0;
    if (lance_dataset_transaction_property(dataset, META_PROPERTY_ROWS, &value, NULL) == LAKE_OK)
        (void)base_str_to_u64((struct lake_str){(const char *)value.data, value.size},
                              &out->row_count);
    out->version = lance_dataset_version(dataset);
    memcpy(out->incarnation, incarnation, BASE_UUID_TEXT_BYTES);
    out->recorded_unix_ms = base_clock_unix_ms();
out:
    base_buffer_fini(&value);
    return status;
}

/* Records the operations of versions (recorded, latest], which a crash left unrecorded or which
 * another writer of Lance made (they have no operation). */
static lake_status restore_records(const struct meta_commit *commit, uint64_t recorded,
                                   uint64_t latest, struct lake_error *err)
{
    for (uint64_t version = recorded + 1; version <= latest; version++) {
        struct lance_dataset *dataset = NULL;
        struct meta_operation operation;
        char operation_id[BASE_UUID_TEXT_BYTES];
        lake_status status = lance_dataset_open(commit->store, NULL, NULL, version, &dataset, err);
        if (status == LAKE_NOT_FOUND)
            continue; /* cleaned up by another writer: its rows are in the versions above */
        if (status != LAKE_OK)
            return status;
        status = read_operation(dataset, commit->registration->incarnation, operation_id,
                                &operation, err);
        lance_dataset_unref(dataset);
        if (status == LAKE_NOT_FOUND)
            continue;
        if (status == LAKE_OK)
            status = meta_operation_record(commit->authority, &commit->registration->name,
                                           operation_id, &operation, err);
        if (status != LAKE_OK)
            return status;
        base_log(BASE_LOG_INFO, "restored the record of an operation from its version",
                 "operation_id", operation_id, NULL);
    }
    return LAKE_OK;
}

lake_status meta_commit_find(const struct meta_commit *commit, struct meta_append_result *out,
                             struct lake_error *err)
{
    struct meta_operation operation;
    lake_status status = meta_operation_get(commit->authority, &commit->registration->name,
                                            commit->operation_id, &operation, err);
    if (status != LAKE_OK)
        return status;
    if (memcmp(operation.content_sha256, commit->content_sha256, BASE_SHA256_BYTES) != 0)
        return lake_fail(err, LAKE_ALREADY_EXISTS,
                         "operation ID %s was committed as version %" PRIu64
                         " with different content; use a new ID for other rows",
                         commit->operation_id, operation.version);
    if (strcmp(operation.incarnation, commit->registration->incarnation) != 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "operation ID %s was committed to incarnation %s of the table, which has "
                         "been dropped since; use a new ID for the present one",
                         commit->operation_id, operation.incarnation);
    *out = (struct meta_append_result){
        .version = operation.version, .row_count = operation.row_count, .replayed = true};
    memcpy(out->incarnation, operation.incarnation, sizeof(out->incarnation));
    return LAKE_OK;
}

lake_status meta_commit_open_newest(const struct meta_commit *commit, struct lance_dataset **out,
                                    struct lake_error *err)
{
    const struct meta_registration *registration = commit->registration;
    uint64_t recorded = 0;
    struct lance_dataset *dataset = NULL;
    lake_status status = meta_dataset_newest(commit->authority, registration, commit->store,
                                             &recorded, &dataset, err);
    if (status != LAKE_OK)
        return status;
    uint64_t latest = lance_dataset_version(dataset);
    if (latest > recorded)
        status = restore_records(commit, recorded, latest, err);
    if (status != LAKE_OK) {
        lance_dataset_unref(dataset);
        return status;
    }
    meta_compactor_offer(commit->authority->compactor, &registration->name, dataset);
    *out = dataset;
    return LAKE_OK;
}

void meta_commit_mark(const struct meta_commit *commit, uint64_t row_count,
                      struct meta_commit_marks *out)
{
    base_hex_encode((struct lake_bytes){commit->content_sha256, BASE_SHA256_BYTES}, out->digest);
    (void)snprintf(out->rows, sizeof(out->rows), "%" PRIu64, row_count);
    out->properties[0] = (struct lance_key_value){META_PROPERTY_OPERATION, commit->operation_id};
    out->properties[1] = (struct lance_key_value){META_PROPERTY_CONTENT, out->digest};
    out->properties[2] = (struct lance_key_value){META_PROPERTY_ROWS, out->rows};
}

lake_status meta_commit_record(const struct meta_commit *commit, uint64_t version,
                               uint64_t row_count, struct lake_error *err)
{
    struct meta_operation operation = {
        .version = version, .row_count = row_count, .recorded_unix_ms = base_clock_unix_ms()};
    memcpy(operation.content_sha256, commit->content_sha256, BASE_SHA256_BYTES);
    memcpy(operation.incarnation, commit->registration->incarnation, BASE_UUID_TEXT_BYTES);
    return meta_operation_record(commit->authority, &commit->registration->name,
                                 commit->operation_id, &operation, err);
}
