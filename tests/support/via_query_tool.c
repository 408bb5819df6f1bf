/* libs: client */
/*
 * via_query_tool HOST:PORT presign|open|range|seek URI SIZE SHA256 [SECONDS | START END]
 * A query-only client with the token in VIA_QUERY_TOKEN and the certificate authorities in the file
 * VIA_QUERY_CA, if there are any. Prints the URL and when
 * it ends, or the bytes; else, to stderr, the error, and ends with 1.
 */
#include <lake/lake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL: none. */
static char *read_ca(void)
{
    static char pem[65536];
    const char *path = getenv("VIA_QUERY_CA");
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    if (file == NULL)
        return NULL;
    pem[fread(pem, 1, sizeof(pem) - 1, file)] = '\0';
    (void)fclose(file);
    return pem;
}

static lake_status print_url(lake_client *client, const struct lake_data_location *location,
                             uint32_t seconds, struct lake_error *error)
{
    struct lake_presigned presigned;
    lake_status status = lake_presign_read_via_query(client, location, seconds, &presigned, error);
    if (status == LAKE_OK) {
        printf("%s\n%lld\n", presigned.url, (long long)presigned.expires_unix_ms);
        lake_presigned_fini(&presigned);
    }
    return status;
}

static lake_status print_bytes(lake_reader *reader, struct lake_error *error)
{
    static char block[65536];
    size_t got = 0;
    lake_status status;
    while ((status = lake_reader_read(reader, block, sizeof(block), &got, error)) == LAKE_OK &&
           got > 0)
        (void)fwrite(block, 1, got, stdout);
    return status;
}

/* The first byte, and after VIA_QUERY_PAUSE seconds [start, end); "verified" to stderr when it is.
 */
static lake_status seek(lake_client *client, const struct lake_data_location *location,
                        int64_t start, int64_t end, struct lake_error *error)
{
    lake_seekable *seekable = NULL;
    size_t got = 0;
    const char *pause = getenv("VIA_QUERY_PAUSE");
    char *bytes = malloc((size_t)(end - start) + 1);
    lake_status status = lake_open_seekable_via_query(client, location, &seekable, error);
    if (status == LAKE_OK && pause != NULL) {
        status = lake_seekable_read_at(seekable, 0, bytes, 1, &got, error);
        (void)sleep((unsigned)strtoul(pause, NULL, 10));
    }
    if (status == LAKE_OK)
        status = lake_seekable_read_at(seekable, start, bytes, (size_t)(end - start), &got, error);
    if (status == LAKE_OK)
        (void)fwrite(bytes, 1, got, stdout);
    if (status == LAKE_OK && lake_seekable_is_verified(seekable))
        (void)fputs("verified\n", stderr);
    lake_seekable_free(seekable);
    free(bytes);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    struct lake_connect_options options = LAKE_CONNECT_OPTIONS_INIT;
    struct lake_data_location location = {0};
    lake_client *client = NULL;
    lake_reader *reader = NULL;
    if (argc < 6)
        return 2;
    options.bearer_token = getenv("VIA_QUERY_TOKEN");
    options.ca_pem = read_ca();
    location.uri = argv[3];
    location.media_type = "video/mp4";
    location.size_bytes = strtoll(argv[4], NULL, 10);
    (void)snprintf(location.sha256_hex, sizeof(location.sha256_hex), "%s", argv[5]);
    lake_status status = lake_connect_query_only(argv[1], &options, &client, &error);
    if (status == LAKE_OK && strcmp(argv[2], "presign") == 0 && argc == 7)
        status = print_url(client, &location, (uint32_t)strtoul(argv[6], NULL, 10), &error);
    else if (status == LAKE_OK && strcmp(argv[2], "open") == 0)
        status = lake_open_via_query(client, &location, &reader, &error);
    else if (status == LAKE_OK && strcmp(argv[2], "range") == 0 && argc == 8)
        status = lake_open_range_via_query(client, &location, strtoll(argv[6], NULL, 10),
                                           strtoll(argv[7], NULL, 10), &reader, &error);
    else if (status == LAKE_OK && strcmp(argv[2], "seek") == 0 && argc == 8)
        status =
            seek(client, &location, strtoll(argv[6], NULL, 10), strtoll(argv[7], NULL, 10), &error);
    if (status == LAKE_OK && reader != NULL)
        status = print_bytes(reader, &error);
    if (status != LAKE_OK)
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
    lake_reader_free(reader);
    lake_client_unref(client);
    return status != LAKE_OK;
}
