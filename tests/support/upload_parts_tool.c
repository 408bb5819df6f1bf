/* libs: client */
/*
 * upload_parts_tool KEY PART-BYTES BYTES [IN-FLIGHT]   uploads so many bytes, the low bytes of
 * their positions, as the client uploads a source into S3, in parts of any size; the store as for
 * s3_tool. Prints one line, the status and the message.
 */
#include <client_internal.h>
#include <upload_parts.h>

#include <stdio.h>
#include <stdlib.h>

static lake_status fill(struct upload_parts *upload, uint64_t size, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (uint64_t done = 0; done < size && status == LAKE_OK;) {
        uint8_t *room = NULL;
        size_t free_bytes = 0;
        status = upload_parts_room(upload, &room, &free_bytes, err);
        if (status != LAKE_OK)
            break;
        size_t count = (size_t)BASE_MIN((uint64_t)free_bytes, size - done);
        for (size_t i = 0; i < count; i++)
            room[i] = (uint8_t)(done + i);
        upload_parts_filled(upload, count);
        done += count;
    }
    return status == LAKE_OK ? upload_parts_commit(upload, err) : status;
}

int main(int argc, char **argv)
{
    struct lake_error err = {0};
    struct storage_s3_options options;
    struct storage_store *store = NULL;
    struct upload_parts *upload = NULL;
    uint64_t part_bytes = 0;
    uint64_t size = 0;
    uint64_t in_flight = UPLOAD_DEFAULT_IN_FLIGHT;
    if (argc < 4 || argc > 5 || !base_str_to_u64(base_str_of(argv[2]), &part_bytes) ||
        !base_str_to_u64(base_str_of(argv[3]), &size) ||
        (argc == 5 && !base_str_to_u64(base_str_of(argv[4]), &in_flight)))
        return 2;
    storage_s3_options_init(&options);
    options.bucket = getenv("S3_TOOL_BUCKET");
    options.endpoint = getenv("S3_TOOL_ENDPOINT");
    lake_status status = storage_s3_open(&options, &store, &err);
    struct upload_parts_options parts = {.stage = store,
                                         .key = argv[1],
                                         .part_bytes = (size_t)part_bytes,
                                         .in_flight = (uint32_t)in_flight};
    if (status == LAKE_OK)
        status = upload_parts_new(&parts, &upload, &err);
    if (status == LAKE_OK)
        status = fill(upload, size, &err);
    printf("%s %s\n", lake_status_name(status), err.message);
    upload_parts_free(upload, false);
    storage_store_unref(store);
    return 0;
}
