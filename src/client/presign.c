/* URLs by which anybody reads one object for a while (OBJ-7). */
#include "client_internal.h"

#include <string.h>

#define MAX_PRESIGN_S 3600

lake_status lake_presign_read(lake_client *client, const struct lake_data_location *location,
                              uint32_t expires_s, struct lake_presigned *out,
                              struct lake_error *err)
{
    struct storage_store *stage;
    struct storage_presigned presigned;
    struct lake_str key;
    lake_error_clear(err);
    if (expires_s == 0 || expires_s > MAX_PRESIGN_S)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a presigned URL lives 1 to %d seconds, %u were asked for", MAX_PRESIGN_S,
                         expires_s);
    lake_status status = client_stage(client, &stage, err);
    if (status == LAKE_OK)
        status = client_location_key(client, location, &key, err);
    if (status == LAKE_OK)
        status = storage_presign_read(stage, key, expires_s, &presigned, err);
    if (status != LAKE_OK)
        return status;
    *out =
        (struct lake_presigned){.url = presigned.url, .expires_unix_ms = presigned.expires_unix_ms};
    return LAKE_OK;
}

void lake_presigned_fini(struct lake_presigned *presigned)
{
    if (presigned->url != NULL)
        explicit_bzero(presigned->url, strlen(presigned->url));
    base_free(presigned->url);
    *presigned = (struct lake_presigned){0};
}
