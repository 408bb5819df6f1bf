/*
 * What a crash leaves, put right before anything is served: temporary files, creates that did not
 * end, drops whose directories are still there, expired operations. And tables are registered where
 * they are, should the data directory have been moved.
 *
 * Versions that were published but not recorded are left to the next append of their table
 * (append.c): looking for them here would cost a look at every table.
 */
#include "meta_internal.h"

#include <string.h>

static lake_status finish_all(struct meta_authority *authority, const char *prefix, uint64_t *count,
                              struct lake_error *err)
{
    char after[META_KEY_BYTES];
    size_t after_size = 0;
    for (;;) {
        struct kv_page page = {0};
        lake_status status = kv_scan(authority->kv, base_bytes_of_str(base_str_of(prefix)),
                                     (struct lake_bytes){(const uint8_t *)after, after_size},
                                     META_PAGE_ENTRIES, 1024 * 1024, &page, err);
        if (status != LAKE_OK)
            return status;
        for (size_t i = 0; i < page.count && status == LAKE_OK; i++) {
            status =
                meta_table_finish_pending(authority, page.pairs[i].key, page.pairs[i].value, err);
            if (status == LAKE_OK)
                (*count)++;
        }
        bool more = page.more && page.count > 0;
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
        if (status != LAKE_OK || !more)
            return status;
    }
}

lake_status meta_recover(struct meta_authority *authority, struct meta_recovery *out,
                         struct lake_error *err)
{
    *out = (struct meta_recovery){0};
    uint64_t removed = 0;
    bool local = authority->tables_dir != NULL; /* object stores have no temporary files */
    lake_status status =
        !local ? LAKE_OK : storage_local_sweep(authority->tables, 0, &removed, err);
    if (status == LAKE_OK && local) {
        out->temporary_files += removed;
        removed = 0;
        status = storage_local_sweep(authority->deltas, 0, &removed, err);
    }
    if (status == LAKE_OK) {
        out->temporary_files += removed;
        status = finish_all(authority, "c/", &out->unfinished_creates, err);
    }
    if (status == LAKE_OK)
        status = finish_all(authority, "d/", &out->unswept_drops, err);
    if (status == LAKE_OK)
        status = meta_directory_sweep_dropped(authority, err);
    if (status == LAKE_OK)
        status = meta_relocate(authority, &out->moved_tables, err);
    if (status == LAKE_OK)
        status =
            meta_operation_prune(authority, base_clock_unix_ms(), &out->pruned_operations, err);
    return status;
}
