/*
 * Maintenance: versions that change how a table lies on disk and not what is in it.
 *
 * A compaction reads and writes beside appends and is published in line with them, on top of what
 * they published meanwhile, which Lance's conflict rules allow (conflict.c). What it must not meet
 * is a drop: its files would lie where the table was, or be a version of a table created there
 * since. Hence a gate of its own, which a drop enters too, and before the table's.
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

struct compaction {
    struct meta_authority *authority;
    const struct meta_table *table;
    const struct meta_compaction *how;
};

struct publication {
    const struct compaction *compaction;
    struct meta_delta_writer delta;
    struct meta_claim claim;
    bool holds_table;
};

/* From here on in the table's gate: appends wait for one commit, and no two take the same version
 * from each other. */
static lake_status before_publish(void *context, uint64_t version, struct lake_error *err)
{
    struct publication *publication = context;
    const struct compaction *compaction = publication->compaction;
    const struct meta_compaction *how = compaction->how;
    lake_status status = LAKE_OK;
    if (how->go_on != NULL && !how->go_on(how->context))
        return lake_fail(err, LAKE_CANCELLED, "the compaction was told to stop");
    if (!publication->holds_table)
        status = meta_table_enter(compaction->authority, &compaction->table->registration.name,
                                  how->wait, &publication->claim, err);
    publication->holds_table = publication->holds_table || status == LAKE_OK;
    if (status == LAKE_OK)
        status = meta_delta_before_publish(&publication->delta, version, err);
    return status == LAKE_OK ? BASE_FAULT("meta.compact.before_publish", err) : status;
}

/* From what is the newest version now. */
static lake_status compact_newest(const struct compaction *compaction, struct lance_compaction *out,
                                  struct lake_error *err)
{
    const struct meta_registration *registration = &compaction->table->registration;
    struct base_uuid id;
    char operation_id[BASE_UUID_TEXT_BYTES];
    uint64_t recorded = 0;
    struct lance_dataset *base = NULL;
    lake_status status = base_uuid7_new(&id, err);
    if (status == LAKE_OK)
        status = meta_dataset_newest(compaction->authority, registration, compaction->table->store,
                                     &recorded, &base, err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&id, operation_id);
    /* No content: nobody asks for it again by its ID, which is there for the delta's sake. */
    const struct lance_key_value property = {META_PROPERTY_OPERATION, operation_id};
    struct publication publication = {.compaction = compaction,
                                      .delta = {.authority = compaction->authority,
                                                .incarnation = registration->incarnation,
                                                .operation_id = operation_id}};
    struct lance_compact_options options;
    lance_compact_options_init(&options);
    options.tiers = compaction->how->tiers;
    options.go_on = compaction->how->go_on;
    options.context = compaction->how->context;
    options.commit.properties = &property;
    options.commit.property_count = 1;
    options.commit.before_publish = before_publish;
    options.commit.context = &publication;
    status = BASE_FAULT("meta.compact.before_write", err);
    if (status == LAKE_OK)
        status = lance_compact(base, &options, out, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.compact.after_publish", err);
    if (status != LAKE_OK && status != LAKE_OUTCOME_UNKNOWN)
        meta_delta_discard(&publication.delta);
    if (publication.holds_table)
        meta_gate_leave(&compaction->authority->gates, &publication.claim);
    lance_dataset_unref(base);
    return status;
}

lake_status meta_compact_held(struct meta_authority *authority, const struct meta_name *name,
                              const struct meta_compaction *how, struct lance_compaction *out,
                              struct lake_error *err)
{
    const struct meta_wait *wait = how->wait;
    struct meta_table table;
    const struct compaction compaction = {authority, &table, how};
    lake_status status = meta_table_open(authority, name, &table, err);
    if (status != LAKE_OK)
        return status;
    for (int attempt = 0; status == LAKE_OK; attempt++) {
        status = compact_newest(&compaction, out, err);
        if (status != LAKE_ABORTED || attempt + 1 == COMPACT_MAX_ATTEMPTS)
            break;
        status = wait->cancelled != NULL && wait->cancelled(wait->context)
                     ? lake_fail(err, LAKE_CANCELLED, "the caller went away")
                     : LAKE_OK;
    }
    meta_table_close(&table);
    return status;
}

static bool caller_waits(void *context)
{
    const struct meta_wait *wait = context;
    return wait->cancelled == NULL || !wait->cancelled(wait->context);
}

lake_status meta_table_compact(struct meta_authority *authority,
                               const struct meta_identity *identity, const struct meta_wait *wait,
                               const struct meta_name *name, struct lance_compaction *out,
                               struct lake_error *err)
{
    struct meta_claim claim;
    const struct meta_compaction how = {
        .wait = wait, .go_on = caller_waits, .context = (void *)(uintptr_t)wait};
    lake_status status = meta_identity_require(identity, name->namespace_name, err);
    if (status == LAKE_OK)
        status = meta_maintenance_enter(authority, name, wait, &claim, err);
    if (status != LAKE_OK)
        return status;
    status = meta_compact_held(authority, name, &how, out, err);
    meta_gate_leave(&authority->gates, &claim);
    return status;
}
