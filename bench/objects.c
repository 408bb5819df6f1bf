/* libs: client */
/*
 * objects put HOST:PORT FILE         prints the location: "<uri> <size> <sha256>"
 * objects read HOST:PORT URI SIZE SHA256   reads it whole, verified; prints "<seconds> <bytes>"
 *
 * objects seek HOST:PORT URI SIZE SHA256 COUNT BYTES   reads COUNT ranges of BYTES at random places
 *
 * Lake's side of verified_read and of the measures of S3.
 */
#include <lake/lake.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static lake_status read_object(lake_client *client, const struct lake_data_location *location,
                               struct lake_error *error)
{
    static char block[1 << 20];
    lake_reader *reader = NULL;
    unsigned long long bytes = 0;
    size_t got = 0;
    double started = now();
    lake_status status = lake_open(client, location, &reader, error);
    do {
        if (status == LAKE_OK)
            status = lake_reader_read(reader, block, sizeof(block), &got, error);
        bytes += got;
    } while (status == LAKE_OK && got > 0);
    lake_reader_free(reader);
    if (status == LAKE_OK)
        printf("%.6f %llu\n", now() - started, bytes);
    return status;
}

static lake_status seek_object(lake_client *client, const struct lake_data_location *location,
                               long count, long bytes, struct lake_error *error)
{
    static char block[1 << 20];
    uint64_t state = 9;
    lake_seekable *seekable = NULL;
    lake_status status = lake_open_seekable(client, location, &seekable, error);
    for (long i = 0; status == LAKE_OK && i < count; i++) {
        size_t got = 0;
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t start = (int64_t)((state >> 20) % (uint64_t)(location->size_bytes - bytes));
        status = lake_seekable_read_at(seekable, start, block, (size_t)bytes, &got, error);
        if (status == LAKE_OK && got != (size_t)bytes)
            status = LAKE_DATA_LOSS;
    }
    lake_seekable_free(seekable);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    lake_client *client = NULL;
    struct lake_data_location location = {0};
    if (argc < 4)
        return 2;
    lake_status status = lake_connect(argv[2], NULL, &client, &error);
    if (status == LAKE_OK && strcmp(argv[1], "put") == 0) {
        status = lake_upload_path(client, argv[3], NULL, NULL, NULL, &location, &error);
        if (status == LAKE_OK)
            printf("%s %lld %s\n", location.uri, (long long)location.size_bytes,
                   location.sha256_hex);
        lake_data_location_fini(&location);
    } else if (status == LAKE_OK && argc >= 6) {
        location.uri = argv[3];
        location.media_type = "application/octet-stream";
        location.size_bytes = strtoll(argv[4], NULL, 10);
        snprintf(location.sha256_hex, sizeof(location.sha256_hex), "%s", argv[5]);
        status = argc == 8 ? seek_object(client, &location, strtol(argv[6], NULL, 10),
                                         strtol(argv[7], NULL, 10), &error)
                           : read_object(client, &location, &error);
    }
    if (status != LAKE_OK)
        fprintf(stderr, "%s: %s\n", lake_status_name(status), error.message);
    lake_client_unref(client);
    return status != LAKE_OK;
}
