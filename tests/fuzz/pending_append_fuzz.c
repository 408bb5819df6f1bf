/* libs: client storage base */
/* The file of a pending append: as it is, and with a checksum that is right. */
#include "pending_file.h"

#include <stdlib.h>
#include <string.h>

static void look_at(struct lake_bytes file)
{
    struct pending_record record;
    struct lake_bytes message;
    if (pending_record_parse(file, &record, NULL) != LAKE_OK)
        return;
    struct lake_bytes rest = record.messages;
    size_t count = 0;
    size_t used = 0;
    while (pending_record_next(&rest, &message)) {
        used += 4 + message.size;
        count++;
        if (message.data < file.data || message.data + message.size > file.data + file.size)
            abort();
    }
    if (count == 0 || count > CLIENT_MAX_MESSAGES || used != record.messages.size ||
        record.operation_id.size != LAKE_OPERATION_ID_BYTES - 1 || record.lake.size == 0 ||
        record.table.size > PENDING_MAX_TEXT_BYTES)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look_at((struct lake_bytes){data, size});
    uint8_t *sealed = malloc(size + BASE_SHA256_BYTES);
    if (sealed == NULL)
        return 0;
    if (size > 0)
        memcpy(sealed, data, size);
    if (base_sha256_once((struct lake_bytes){data, size}, sealed + size, NULL) == LAKE_OK)
        look_at((struct lake_bytes){sealed, size + BASE_SHA256_BYTES});
    free(sealed);
    return 0;
}
