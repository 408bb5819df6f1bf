/* libs: lance arrow storage base */
/* Manifests, transactions and roaring bitmaps from hostile bytes. The first byte says which. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 100000

/* `version`: what the file's name would say; the corpus has 1 to 3. */
static void try_manifest(struct lake_bytes bytes, uint64_t version)
{
    struct lance_manifest *manifest = NULL;
    struct base_buffer again;
    if (lance_manifest_parse(bytes, version, &manifest, NULL) != LAKE_OK) {
        return;
    }
    LancePb__Manifest next = *manifest->pb;
    base_buffer_init(&again, (size_t)64 << 20);
    (void)lance_manifest_encode(&next, manifest->index_section, manifest->transaction, &again,
                                NULL);
    base_buffer_fini(&again);
    lance_manifest_unref(manifest);
}

static void try_transaction(struct lake_bytes bytes)
{
    struct base_arena *arena = NULL;
    LancePb__Transaction *transaction = NULL;
    if (base_arena_new((size_t)64 << 20, &arena, NULL) != LAKE_OK) {
        return;
    }
    if (lance_transaction_parse(bytes, arena, &transaction, NULL) == LAKE_OK) {
        enum lance_verdict verdict;
        (void)lance_transaction_conflict(transaction, transaction, 1000, &verdict, NULL);
    }
    base_arena_free(arena);
}

static void try_roaring(struct lake_bytes bytes)
{
    uint64_t *words = calloc(ROWS / 64 + 1, sizeof(*words));
    if (words != NULL) {
        (void)lance_roaring_decode(bytes, ROWS, words, NULL);
    }
    free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct lake_bytes bytes = {data + 1, size - 1};
    switch (data[0] % 3) {
    case 0:
        for (uint64_t version = 1; version <= 3; version++) {
            try_manifest(bytes, version);
        }
        break;
    case 1:
        try_transaction(bytes);
        break;
    default:
        try_roaring(bytes);
        break;
    }
    return 0;
}
