/* All objects below a prefix, page by page. */
#include "table.h"

#include <stdio.h>

lake_status lance_list_all(struct storage_store *store, const char *prefix, lance_list_visit visit,
                           void *context, struct lake_error *err)
{
    char last[STORAGE_MAX_KEY_BYTES + 1] = "";
    bool more = true;
    lake_status status = LAKE_OK;
    while (more && status == LAKE_OK) {
        struct storage_list_page page = {0};
        status = storage_list(store, base_str_of(prefix), base_str_of(last), STORAGE_MAX_LIST,
                              &page, err);
        if (status == LAKE_NOT_FOUND) {
            return LAKE_OK;
        }
        if (status != LAKE_OK) {
            return status;
        }
        more = page.more && page.count > 0;
        if (more) {
            (void)snprintf(last, sizeof(last), "%s", page.entries[page.count - 1].key);
        }
        for (size_t i = 0; i < page.count && status == LAKE_OK; i++) {
            status = visit(context, &page.entries[i], err);
        }
        storage_list_page_fini(&page);
    }
    return status;
}
