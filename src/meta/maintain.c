/*
 * Maintenance: versions that change how a table lies on disk and not what is in it.
 *
 * A compaction runs beside appends; whoever publishes second goes on top of the first, which
 * Lance's conflict rules allow (conflict.c). What it must not meet is a drop: its files would lie
 * where the table was, or be a version of a table created there since. Hence a gate of its own,
 * which a drop enters too.
 */
#include "meta_internal.h"

#include <string.h>

#define COMPACT_MAX_ATTEMPTS 3 /* others delete or update what is being put together */

lake_status meta_maintenance_enter(struct meta_authority *authority, const struct meta_name *name,
                                   const struct meta_wait *wait, struct meta_claim *claim,
                                   struct lake_error *err)
{
    char key[META_KEY_BYTES];
    (void)meta_key(key, "m", name->namespace_key, name->table_key);
    return meta_gate_enter(&authority->gates, claim, key, wait, err);
}

/* From what is the newest version now. */
static lake_status compact_newest(struct meta_authority *authority,
                                  const struct meta_registration *registration,
                                  struct storage_store *store, struct lance_compaction *out,
                                  struct lake_error *err)
{
    struct base_uuid id;
    char operation_id[BASE_UUID_TEXT_BYTES];
    uint64_t recorded = 0;
    struct lance_dataset *base = NULL;
    lake_status status = base_uuid7_new(&id, err);
    if (status == LAKE_OK)
        status = meta_dataset_newest(authority, registration, store, &recorded, &base, err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&id, operation_id);
    /* No content: nobody asks for it again by its ID, which is there for the delta's sake. */
    const struct lance_key_value property = {META_PROPERTY_OPERATION, operation_id};
    struct meta_delta_writer delta = {.authority = authority,
                                      .incarnation = registration->incarnation,
                                      .operation_id = operation_id};
    struct lance_compact_options options;
    lance_compact_options_init(&options);
    options.commit.properties = &property;
    options.commit.property_count = 1;
    options.commit.before_publish = meta_delta_before_publish;
    options.commit.context = &delta;
    status = BASE_FAULT("meta.compact.before_write", err);
    if (status == LAKE_OK)
        status = lance_compact(base, &options, out, err);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN)
        meta_delta_discard(&delta);
    lance_dataset_unref(base);
    return status;
}

static lake_status compact_held(struct meta_authority *authority, const struct meta_name *name,
                                const struct meta_wait *wait, struct lance_compaction *out,
                                struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct meta_registration registration;
    meta_registration_init(&registration);
    lake_status status = meta_registration_get(authority, name, &registration, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, &registration.name, &store, err);
    for (int attempt = 0; status == LAKE_OK; attempt++) {
        status = compact_newest(authority, &registration, store, out, err);
        if (status != LAKE_ABORTED || attempt + 1 == COMPACT_MAX_ATTEMPTS)
            break;
        status = wait->cancelled != NULL && wait->cancelled(wait->context)
                     ? lake_fail(err, LAKE_CANCELLED, "the caller went away")
                     : LAKE_OK;
    }
    storage_store_unref(store);
    meta_registration_fini(&registration);
    return status;
}

lake_status meta_table_compact(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const struct meta_name *name, struct lance_compaction *out,
                               struct lake_error *err)
{
    struct meta_claim claim;
    lake_status status = meta_identity_require(identity, name->namespace_name, err);
    if (status == LAKE_OK)
        status = meta_maintenance_enter(authority, name, wait, &claim, err);
    if (status != LAKE_OK)
        return status;
    status = compact_held(authority, name, wait, out, err);
    meta_gate_leave(&authority->gates, &claim);
    return status;
}
