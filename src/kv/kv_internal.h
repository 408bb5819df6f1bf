/*
 * What a store behind kv.h implements. Arguments have been checked: keys of 1 to KV_MAX_KEY_BYTES,
 * values and counts within their limits, no key written twice.
 */
#ifndef KV_INTERNAL_H
#define KV_INTERNAL_H

#include "kv.h"

struct kv_methods {
    lake_status (*get)(void *context, struct lake_bytes key, struct base_buffer *out,
                       struct lake_error *err);
    lake_status (*scan)(void *context, struct lake_bytes prefix, struct lake_bytes start_after,
                        size_t limit, size_t max_bytes, struct kv_page *out,
                        struct lake_error *err);
    lake_status (*commit)(void *context, const struct kv_condition *conditions,
                          size_t condition_count, const struct kv_write *writes, size_t write_count,
                          size_t *failed_condition, struct lake_error *err);
    void (*free)(void *context);
};

/* The store owns `context` from here on, also when this fails. */
lake_status kv_store_new(const struct kv_methods *methods, void *context, struct kv_store **out,
                         struct lake_error *err);

/* Collects a page; pairs are copied. Shared by the implementations. */
struct kv_page_builder {
    struct kv_page page;
    size_t limit;
    size_t max_bytes;
    size_t used_bytes;
};
lake_status kv_page_builder_init(struct kv_page_builder *builder, size_t limit, size_t max_bytes,
                                 struct lake_error *err);
/* `*full` tells that the pair was not taken: the page ends before it, and there is more. */
lake_status kv_page_builder_add(struct kv_page_builder *builder, struct lake_bytes key,
                                struct lake_bytes value, bool *full, struct lake_error *err);

#endif
