/* libs: client storage base */
/* The record of an object's chunk digests: anybody with access to the bucket may have written it.
 */
#include "chunk_digests.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t zeros[1000];
    struct chunk_digests *digests = NULL;
    if (chunk_digests_parse((struct lake_bytes){data, size}, &digests, NULL) != LAKE_OK)
        return 0;
    if (digests->count == 0 || digests->count > CHUNK_MAX_DIGESTS ||
        chunk_record_bytes(digests->size_bytes) != (int64_t)size ||
        (int64_t)digests->count !=
            (digests->size_bytes + digests->chunk_bytes - 1) / digests->chunk_bytes)
        abort();
    (void)chunk_digests_check(digests, (int64_t)(digests->count - 1) * digests->chunk_bytes,
                              (struct lake_bytes){zeros, sizeof(zeros)}, NULL);
    chunk_digests_free(digests);
    return 0;
}
