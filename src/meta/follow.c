/*
 * Tables whose columns another Lance writer changed (NAT-1). The newest version says what they are;
 * the registration follows it when somebody asks for the table's schema or sends rows with another
 * one, so that descriptions, listings and appends agree with what is on disk.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <string.h>

bool meta_same_layout(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    const char *a_name = a->name == NULL ? "" : a->name;
    const char *b_name = b->name == NULL ? "" : b->name;
    if (strcmp(a_name, b_name) != 0 || strcmp(a->format, b->format) != 0 ||
        a->n_children != b->n_children || (a->dictionary == NULL) != (b->dictionary == NULL))
        return false;
    for (int64_t i = 0; i < a->n_children; i++) {
        if (!meta_same_layout(a->children[i], b->children[i]))
            return false;
    }
    return a->dictionary == NULL || strcmp(a->dictionary->format, b->dictionary->format) == 0;
}

/* The same values, and the same nulls allowed in a column. */
static bool same_columns(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    if (a->n_children != b->n_children)
        return false;
    for (int64_t i = 0; i < a->n_children; i++) {
        const int64_t differ = a->children[i]->flags ^ b->children[i]->flags;
        if ((differ & ARROW_FLAG_NULLABLE) != 0 ||
            !meta_same_layout(a->children[i], b->children[i]))
            return false;
    }
    return true;
}

lake_status meta_dataset_newest(struct meta_authority *authority,
                                const struct meta_registration *registration,
                                struct storage_store *store, uint64_t *recorded,
                                struct lance_dataset **out, struct lake_error *err)
{
    const struct meta_name *name = &registration->name;
    struct storage_object_info manifest;
    struct lance_dataset *dataset = NULL;
    uint64_t latest = 0;
    lake_status status =
        meta_recorded_version(authority, name, registration->incarnation, recorded, err);
    if (status == LAKE_OK)
        status = lance_latest_version(store, *recorded, &latest, &manifest, err);
    if (status == LAKE_OK)
        status = lance_dataset_open(store, authority->cache, registration->incarnation, latest,
                                    &dataset, err);
    if (status == LAKE_OK && lance_dataset_manifest_bytes(dataset) != manifest.size_bytes) {
        lance_dataset_unref(dataset);
        dataset = NULL;
        status = lance_dataset_open(store, NULL, NULL, latest, &dataset, err);
    }
    if (status == LAKE_NOT_FOUND)
        status = lake_fail_wrap(err, LAKE_DATA_LOSS,
                                "table %s.%s is registered but its dataset is not there",
                                name->namespace_name, name->table);
    if (status != LAKE_OK)
        return status;
    const char *said = lance_dataset_config(dataset, META_CONFIG_INCARNATION);
    if (said == NULL || strcmp(said, registration->incarnation) != 0)
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "the dataset of %s.%s says that it is incarnation \"%s\", the registry "
                           "says %s",
                           name->namespace_name, name->table, said == NULL ? "" : said,
                           registration->incarnation);
    else if (latest < *recorded)
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "the newest version of table %s.%s is %" PRIu64 ", after %" PRIu64
                           " had been committed: its directory was replaced",
                           name->namespace_name, name->table, latest, *recorded);
    if (status != LAKE_OK) {
        lance_dataset_unref(dataset);
        return status;
    }
    *out = dataset;
    return LAKE_OK;
}

static lake_status register_schema(struct meta_authority *authority,
                                   const struct meta_registration *registration,
                                   const struct ArrowSchema *schema, struct lake_error *err)
{
    char key[META_KEY_BYTES];
    uint64_t generation = 0;
    struct base_buffer ipc;
    struct base_buffer packed;
    base_buffer_init(&ipc, META_SCHEMA_MAX_BYTES);
    base_buffer_init(&packed, KV_MAX_VALUE_BYTES);
    lake_status status = meta_schema_encode(schema, &ipc, err);
    if (status == LAKE_OK)
        status = meta_generation_get(authority, "directory", &generation, err);
    if (status == LAKE_OK) {
        LakePb__Registration record = *registration->record; /* borrows */
        record.has_schema_ipc = true;
        record.schema_ipc = (ProtobufCBinaryData){ipc.size, ipc.data};
        record.has_generation = true;
        record.generation = generation + 1;
        status = meta_pb_pack(&record.base, &packed, err);
    }
    if (status == LAKE_OK) {
        struct lake_bytes at =
            meta_key(key, "r", registration->name.namespace_key, registration->name.table_key);
        struct kv_condition unchanged = {KV_EQUALS, at, base_buffer_view(&registration->raw)};
        struct kv_write write = {KV_PUT, at, base_buffer_view(&packed)};
        status = meta_directory_commit(authority, &unchanged, &write, 1, err);
    }
    base_buffer_fini(&packed);
    base_buffer_fini(&ipc);
    return status;
}

lake_status meta_registration_follow(struct meta_authority *authority,
                                     struct meta_registration *registration, bool *changed,
                                     struct lake_error *err)
{
    struct ArrowSchema registered = {.release = NULL};
    struct storage_store *store = NULL;
    struct lance_dataset *dataset = NULL;
    uint64_t recorded = 0;
    ProtobufCBinaryData ipc = registration->record->schema_ipc;
    *changed = false;
    lake_status status =
        arrow_ipc_schema_from_bytes((struct lake_bytes){ipc.data, ipc.len}, &registered, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, &registration->name, &store, err);
    if (status == LAKE_OK)
        status = meta_dataset_newest(authority, registration, store, &recorded, &dataset, err);
    if (status == LAKE_OK && !same_columns(&registered, lance_dataset_schema(dataset))) {
        status = register_schema(authority, registration, lance_dataset_schema(dataset), err);
        if (status == LAKE_OK || status == LAKE_ABORTED) { /* or somebody else did, or dropped it */
            struct meta_name name = registration->name;
            status = meta_registration_get(authority, &name, registration, err);
            *changed = status == LAKE_OK;
        }
        if (*changed)
            base_log(BASE_LOG_INFO, "registered the columns that another program gave a table",
                     "namespace", registration->name.namespace_name, "table",
                     registration->name.table, NULL);
    }
    lance_dataset_unref(dataset);
    storage_store_unref(store);
    if (registered.release != NULL)
        registered.release(&registered);
    return status;
}
