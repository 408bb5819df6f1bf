/* libs: lance arrow storage base */
/* Manifests, transactions, roaring bitmaps and sequences of row ids from hostile bytes. The first
 * byte says which. */
#include "row_sequence.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 100000

/* `version`: what the file's name would say; the corpus has 1 to 3. */
static lake_status see(void *context, const char *key, bool elsewhere, struct lake_error *err)
{
    (void)context;
    (void)elsewhere;
    return key[0] == '\0' ? lake_fail(err, LAKE_DATA_LOSS, "no key") : LAKE_OK;
}

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
    const struct lance_visitor visitor = {see, NULL};
    (void)lance_references_visit(manifest, &visitor, NULL);
    lance_manifest_unref(manifest);
}

static void try_row_ids(struct lake_bytes bytes)
{
    static uint64_t values[ROWS];
    for (uint64_t count = 1; count <= ROWS; count *= 10) {
        (void)lance_row_ids_decode(bytes, count, values, NULL);
        (void)lance_row_versions_decode(bytes, count, values, NULL);
    }
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

static struct lance_row_ids unchecked(struct lake_bytes bytes)
{
    return (struct lance_row_ids){.bytes = bytes};
}

/* Any range that a sequence has must be what reading all of it gives, and where its first
 * number is found there it stands. */
static void try_sequence(struct lake_bytes bytes)
{
    static uint64_t all[ROWS], part[ROWS];
    uint64_t start = bytes.size > 0 ? bytes.data[0] : 0, count = 0;
    while (count < ROWS &&
           lance_row_ids_read(unchecked(bytes), 0, count + 1 + count / 2, all, NULL) == LAKE_OK) {
        count += 1 + count / 2;
        if (count + 1 + count / 2 > ROWS) {
            break;
        }
    }
    if (lance_row_ids_read(unchecked(bytes), 0, count, all, NULL) == LAKE_OK && start < count &&
        (lance_row_ids_read(unchecked(bytes), start, count - start, part, NULL) != LAKE_OK ||
         memcmp(part, all + start, (size_t)(count - start) * sizeof(*all)) != 0)) {
        abort();
    }
    struct lance_row_ids ids = unchecked(bytes);
    if (lance_row_ids_check(&ids, NULL) == LAKE_OK &&
        (lance_row_ids_read(ids, 0, count, part, NULL) != LAKE_OK ||
         (count > 0 && memcmp(part, all, (size_t)count * sizeof(*all)) != 0))) {
        abort();
    }
    struct lance_row_id_hit hit;
    size_t hits = 0;
    if (count > 0 && lance_row_ids_find(unchecked(bytes), all, 1, &hit, &hits, NULL) == LAKE_OK &&
        hits > 0 && hit.row < count && all[hit.row] != all[0]) {
        abort();
    }
    (void)lance_row_versions_read(bytes, start, 100, part, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct lake_bytes bytes = {data + 1, size - 1};
    switch (data[0] % 4) {
    case 0:
        for (uint64_t version = 1; version <= 3; version++) {
            try_manifest(bytes, version);
        }
        break;
    case 1:
        try_transaction(bytes);
        break;
    case 2:
        try_roaring(bytes);
        try_row_ids(bytes);
        break;
    default:
        try_sequence(bytes);
        break;
    }
    return 0;
}
