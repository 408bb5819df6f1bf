/* libs: client */
/*
 * presign_tool HOST:PORT URI SIZE SHA256 SECONDS   prints the URL and when it ends, or, to stderr,
 * the error and ends with 1
 */
#include <lake/lake.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    struct lake_data_location location = {0};
    struct lake_presigned presigned;
    lake_client *client = NULL;
    if (argc != 6)
        return 2;
    location.uri = argv[2];
    location.media_type = "video/mp4";
    location.size_bytes = strtoll(argv[3], NULL, 10);
    (void)snprintf(location.sha256_hex, sizeof(location.sha256_hex), "%s", argv[4]);
    lake_status status = lake_connect(argv[1], NULL, &client, &error);
    if (status == LAKE_OK)
        status = lake_presign_read(client, &location, (uint32_t)strtoul(argv[5], NULL, 10),
                                   &presigned, &error);
    if (status == LAKE_OK) {
        printf("%s\n%lld\n", presigned.url, (long long)presigned.expires_unix_ms);
        lake_presigned_fini(&presigned);
    } else {
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
    }
    lake_client_unref(client);
    return status != LAKE_OK;
}
