/* What the files of storage share; nobody else includes it. */
#ifndef STORAGE_INTERNAL_H
#define STORAGE_INTERNAL_H

#include "storage.h"

/* The context of a store that `methods` implement; NULL for another kind of store. */
void *storage_store_context(struct storage_store *store, const struct storage_methods *methods);

const struct storage_methods *storage_store_methods(const struct storage_store *store);
/* Whatever kind it is; for calls of its own methods. */
void *storage_store_own_context(struct storage_store *store);

lake_status storage_check_key(struct lake_str key, struct lake_error *err);
lake_status storage_check_prefix(struct lake_str prefix, struct lake_error *err);

/* For a child store: its parent (borrowed) and the prefix with its '/'; false for another kind. */
bool storage_child_parts(struct storage_store *store, struct storage_store **parent,
                         struct lake_str *prefix);

#endif
