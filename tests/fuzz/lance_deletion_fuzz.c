/* libs: lance */
/*
 * Deletion files in both forms, and the fragments that an index covers. The first byte says which:
 * an Arrow file, a bitmap, an index's bitmap. What is read must count what it has.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define ROWS            30000
#define MAX_FRAGMENT_ID 70000

struct memory {
    const uint8_t *data;
    size_t size;
};
static struct memory memory;

static lake_status memory_stat(void *context, struct lake_str key, struct storage_object_info *out,
                               struct lake_error *err)
{
    (void)context;
    (void)key;
    (void)err;
    *out = (struct storage_object_info){.size_bytes = memory.size};
    return LAKE_OK;
}

static lake_status memory_read(void *context, struct lake_str key, uint64_t offset, size_t size,
                               uint8_t *out, struct lake_error *err)
{
    (void)context;
    (void)key;
    if (offset > memory.size || size > memory.size - offset)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "beyond the end");
    memcpy(out, memory.data + offset, size);
    return LAKE_OK;
}

static void memory_free(void *context)
{
    (void)context;
}

static struct storage_store *memory_store(void)
{
    static const struct storage_methods methods = {
        .stat = memory_stat, .read_range = memory_read, .free = memory_free};
    static struct storage_store *store;
    struct lake_error err;
    if (store == NULL && storage_store_new(&methods, NULL, "memory:", &store, &err) != LAKE_OK)
        abort();
    return store;
}

static void try_deletions(uint32_t form)
{
    struct lance_deletions *deletions = NULL;
    LancePb__DeletionFile file;
    uint64_t count = 0;
    lance_pb__deletion_file__init(&file);
    file.has_file_type = true;
    file.file_type = form;
    if (lance_deletions_read(memory_store(), 3, &file, ROWS, &deletions, NULL) != LAKE_OK)
        return;
    for (uint64_t row = 0; row < deletions->row_count; row++)
        count += lance_deletions_has(deletions, row);
    if (deletions->row_count != ROWS || count != deletions->deleted_count)
        abort();
    lance_deletions_unref(deletions);
}

static void try_index(void)
{
    LancePb__IndexMetadata index;
    uint64_t *words = NULL;
    lance_pb__index_metadata__init(&index);
    index.has_fragment_bitmap = true;
    index.fragment_bitmap =
        (ProtobufCBinaryData){.len = memory.size, .data = (uint8_t *)memory.data};
    if (lance_fragment_bitmap_decode(&index, MAX_FRAGMENT_ID, &words, NULL) == LAKE_OK)
        base_free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    memory = (struct memory){data + 1, size - 1};
    switch (data[0] % 3) {
    case 0:
        try_deletions(0);
        break;
    case 1:
        try_deletions(1);
        break;
    default:
        try_index();
        break;
    }
    return 0;
}
