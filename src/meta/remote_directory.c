/*
 * Datasets in an object store as wholes. There is no rename, so a dataset is removed where it is,
 * its newest manifest last: until then it says whose it is, and a removal that was interrupted is
 * taken up again by its pending record.
 */
#include "meta_internal.h"

#include <stdlib.h>
#include <string.h>

#define VERSIONS "_versions/"

lake_status meta_remote_exists(struct meta_authority *authority, const struct meta_name *name,
                               bool *out, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_list_page page = {.entries = NULL};
    lake_status status = meta_table_store(authority, name, &store, err);
    if (status == LAKE_OK)
        status = storage_list(store, LAKE_STR(""), LAKE_STR(""), 1, &page, err);
    if (status == LAKE_OK)
        *out = page.count > 0;
    storage_list_page_fini(&page);
    storage_store_unref(store);
    return status;
}

/* `keep` (may be NULL) stays, and so does what starts with `spare`. */
static lake_status remove_all(struct storage_store *store, const char *prefix, const char *spare,
                              const char *keep, struct lake_error *err)
{
    char *after = base_strdup("");
    lake_status status = after == NULL ? base_fail_no_memory(err, 0) : LAKE_OK;
    for (bool more = true; status == LAKE_OK && more;) {
        struct storage_list_page page = {.entries = NULL};
        status = storage_list(store, base_str_of(prefix), base_str_of(after), STORAGE_MAX_LIST,
                              &page, err);
        for (size_t i = 0; status == LAKE_OK && i < page.count; i++) {
            struct lake_str key = base_str_of(page.entries[i].key);
            if ((spare != NULL && base_str_has_prefix(key, spare)) ||
                (keep != NULL && base_str_equal_c(key, keep)))
                continue;
            status = storage_remove(store, key, err);
        }
        more = status == LAKE_OK && page.more && page.count > 0;
        if (more) {
            base_free(after);
            after = page.entries[page.count - 1].key;
            page.entries[page.count - 1].key = NULL;
        }
        storage_list_page_fini(&page);
    }
    base_free(after);
    return status;
}

lake_status meta_remote_remove(struct meta_authority *authority, const struct meta_name *name,
                               struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_list_page newest = {.entries = NULL};
    lake_status status = meta_table_store(authority, name, &store, err);
    if (status == LAKE_OK)
        status = remove_all(store, "", VERSIONS, NULL, err);
    if (status == LAKE_OK) /* names count downwards: the newest comes first */
        status = storage_list(store, LAKE_STR(VERSIONS), LAKE_STR(""), 1, &newest, err);
    if (status == LAKE_OK && newest.count > 0)
        status = remove_all(store, VERSIONS, NULL, newest.entries[0].key, err);
    if (status == LAKE_OK && newest.count > 0)
        status = storage_remove(store, base_str_of(newest.entries[0].key), err);
    storage_list_page_fini(&newest);
    storage_store_unref(store);
    return status;
}
