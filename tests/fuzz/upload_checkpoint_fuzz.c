/* libs: client storage base */
/* The checkpoint of an upload: a file that anybody may have written. */
#include "upload_checkpoint.h"

#include "upload_parts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct upload_checkpoint *checkpoint = base_calloc_array(1, sizeof(*checkpoint));
    if (checkpoint == NULL)
        return 0;
    checkpoint->lock = -1;
    if (upload_checkpoint_parse(checkpoint, (struct lake_bytes){data, size}, NULL) == LAKE_OK) {
        if (!storage_key_valid(base_str_of(checkpoint->key)) ||
            checkpoint->part_count > STORAGE_MULTIPART_MAX_PARTS ||
            (checkpoint->part_bytes != UPLOAD_PART_BYTES &&
             checkpoint->part_bytes != UPLOAD_CHECKPOINT_V1_PART_BYTES))
            abort();
        for (size_t i = 0; i < checkpoint->part_count; i++) {
            if (checkpoint->parts[i].number != i + 1 || checkpoint->parts[i].etag[0] == '\0')
                abort();
        }
    }
    upload_checkpoint_free(checkpoint);
    return 0;
}
