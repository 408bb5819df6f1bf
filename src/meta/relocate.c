/*
 * A data directory that was moved or copied: registrations hold locations (NAT-10), and those below
 * the old path would make Query read another directory than the one that is written to. Opening
 * compares the path with the one of the last opening, and rewrites what differs.
 */
#include "meta_internal.h"

#include <string.h>

static lake_status relocate_one(struct meta_authority *authority, struct lake_bytes key,
                                struct lake_bytes value, uint64_t *moved, struct lake_error *err)
{
    struct meta_registration registration;
    struct storage_store *store = NULL;
    struct base_buffer packed;
    base_buffer_init(&packed, KV_MAX_VALUE_BYTES);
    meta_registration_init(&registration);
    lake_status status = meta_registration_parse(value, &registration, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, &registration.name, &store, err);
    if (status != LAKE_OK)
        goto out;
    const char *location = storage_store_uri(store);
    if (base_str_equal_c(meta_str_of_pb(registration.record->location), location))
        goto out;
    LakePb__Registration record = *registration.record; /* borrows; only its bytes are made */
    record.has_location = true;
    record.location = meta_pb_of_str(location);
    status = meta_pb_pack(&record.base, &packed, err);
    if (status != LAKE_OK)
        goto out;
    struct kv_condition unchanged = {KV_EQUALS, key, value};
    struct kv_write write = {KV_PUT, key, base_buffer_view(&packed)};
    status = meta_directory_commit(authority, &unchanged, &write, 1, err);
    if (status == LAKE_OK)
        (*moved)++;
out:
    storage_store_unref(store);
    meta_registration_fini(&registration);
    base_buffer_fini(&packed);
    return status;
}

static lake_status relocate_all(struct meta_authority *authority, uint64_t *moved,
                                struct lake_error *err)
{
    char after[META_KEY_BYTES];
    size_t after_size = 0;
    for (bool more = true; more;) {
        struct kv_page page = {0};
        lake_status status = kv_scan(authority->kv, base_bytes_of_str(LAKE_STR("r/")),
                                     (struct lake_bytes){(const uint8_t *)after, after_size},
                                     META_PAGE_ENTRIES, 1024 * 1024, &page, err);
        if (status != LAKE_OK)
            return status;
        for (size_t i = 0; i < page.count && status == LAKE_OK; i++)
            status = relocate_one(authority, page.pairs[i].key, page.pairs[i].value, moved, err);
        more = page.more && page.count > 0;
        if (status == LAKE_OK && more) {
            struct lake_bytes last = page.pairs[page.count - 1].key;
            if (last.size > sizeof(after)) {
                status = lake_fail(err, LAKE_DATA_LOSS, "a key of the registry has %zu bytes",
                                   last.size);
            } else {
                memcpy(after, last.data, last.size);
                after_size = last.size;
            }
        }
        kv_page_fini(&page);
        if (status != LAKE_OK)
            return status;
    }
    return LAKE_OK;
}

/* A directory may be moved, a bucket's tables may not: they would not be where they are looked
 * for. */
static lake_status check_no_tables(struct meta_authority *authority, const struct base_buffer *last,
                                   struct lake_error *err)
{
    struct kv_page page = {0};
    lake_status status = kv_scan(authority->kv, base_bytes_of_str(LAKE_STR("r/")),
                                 (struct lake_bytes){NULL, 0}, 1, 1024 * 1024, &page, err);
    if (status == LAKE_OK && page.count > 0)
        status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                           "the tables of this registry are in %.*s, not in %s: set LAKE_S3_BUCKET "
                           "and LAKE_TABLE_PREFIX as they were, or use another data directory",
                           (int)last->size, (const char *)last->data,
                           storage_store_uri(authority->tables));
    kv_page_fini(&page);
    return status;
}

lake_status meta_relocate(struct meta_authority *authority, uint64_t *moved, struct lake_error *err)
{
    struct lake_bytes key = base_bytes_of_str(LAKE_STR("a/data_dir"));
    bool local = authority->tables_dir != NULL;
    struct lake_bytes here = base_bytes_of_str(
        base_str_of(local ? authority->data_dir : storage_store_uri(authority->tables)));
    struct base_buffer last;
    base_buffer_init(&last, KV_MAX_VALUE_BYTES);
    *moved = 0;
    lake_status status = kv_get(authority->kv, key, &last, err);
    if (status == LAKE_OK && base_bytes_equal(base_buffer_view(&last), here))
        goto out;
    bool was_local = status == LAKE_OK && last.size > 0 && last.data[0] == '/';
    if (status == LAKE_OK && (!local || !was_local))
        status = check_no_tables(authority, &last, err);
    if (status == LAKE_OK || status == LAKE_NOT_FOUND)
        status = relocate_all(authority, moved, err);
    if (status == LAKE_OK) { /* last: a crash before it only repeats the look */
        struct kv_write write = {KV_PUT, key, here};
        status = kv_commit(authority->kv, NULL, 0, &write, 1, NULL, err);
    }
out:
    base_buffer_fini(&last);
    return status;
}
