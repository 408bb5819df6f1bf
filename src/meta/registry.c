/* The registry: registrations, generations, recorded versions, over the key-value store. */
#include "meta_internal.h"

#include <inttypes.h>
#include <meta_store.pb-c.h>
#include <stdio.h>
#include <string.h>

/* Another creator or dropper got in between; each of them makes progress, so this is plenty. */
#define MAX_DIRECTORY_ATTEMPTS 100

struct lake_bytes meta_key(char out[META_KEY_BYTES], const char *family, const char *first,
                           const char *second)
{
    int size = second == NULL ? snprintf(out, META_KEY_BYTES, "%s/%s", family, first)
                              : snprintf(out, META_KEY_BYTES, "%s/%s/%s", family, first, second);
    return (struct lake_bytes){(const uint8_t *)out, (size_t)size};
}

struct lake_bytes meta_u64_bytes(uint64_t value, uint8_t out[8])
{
    base_store_u64le(out, value);
    return (struct lake_bytes){out, 8};
}

void meta_registration_init(struct meta_registration *registration)
{
    *registration = (struct meta_registration){.record = NULL};
    base_buffer_init(&registration->raw, KV_MAX_VALUE_BYTES);
}

void meta_registration_fini(struct meta_registration *registration)
{
    if (registration->record != NULL)
        lake_pb__registration__free_unpacked(registration->record, NULL);
    base_buffer_fini(&registration->raw);
    registration->record = NULL;
}

lake_status meta_registration_parse(struct lake_bytes value, struct meta_registration *out,
                                    struct lake_error *err)
{
    LakePb__Registration *record = lake_pb__registration__unpack(NULL, value.size, value.data);
    if (record == NULL)
        return lake_fail(err, LAKE_DATA_LOSS, "a registration does not parse (%zu bytes)",
                         value.size);
    struct base_uuid incarnation;
    struct meta_name name;
    lake_status status = LAKE_OK;
    if (!base_uuid_parse(meta_str_of_pb(record->incarnation), &incarnation)) {
        status = lake_fail(err, LAKE_DATA_LOSS, "a registration has no valid incarnation");
        goto out;
    }
    status = meta_name_from_pb(record->name, &name, err);
    if (status != LAKE_OK) {
        status = lake_fail_wrap(err, LAKE_DATA_LOSS, "a registration has no valid name");
        goto out;
    }
    base_buffer_clear(&out->raw);
    status = base_buffer_append(&out->raw, value.data, value.size, err);
    if (status != LAKE_OK)
        goto out;
    if (out->record != NULL)
        lake_pb__registration__free_unpacked(out->record, NULL);
    out->record = record;
    out->name = name;
    base_uuid_format(&incarnation, out->incarnation);
    return LAKE_OK;
out:
    lake_pb__registration__free_unpacked(record, NULL);
    return status;
}

lake_status meta_registration_get(struct meta_authority *authority, const struct meta_name *name,
                                  struct meta_registration *out, struct lake_error *err)
{
    char key[META_KEY_BYTES];
    struct base_buffer value;
    base_buffer_init(&value, KV_MAX_VALUE_BYTES);
    lake_status status = kv_get(
        authority->kv, meta_key(key, "r", name->namespace_key, name->table_key), &value, err);
    if (status == LAKE_NOT_FOUND)
        status = lake_fail(err, LAKE_NOT_FOUND, "there is no table %s.%s", name->namespace_name,
                           name->table);
    else if (status == LAKE_OK)
        status = meta_registration_parse(base_buffer_view(&value), out, err);
    base_buffer_fini(&value);
    return status;
}

lake_status meta_table_open(struct meta_authority *authority, const struct meta_name *name,
                            struct meta_table *out, struct lake_error *err)
{
    struct meta_table table = {.store = NULL};
    meta_registration_init(&table.registration);
    lake_status status = meta_registration_get(authority, name, &table.registration, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, &table.registration.name, &table.store, err);
    if (status == LAKE_OK)
        *out = table;
    else
        meta_table_close(&table);
    return status;
}

void meta_table_close(struct meta_table *table)
{
    storage_store_unref(table->store);
    meta_registration_fini(&table->registration);
}

lake_status meta_generation_get(struct meta_authority *authority, const char *which, uint64_t *out,
                                struct lake_error *err)
{
    char key[META_KEY_BYTES];
    struct base_buffer value;
    base_buffer_init(&value, 64);
    lake_status status = kv_get(authority->kv, meta_key(key, "g", which, NULL), &value, err);
    if (status == LAKE_NOT_FOUND) {
        *out = 0;
        status = LAKE_OK;
    } else if (status == LAKE_OK && value.size != 8) {
        status = lake_fail(err, LAKE_DATA_LOSS, "generation \"%s\" has %zu bytes, not 8", which,
                           value.size);
    } else if (status == LAKE_OK) {
        *out = base_load_u64le(value.data);
    }
    base_buffer_fini(&value);
    return status;
}

/* Commits of different tables share a disk sync only when they share no condition, so the commit
 * generation is counted in memory and written along without one. What is on disk may lag behind by
 * the commits in flight; opening the registry skips that far ahead (authority.c). */
uint64_t meta_next_commit_generation(struct meta_authority *authority)
{
    return atomic_fetch_add(&authority->next_commit_generation, 1);
}

lake_status meta_recorded_version(struct meta_authority *authority, const struct meta_name *name,
                                  const char *incarnation, uint64_t *out, struct lake_error *err)
{
    char key[META_KEY_BYTES];
    struct base_buffer value;
    base_buffer_init(&value, 1024);
    MetaStorePb__TableVersion *record = NULL;
    lake_status status = kv_get(
        authority->kv, meta_key(key, "v", name->namespace_key, name->table_key), &value, err);
    if (status == LAKE_NOT_FOUND) {
        *out = 0;
        status = LAKE_OK;
        goto out;
    }
    if (status != LAKE_OK)
        goto out;
    record = meta_store_pb__table_version__unpack(NULL, value.size, value.data);
    if (record == NULL) {
        status = lake_fail(err, LAKE_DATA_LOSS, "the version record of %s.%s does not parse",
                           name->namespace_name, name->table);
        goto out;
    }
    *out = base_str_equal_c(meta_str_of_pb(record->incarnation), incarnation) ? record->version : 0;
out:
    if (record != NULL)
        meta_store_pb__table_version__free_unpacked(record, NULL);
    base_buffer_fini(&value);
    return status;
}

lake_status meta_recorded_version_pack(const char *incarnation, uint64_t version,
                                       struct base_buffer *out, struct lake_error *err)
{
    MetaStorePb__TableVersion record = META_STORE_PB__TABLE_VERSION__INIT;
    record.has_incarnation = true;
    record.incarnation = meta_pb_of_str(incarnation);
    record.has_version = true;
    record.version = version;
    return meta_pb_pack(&record.base, out, err);
}

lake_status meta_directory_commit(struct meta_authority *authority,
                                  const struct kv_condition *condition,
                                  const struct kv_write *writes, size_t write_count,
                                  struct lake_error *err)
{
    char directory_key[META_KEY_BYTES];
    char commit_key[META_KEY_BYTES];
    struct kv_write all[META_DIRECTORY_MAX_WRITES + 2];
    if (write_count > META_DIRECTORY_MAX_WRITES)
        return lake_fail(err, LAKE_INTERNAL, "%zu writes in one change of the directory",
                         write_count);
    for (int attempt = 0; attempt < MAX_DIRECTORY_ATTEMPTS; attempt++) {
        uint64_t generation;
        lake_status status = meta_generation_get(authority, "directory", &generation, err);
        if (status != LAKE_OK)
            return status;
        uint8_t old[8];
        uint8_t new[8];
        uint8_t commit[8];
        struct lake_bytes key = meta_key(directory_key, "g", "directory", NULL);
        struct kv_condition conditions[2] = {
            *condition,
            {generation == 0 ? KV_ABSENT : KV_EQUALS, key, meta_u64_bytes(generation, old)}};
        memcpy(all, writes, write_count * sizeof(*writes));
        all[write_count] = (struct kv_write){KV_PUT, key, meta_u64_bytes(generation + 1, new)};
        all[write_count + 1] =
            (struct kv_write){KV_PUT, meta_key(commit_key, "g", "commit", NULL),
                              meta_u64_bytes(meta_next_commit_generation(authority), commit)};
        size_t failed = 0;
        status = kv_commit(authority->kv, conditions, 2, all, write_count + 2, &failed, err);
        if (status != LAKE_ABORTED || failed != 1)
            return status;
    }
    return lake_fail(err, LAKE_UNAVAILABLE,
                     "the directory kept changing for %d attempts; try again",
                     MAX_DIRECTORY_ATTEMPTS);
}
