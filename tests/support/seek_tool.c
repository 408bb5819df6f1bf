/* libs: client */
/*
 * seek_tool HOST:PORT URI SIZE SHA256 OFFSET:SIZE…   reads these parts through one seekable reader
 * and writes them one after the other; to stderr "verified" or "unverified", or the error, with 1
 */
#include <lake/lake.h>
#include <stdio.h>
#include <stdlib.h>

static lake_status copy_part(lake_seekable *seekable, const char *text, struct lake_error *error)
{
    char *end = NULL;
    long long offset = strtoll(text, &end, 10);
    size_t size = *end == ':' ? (size_t)strtoull(end + 1, NULL, 10) : 0;
    size_t got = 0;
    char *buffer = malloc(size + 1);
    if (buffer == NULL)
        return LAKE_RESOURCE_EXHAUSTED;
    lake_status status = lake_seekable_read_at(seekable, offset, buffer, size, &got, error);
    if (status == LAKE_OK)
        (void)fwrite(buffer, 1, got, stdout);
    free(buffer);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    struct lake_data_location location = {0};
    lake_seekable *seekable = NULL;
    lake_client *client = NULL;
    if (argc < 5)
        return 2;
    location.uri = argv[2];
    location.media_type = "video/mp4";
    location.size_bytes = strtoll(argv[3], NULL, 10);
    (void)snprintf(location.sha256_hex, sizeof(location.sha256_hex), "%s", argv[4]);
    lake_status status = lake_connect(argv[1], NULL, &client, &error);
    if (status == LAKE_OK)
        status = lake_open_seekable(client, &location, &seekable, &error);
    for (int i = 5; i < argc && status == LAKE_OK; i++)
        status = copy_part(seekable, argv[i], &error);
    if (status == LAKE_OK)
        fputs(lake_seekable_is_verified(seekable) ? "verified\n" : "unverified\n", stderr);
    else
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
    lake_seekable_free(seekable);
    lake_client_unref(client);
    return status != LAKE_OK;
}
