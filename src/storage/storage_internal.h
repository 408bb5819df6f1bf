/* What the files of storage share; nobody else includes it. */
#ifndef STORAGE_INTERNAL_H
#define STORAGE_INTERNAL_H

#include "storage.h"

/* The context of a store that `methods` implement; NULL for another kind of store. */
void *storage_store_context(struct storage_store *store, const struct storage_methods *methods);

/* For a child store: its parent (borrowed) and the prefix with its '/'; false for another kind. */
bool storage_child_parts(struct storage_store *store, struct storage_store **parent,
                         struct lake_str *prefix);

#endif
