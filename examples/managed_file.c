/*
 * Two files into a row, found again by SQL, and streamed back out (SDK-7).
 *
 *     managed_file HOST:PORT VIDEO CLOUD OUT_DIRECTORY
 *
 * No object is ever held in memory: the library copies, hashes and verifies it block by block. The
 * files of every recording that is there go to OUT_DIRECTORY as 1-video.mp4, 1-cloud.ply,
 * 2-video.mp4 and so on.
 */
#include <errno.h>
#include <lake/lake.h>
#include <stdio.h>
#include <string.h>

#define TABLE "examples.recordings"

static int failed(const char *what, const struct lake_error *error)
{
    fprintf(stderr, "%s: %s (%s)\n", what, error->message, lake_status_name(error->code));
    return 1;
}

static lake_status create_table(lake_client *client, struct lake_error *error)
{
    static const char *const columns[] = {"name:utf8!", "video:FILE", "cloud:FILE"};
    struct ArrowSchema schema;
    lake_status status = lake_schema_parse(columns, 3, &schema, error);
    if (status != LAKE_OK)
        return status;
    status = lake_create_table(client, TABLE, &schema, error);
    schema.release(&schema);
    return status == LAKE_ALREADY_EXISTS ? LAKE_OK : status;
}

static lake_status add_row(lake_client *client, const char *video, const char *cloud,
                           struct lake_error *error)
{
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    struct lake_value values[3] = {{0}};
    values[0].kind = LAKE_VALUE_TEXT;
    values[0].as.text.data = "first recording";
    values[0].as.text.size = strlen("first recording");
    values[1].kind = LAKE_VALUE_FILE_PATH;
    values[1].as.file_path.path = video;
    values[1].as.file_path.media_type = "video/mp4";
    values[2].kind = LAKE_VALUE_FILE_PATH;
    values[2].as.file_path.path = cloud;
    values[2].as.file_path.media_type = "model/ply";
    lake_status status =
        lake_insert(client, "INSERT INTO " TABLE " (name, video, cloud) VALUES (?, ?, ?)", values,
                    3, &result, error);
    if (status != LAKE_OK)
        return status;
    printf("version %llu holds the row; its objects:\n", (unsigned long long)result.version);
    for (size_t i = 0; i < result.location_count; i++)
        printf("  %s  %lld bytes  %s\n", result.locations[i].uri,
               (long long)result.locations[i].size_bytes, result.locations[i].sha256_hex);
    lake_insert_result_fini(&result);
    return LAKE_OK;
}

/* What the library does not know of: writing a file. */
static lake_status write_failed(const char *path, struct lake_error *error)
{
    error->code = LAKE_RESOURCE_EXHAUSTED;
    snprintf(error->message, sizeof(error->message), "%.800s: %.200s", path, strerror(errno));
    return error->code;
}

static lake_status copy(lake_reader *reader, FILE *out, const char *path, struct lake_error *error)
{
    static char block[256 * 1024];
    size_t got = 0;
    lake_status status;
    while ((status = lake_reader_read(reader, block, sizeof(block), &got, error)) == LAKE_OK &&
           got > 0)
        if (fwrite(block, 1, got, out) != got)
            return write_failed(path, error);
    return status; /* LAKE_OK only when size and SHA-256 were right */
}

/* lake_download does the same and more; this shows the reader. */
static lake_status stream_to_file(lake_client *client, const struct lake_data_location *location,
                                  const char *path, struct lake_error *error)
{
    lake_reader *reader = NULL;
    lake_status status = lake_open(client, location, &reader, error);
    if (status != LAKE_OK)
        return status;
    FILE *out = fopen(path, "wb");
    status = out == NULL ? write_failed(path, error) : copy(reader, out, path, error);
    if (out != NULL && fclose(out) != 0 && status == LAKE_OK)
        status = write_failed(path, error);
    if (out != NULL && status != LAKE_OK)
        (void)remove(path); /* the bytes before a failure are of an object that is not whole */
    lake_reader_free(reader);
    return status;
}

struct target {
    const char *directory;
    int recordings;
};

static lake_status read_batch(lake_client *client, const struct ArrowSchema *schema,
                              const struct ArrowArray *batch, struct target *target,
                              struct lake_error *error)
{
    static const char *const names[] = {"video.mp4", "cloud.ply"};
    for (int64_t row = 0; row < batch->length; row++) {
        target->recordings++;
        for (size_t column = 0; column < 2; column++) {
            struct lake_data_location location;
            char path[4096];
            lake_status status =
                lake_data_location_get(schema, batch, column, row, &location, error);
            if (status != LAKE_OK)
                return status;
            snprintf(path, sizeof(path), "%s/%d-%s", target->directory, target->recordings,
                     names[column]);
            status = stream_to_file(client, &location, path, error);
            lake_data_location_fini(&location);
            if (status != LAKE_OK)
                return status;
            printf("wrote %s, verified\n", path);
        }
    }
    return LAKE_OK;
}

/* The failure of a stream, in the form of the library's other failures. */
static lake_status stream_failed(struct ArrowArrayStream *stream, struct lake_error *error)
{
    const char *message = stream->get_last_error(stream);
    error->code = lake_query_status(stream);
    snprintf(error->message, sizeof(error->message), "%s", message == NULL ? "" : message);
    return error->code;
}

static lake_status read_back(lake_client *client, const char *directory, struct lake_error *error)
{
    struct target target = {directory, 0};
    struct ArrowArrayStream stream;
    struct ArrowSchema schema = {0};
    lake_status status = lake_query(client, "SELECT video, cloud FROM " TABLE, &stream, error);
    if (status != LAKE_OK)
        return status;
    if (stream.get_schema(&stream, &schema) != 0)
        status = stream_failed(&stream, error);
    for (bool more = true; status == LAKE_OK && more;) {
        struct ArrowArray batch = {0};
        if (stream.get_next(&stream, &batch) != 0) {
            status = stream_failed(&stream, error);
            break;
        }
        more = batch.release != NULL;
        if (more) {
            status = read_batch(client, &schema, &batch, &target, error);
            batch.release(&batch);
        }
    }
    if (schema.release != NULL)
        schema.release(&schema);
    stream.release(&stream);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error error = {0};
    lake_client *client = NULL;
    if (argc != 5) {
        fprintf(stderr, "usage: managed_file HOST:PORT VIDEO CLOUD OUT_DIRECTORY\n");
        return 2;
    }
    if (lake_connect(argv[1], NULL, &client, &error) != LAKE_OK)
        return failed("connect", &error);
    int code = 0;
    if (create_table(client, &error) != LAKE_OK)
        code = failed("create", &error);
    else if (add_row(client, argv[2], argv[3], &error) != LAKE_OK)
        code = failed("insert", &error);
    else if (read_back(client, argv[4], &error) != LAKE_OK)
        code = failed("read", &error);
    lake_client_unref(client);
    return code;
}
