/* A table's versions, as their manifests and transactions tell; how two of them differ. */
#include "meta_internal.h"

#include <inttypes.h>
#include <string.h>

#define MAX_ENTRIES   256
#define MAX_LOOKED_AT 4096 /* versions a page: most may have been cleaned up */

struct opened {
    struct meta_table table;
    struct lance_dataset *newest;
};

static void close_table(struct opened *opened)
{
    lance_dataset_unref(opened->newest);
    meta_table_close(&opened->table);
}

/* On failure there is nothing to close. */
static lake_status open_table(struct meta_authority *authority,
                              const struct meta_identity *identity, const LakePb__TableName *asked,
                              struct opened *out, struct lake_error *err)
{
    struct meta_name name;
    uint64_t recorded = 0;
    lake_status status = meta_identity_name(identity, asked, &name, err);
    if (status == LAKE_OK)
        status = meta_table_open(authority, &name, &out->table, err);
    if (status != LAKE_OK)
        return status;
    status = meta_dataset_newest(authority, &out->table.registration, out->table.store, &recorded,
                                 &out->newest, err);
    if (status != LAKE_OK)
        meta_table_close(&out->table);
    return status;
}

static lake_status open_version(struct meta_authority *authority, const struct opened *opened,
                                uint64_t version, struct lance_dataset **out,
                                struct lake_error *err)
{
    const struct meta_registration *registration = &opened->table.registration;
    struct lance_dataset *dataset = NULL;
    bool there = true; /* others may have removed what is cached here */
    lake_status status = LAKE_NOT_FOUND;
    if (version > 0 && version <= lance_dataset_version(opened->newest))
        status = lance_dataset_open(opened->table.store, authority->cache,
                                    registration->incarnation, version, &dataset, err);
    if (status == LAKE_OK)
        status = lance_dataset_exists(dataset, &there, err);
    if (status == LAKE_NOT_FOUND || !there)
        status = lake_fail(err, LAKE_NOT_FOUND, "table %s.%s has no version %" PRIu64,
                           registration->name.namespace_name, registration->name.table, version);
    if (status == LAKE_OK)
        *out = dataset;
    else
        lance_dataset_unref(dataset);
    return status;
}

/* ---- history ---- */

struct page {
    LakePb__VersionEntry entries[MAX_ENTRIES];
    LakePb__VersionEntry *pointers[MAX_ENTRIES];
    struct base_buffer ids[MAX_ENTRIES];
    size_t count;
};

static lake_status add_version(struct page *page, const struct lance_dataset *dataset,
                               struct lake_error *err)
{
    LakePb__VersionEntry *entry = &page->entries[page->count];
    struct base_buffer *id = &page->ids[page->count];
    const char *operation = NULL;
    base_buffer_init(id, 256);
    page->pointers[page->count++] = entry;
    lake_pb__version_entry__init(entry);
    lake_status status = lance_dataset_operation(dataset, &operation, err);
    if (status != LAKE_OK)
        return status;
    entry->has_version = entry->has_timestamp_unix_ms = entry->has_operation = true;
    entry->has_row_count = entry->has_fragment_count = true;
    entry->version = lance_dataset_version(dataset);
    entry->timestamp_unix_ms = lance_dataset_timestamp_unix_ms(dataset);
    entry->operation = meta_pb_of_str(operation);
    entry->row_count = lance_dataset_row_count(dataset);
    entry->fragment_count = lance_dataset_fragment_count(dataset);
    status = lance_dataset_transaction_property(dataset, META_PROPERTY_OPERATION, id, err);
    entry->has_operation_id = status == LAKE_OK;
    entry->operation_id = (ProtobufCBinaryData){id->size, id->data};
    return status == LAKE_NOT_FOUND ? LAKE_OK : status;
}

static lake_status fill_page(struct meta_authority *authority, const struct opened *opened,
                             uint64_t below, size_t limit, struct page *page, uint64_t *next_before,
                             struct lake_error *err)
{
    uint64_t version = BASE_MIN(below - 1, lance_dataset_version(opened->newest));
    lake_status status = LAKE_OK;
    for (int i = 0; i < MAX_LOOKED_AT && version > 0 && page->count < limit; i++, version--) {
        struct lance_dataset *dataset = NULL;
        status = open_version(authority, opened, version, &dataset, err);
        if (status == LAKE_NOT_FOUND)
            continue; /* cleaned up */
        if (status == LAKE_OK)
            status = add_version(page, dataset, err);
        lance_dataset_unref(dataset);
        if (status != LAKE_OK)
            return status;
    }
    *next_before = version > 0 ? version + 1 : 0;
    return LAKE_OK;
}

lake_status meta_table_history(struct meta_authority *authority,
                               const struct meta_identity *identity,
                               const LakePb__HistoryRequest *request, struct base_buffer *out,
                               struct lake_error *err)
{
    struct opened opened;
    struct page *page = NULL;
    LakePb__HistoryReply reply = LAKE_PB__HISTORY_REPLY__INIT;
    uint64_t below = request->has_before ? request->before : UINT64_MAX;
    size_t limit = request->has_limit ? request->limit : MAX_ENTRIES;
    if (below == 0 || limit == 0 || limit > MAX_ENTRIES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a page has 1 to %d versions (limit), of those before a version from 1 on",
                         MAX_ENTRIES);
    lake_status status = open_table(authority, identity, request->name, &opened, err);
    if (status != LAKE_OK)
        return status;
    page = base_calloc_array(1, sizeof(*page));
    if (page == NULL) {
        status = base_fail_no_memory(err, sizeof(*page));
        goto out;
    }
    status = fill_page(authority, &opened, below, limit, page, &reply.next_before, err);
    if (status == LAKE_OK) {
        reply.has_next_before = reply.next_before > 0;
        reply.n_versions = page->count;
        reply.versions = page->pointers;
        status = meta_pb_pack(&reply.base, out, err);
    }
out:
    for (size_t i = 0; page != NULL && i < page->count; i++)
        base_buffer_fini(&page->ids[i]);
    base_free(page);
    close_table(&opened);
    return status;
}

/* ---- diff ---- */

static const struct ArrowSchema *find_column(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(schema->children[i]->name, name) == 0)
            return schema->children[i];
    }
    return NULL;
}

/* Names of `schema`'s columns that `other` lacks or, for `changed`, has otherwise. */
static size_t list_columns(const struct ArrowSchema *schema, const struct ArrowSchema *other,
                           bool changed, ProtobufCBinaryData *out)
{
    size_t count = 0;
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *column = schema->children[i];
        const struct ArrowSchema *there = find_column(other, column->name);
        bool differs = there != NULL && (((column->flags ^ there->flags) & ARROW_FLAG_NULLABLE) ||
                                         !meta_same_layout(column, there));
        if (changed ? differs : there == NULL)
            out[count++] = meta_pb_of_str(column->name);
    }
    return count;
}

static lake_status pack_diff(struct lance_dataset *from, struct lance_dataset *to,
                             struct base_buffer *out, struct lake_error *err)
{
    const struct ArrowSchema *before = lance_dataset_schema(from);
    const struct ArrowSchema *after = lance_dataset_schema(to);
    size_t most = (size_t)(2 * after->n_children + before->n_children);
    ProtobufCBinaryData *names = base_alloc_array(most + 1, sizeof(*names));
    LakePb__DiffReply reply = LAKE_PB__DIFF_REPLY__INIT;
    struct lance_diff diff;
    if (names == NULL)
        return base_fail_no_memory(err, most * sizeof(*names));
    lake_status status = lance_diff(from, to, &diff, err);
    if (status == LAKE_OK) {
        reply.has_rows_added = reply.has_rows_removed = reply.has_rows_rewritten = true;
        reply.has_fragments_added = reply.has_fragments_removed = true;
        reply.has_fragments_changed = true;
        reply.rows_added = diff.rows_added;
        reply.rows_removed = diff.rows_removed;
        reply.rows_rewritten = diff.rows_rewritten;
        reply.fragments_added = diff.fragments_added;
        reply.fragments_removed = diff.fragments_removed;
        reply.fragments_changed = diff.fragments_changed;
        reply.columns_added = names;
        reply.n_columns_added = list_columns(after, before, false, reply.columns_added);
        reply.columns_changed = reply.columns_added + reply.n_columns_added;
        reply.n_columns_changed = list_columns(after, before, true, reply.columns_changed);
        reply.columns_removed = reply.columns_changed + reply.n_columns_changed;
        reply.n_columns_removed = list_columns(before, after, false, reply.columns_removed);
        status = meta_pb_pack(&reply.base, out, err);
    }
    base_free(names);
    return status;
}

lake_status meta_versions_diff(struct meta_authority *authority,
                               const struct meta_identity *identity,
                               const LakePb__DiffRequest *request, struct base_buffer *out,
                               struct lake_error *err)
{
    struct opened opened;
    struct lance_dataset *from = NULL;
    struct lance_dataset *to = NULL;
    lake_status status = open_table(authority, identity, request->name, &opened, err);
    if (status != LAKE_OK)
        return status;
    status = open_version(authority, &opened, request->from, &from, err);
    if (status == LAKE_OK)
        status = open_version(authority, &opened, request->to, &to, err);
    if (status == LAKE_OK)
        status = pack_diff(from, to, out, err);
    lance_dataset_unref(to);
    lance_dataset_unref(from);
    close_table(&opened);
    return status;
}
