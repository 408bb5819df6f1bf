/* libs: storage base */
/*
 * The storage interface at the command line, for tests: one operation an argument list, a line of
 * JSON each. Options of the store come from the environment (S3_TOOL_*); several operations are
 * separated by "+". Prints {"status": "OK", …} and ends with 0 whatever the status.
 *
 *   s3_tool stat KEY | get KEY [FILE] | range KEY OFFSET SIZE | put KEY FILE | create KEY FILE
 *   s3_tool write KEY FILE CHUNK | create-write KEY FILE CHUNK | remove KEY | list PREFIX LIMIT
 *   s3_tool presign KEY SECONDS | probe PREFIX | version-range KEY VERSION OFFSET SIZE
 *   s3_tool stream KEY VERSION OFFSET SIZE | one-range KEY VERSION OFFSET SIZE [PAUSE-MS] |
 * parallel COUNT KEY | sleep MS | counters s3_tool upload KEY FILE PART-BYTES [IN-FLIGHT
 * [STOP-AFTER]] | uploads PREFIX s3_tool resume KEY ID FILE PART-BYTES | abort KEY ID | parts KEY
 * ID
 */
#include <base/base.h>
#include <storage/storage.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MAX_FILE ((size_t)2 * 1024 * 1024 * 1024)

static struct storage_store *store;
static struct base_buffer out; /* the fields of the line that is being made */

static void field(const char *name, const char *value)
{
    (void)base_buffer_printf(&out, NULL, ", \"%s\": ", name);
    (void)base_json_append_string(&out, base_str_of(value), NULL);
}

static void number(const char *name, uint64_t value)
{
    (void)base_buffer_printf(&out, NULL, ", \"%s\": %" PRIu64, name, value);
}

static void digest(struct lake_bytes data)
{
    uint8_t sum[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_BYTES];
    (void)base_sha256_once(data, sum, NULL);
    base_hex_encode((struct lake_bytes){sum, sizeof(sum)}, hex);
    number("size", data.size);
    field("sha256", hex);
}

static struct lake_bytes read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    size_t size = (size_t)ftell(file);
    uint8_t *data = malloc(size + 1);
    rewind(file);
    if (data == NULL || fread(data, 1, size, file) != size)
        exit(2);
    (void)fclose(file);
    return (struct lake_bytes){data, size};
}

static uint64_t number_of(const char *text)
{
    uint64_t value = 0;
    if (text == NULL || !base_str_to_u64(base_str_of(text), &value)) {
        fprintf(stderr, "not a number: %s\n", text == NULL ? "(nothing)" : text);
        exit(2);
    }
    return value;
}

static lake_status write_stream(struct lake_str key, const char *path, const char *chunk,
                                bool only_if_absent, struct lake_error *err)
{
    struct lake_bytes data = read_file(path);
    size_t step = number_of(chunk);
    struct storage_writer *writer;
    lake_status status = storage_writer_open(store, key, only_if_absent, &writer, err);
    if (status != LAKE_OK)
        return status;
    for (size_t at = 0; status == LAKE_OK && at < data.size; at += step)
        status = storage_writer_write(
            writer, (struct lake_bytes){data.data + at, BASE_MIN(step, data.size - at)}, err);
    if (status == LAKE_OK)
        status = storage_writer_commit(writer, err);
    else
        storage_writer_abort(writer);
    free((void *)(uintptr_t)data.data);
    return status;
}

static lake_status list(struct lake_str prefix, const char *limit, struct lake_error *err)
{
    char *after = strdup("");
    bool more = true;
    uint64_t pages = 0;
    lake_status status = LAKE_OK;
    (void)base_buffer_printf(&out, NULL, ", \"keys\": [");
    for (bool first = true; status == LAKE_OK && more;) {
        struct storage_list_page page;
        status = storage_list(store, prefix, base_str_of(after), number_of(limit), &page, err);
        if (status != LAKE_OK)
            break;
        pages++;
        for (size_t i = 0; i < page.count; i++, first = false) {
            (void)base_buffer_printf(&out, NULL, "%s[", first ? "" : ", ");
            (void)base_json_append_string(&out, base_str_of(page.entries[i].key), NULL);
            (void)base_buffer_printf(&out, NULL, ", %" PRIu64 "]", page.entries[i].size_bytes);
        }
        if (page.count > 0) {
            free(after);
            after = strdup(page.entries[page.count - 1].key);
        }
        more = page.more;
        storage_list_page_fini(&page);
    }
    (void)base_buffer_printf(&out, NULL, "]");
    number("pages", pages);
    free(after);
    return status;
}

/* Sends what is missing of `data`, in parts, and completes. */
static lake_status send_parts(struct storage_multipart *upload, struct lake_bytes data,
                              size_t part_bytes, size_t in_flight, uint64_t stop_after,
                              struct lake_error *err)
{
    size_t count = (data.size + part_bytes - 1) / part_bytes;
    struct storage_part *parts = calloc(count, sizeof(*parts));
    struct storage_part *held = NULL;
    size_t held_count = 0;
    size_t done = 0;
    lake_status status = storage_multipart_parts(upload, &held, &held_count, err);
    number("held", held_count);
    for (size_t i = 0; i < held_count; i++) {
        size_t at = (held[i].number - 1) * part_bytes;
        parts[held[i].number - 1] = held[i];
        if (getenv("S3_TOOL_NO_CHECKSUMS") == NULL)
            storage_part_checksum(
                (struct lake_bytes){data.data + at, BASE_MIN(part_bytes, data.size - at)},
                parts[held[i].number - 1].checksum);
    }
    for (size_t i = 0, at = 0; status == LAKE_OK && i < count; i++, at += part_bytes) {
        if (parts[i].etag[0] != '\0' || done == stop_after)
            continue;
        while (status == LAKE_OK && storage_multipart_in_flight(upload) >= in_flight) {
            struct storage_part part = {.number = 0};
            status = storage_multipart_part_finish(upload, &part, err);
            if (status == LAKE_OK)
                parts[part.number - 1] = part;
        }
        if (status == LAKE_OK)
            status = storage_multipart_part_start(
                upload, (uint32_t)i + 1,
                (struct lake_bytes){data.data + at, BASE_MIN(part_bytes, data.size - at)}, err);
        done++;
    }
    while (status == LAKE_OK && storage_multipart_in_flight(upload) > 0) {
        struct storage_part part = {.number = 0};
        status = storage_multipart_part_finish(upload, &part, err);
        if (status == LAKE_OK)
            parts[part.number - 1] = part;
    }
    if (status == LAKE_OK && done < stop_after)
        status = storage_multipart_complete(upload, parts, count, err);
    number("sent", done);
    base_free(held);
    free(parts);
    return status;
}

static lake_status upload(struct lake_str key, const char *id, char **argv, struct lake_error *err)
{
    struct lake_bytes data = read_file(argv[0]);
    size_t part_bytes = number_of(argv[1]);
    size_t in_flight = argv[2] == NULL ? 4 : number_of(argv[2]);
    uint64_t stop_after = argv[2] == NULL || argv[3] == NULL ? UINT64_MAX : number_of(argv[3]);
    struct storage_multipart *handle;
    lake_status status = id == NULL
                             ? storage_multipart_create(store, key, "video/mp4", true, &handle, err)
                             : storage_multipart_reopen(store, key, id, true, &handle, err);
    if (status != LAKE_OK)
        return status;
    field("id", storage_multipart_id(handle));
    status = send_parts(handle, data, part_bytes, in_flight, stop_after, err);
    storage_multipart_free(handle);
    free((void *)(uintptr_t)data.data);
    return status;
}

static lake_status abort_upload(struct lake_str key, const char *id, struct lake_error *err)
{
    struct storage_multipart *handle;
    lake_status status = storage_multipart_reopen(store, key, id, true, &handle, err);
    if (status != LAKE_OK)
        return status;
    status = storage_multipart_abort(handle, err);
    storage_multipart_free(handle);
    return status;
}

static lake_status list_parts(struct lake_str key, const char *id, struct lake_error *err)
{
    struct storage_multipart *handle;
    struct storage_part *parts = NULL;
    size_t count = 0;
    lake_status status = storage_multipart_reopen(store, key, id, true, &handle, err);
    if (status != LAKE_OK)
        return status;
    status = storage_multipart_parts(handle, &parts, &count, err);
    (void)base_buffer_printf(&out, NULL, ", \"parts\": [");
    for (size_t i = 0; i < count; i++) {
        (void)base_buffer_printf(&out, NULL, "%s[%u, %" PRIu64 ", ", i == 0 ? "" : ", ",
                                 parts[i].number, parts[i].size_bytes);
        (void)base_json_append_string(&out, base_str_of(parts[i].etag), NULL);
        (void)base_buffer_printf(&out, NULL, "]");
    }
    (void)base_buffer_printf(&out, NULL, "]");
    base_free(parts);
    storage_multipart_free(handle);
    return status;
}

static lake_status list_uploads(struct lake_str prefix, struct lake_error *err)
{
    struct storage_upload_entry *entries = NULL;
    size_t count = 0;
    lake_status status = storage_multipart_list(store, prefix, 100000, &entries, &count, err);
    (void)base_buffer_printf(&out, NULL, ", \"uploads\": [");
    for (size_t i = 0; i < count; i++) {
        (void)base_buffer_printf(&out, NULL, "%s[", i == 0 ? "" : ", ");
        (void)base_json_append_string(&out, base_str_of(entries[i].key), NULL);
        (void)base_buffer_printf(&out, NULL, ", ");
        (void)base_json_append_string(&out, base_str_of(entries[i].upload_id), NULL);
        (void)base_buffer_printf(&out, NULL, "]");
    }
    (void)base_buffer_printf(&out, NULL, "]");
    storage_upload_entries_free(entries, count);
    return status;
}

static lake_status read_range(struct lake_str key, const char *version, const char *offset,
                              const char *size_text, struct lake_error *err)
{
    size_t size = number_of(size_text);
    uint8_t *data = malloc(size + 1);
    lake_status status =
        storage_read_range_if(store, key, version, number_of(offset), size, data, err);
    if (status == LAKE_OK)
        digest((struct lake_bytes){data, size});
    free(data);
    return status;
}

/* What came is in the line whatever the end was. */
static lake_status drain(struct storage_stream *handle, int64_t pause_ms, struct lake_error *err)
{
    struct base_sha256 *hash = NULL;
    uint8_t sum[BASE_SHA256_BYTES];
    char hex[BASE_SHA256_HEX_BYTES];
    uint64_t total = 0;
    lake_status status = LAKE_OK;
    (void)base_sha256_new(&hash, NULL);
    for (struct lake_bytes block = {NULL, 1}; status == LAKE_OK && block.size > 0;) {
        status = storage_stream_next(handle, &block, err);
        if (status == LAKE_OK && block.size > 0)
            status = base_sha256_update(hash, block.data, block.size, err);
        if (total == 0) /* a reader that is slow once */
            base_sleep_ms(pause_ms);
        total += status == LAKE_OK ? block.size : 0;
    }
    (void)base_sha256_final(hash, sum, NULL);
    base_sha256_free(hash);
    base_hex_encode((struct lake_bytes){sum, sizeof(sum)}, hex);
    number("size", total);
    field("sha256", hex);
    return status;
}

static lake_status stream(struct lake_str key, const char *version, const char *offset,
                          const char *size_text, struct lake_error *err)
{
    struct storage_stream *handle;
    lake_status status = storage_stream_open(store, key, version, number_of(offset),
                                             number_of(size_text), &handle, err);
    if (status != LAKE_OK)
        return status;
    status = drain(handle, 0, err);
    storage_stream_free(handle);
    return status;
}

static lake_status one_range(struct lake_str key, char **argv, struct lake_error *err)
{
    struct storage_stream *handle;
    struct rusage usage;
    lake_status status = storage_range_stream_open(store, key, argv[0], number_of(argv[1]),
                                                   number_of(argv[2]), &handle, err);
    if (status != LAKE_OK)
        return status;
    status = drain(handle, argv[3] == NULL ? 0 : (int64_t)number_of(argv[3]), err);
    storage_stream_free(handle);
    (void)getrusage(RUSAGE_SELF, &usage);
    number("peak_kib", (uint64_t)usage.ru_maxrss);
    return status;
}

static lake_status get(struct lake_str key, const char *path, struct lake_error *err)
{
    struct base_buffer whole;
    base_buffer_init(&whole, MAX_FILE);
    lake_status status = storage_read_all(store, key, &whole, err);
    if (status == LAKE_OK)
        digest(base_buffer_view(&whole));
    if (status == LAKE_OK && path != NULL) {
        FILE *file = fopen(path, "wb");
        if (file == NULL || fwrite(whole.data, 1, whole.size, file) != whole.size)
            exit(2);
        (void)fclose(file);
    }
    base_buffer_fini(&whole);
    return status;
}

static lake_status stat_key(struct lake_str key, struct lake_error *err)
{
    struct storage_object_info info = {.size_bytes = 0};
    lake_status status = storage_stat(store, key, &info, err);
    if (status == LAKE_OK) {
        number("size", info.size_bytes);
        number("modified", (uint64_t)info.modified_unix_ms);
        field("version", info.version);
    }
    return status;
}

static lake_status presign(struct lake_str key, const char *seconds, struct lake_error *err)
{
    struct storage_presigned presigned;
    lake_status status =
        storage_presign_read(store, key, (uint32_t)number_of(seconds), &presigned, err);
    if (status == LAKE_OK) {
        field("url", presigned.url);
        number("expires", (uint64_t)presigned.expires_unix_ms);
        storage_presigned_fini(&presigned);
    }
    return status;
}

/* ---- several readers at once ---- */

struct reader {
    const char *key;
    lake_status status;
    struct lake_error error;
};

static void *read_in_thread(void *context)
{
    struct reader *reader = context;
    struct storage_object_info info;
    reader->status = storage_stat(store, base_str_of(reader->key), &info, &reader->error);
    return NULL;
}

static lake_status parallel(const char *count_text, const char *key, struct lake_error *err)
{
    enum {
        MAX = 64
    };
    struct reader readers[MAX];
    pthread_t threads[MAX];
    size_t count = BASE_MIN(number_of(count_text), (uint64_t)MAX);
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < count; i++) {
        readers[i] = (struct reader){.key = key};
        (void)pthread_create(&threads[i], NULL, read_in_thread, &readers[i]);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL);
        if (readers[i].status != LAKE_OK) {
            status = readers[i].status;
            *err = readers[i].error;
        }
    }
    return status;
}

static lake_status run(char **argv, struct lake_error *err)
{
    const char *name = argv[0];
    struct lake_str key = base_str_of(argv[1]);
    struct lake_bytes data = {NULL, 0};
#define IS(text) (strcmp(name, (text)) == 0)
    if (IS("stat"))
        return stat_key(key, err);
    if (IS("get"))
        return get(key, argv[2], err);
    if (IS("range"))
        return read_range(key, "", argv[2], argv[3], err);
    if (IS("stream"))
        return stream(key, argv[2], argv[3], argv[4], err);
    if (IS("one-range"))
        return one_range(key, argv + 2, err);
    if (IS("version-range"))
        return read_range(key, argv[2], argv[3], argv[4], err);
    if (IS("put") || IS("create")) {
        data = read_file(argv[2]);
        lake_status status = IS("put") ? storage_put(store, key, data, err)
                                       : storage_put_if_absent(store, key, data, err);
        free((void *)(uintptr_t)data.data);
        return status;
    }
    if (IS("write") || IS("create-write"))
        return write_stream(key, argv[2], argv[3], IS("create-write"), err);
    if (IS("remove"))
        return storage_remove(store, key, err);
    if (IS("list"))
        return list(key, argv[2], err);
    if (IS("presign"))
        return presign(key, argv[2], err);
    if (IS("probe"))
        return storage_probe_put_if_absent(store, key, err);
    if (IS("upload"))
        return upload(key, NULL, argv + 2, err);
    if (IS("resume"))
        return upload(key, argv[2], argv + 3, err);
    if (IS("abort"))
        return abort_upload(key, argv[2], err);
    if (IS("parts"))
        return list_parts(key, argv[2], err);
    if (IS("uploads"))
        return list_uploads(key, err);
    if (IS("parallel"))
        return parallel(argv[1], argv[2], err);
    if (IS("sleep")) {
        base_sleep_ms((int64_t)number_of(argv[1]));
        return LAKE_OK;
    }
    if (IS("counters")) {
        struct storage_s3_counters counters;
        storage_s3_counters(store, &counters);
        number("requests", counters.requests);
        number("retries", counters.retries);
        number("throttled", counters.throttled);
        number("sent", counters.sent_bytes);
        number("received", counters.received_bytes);
        return LAKE_OK;
    }
    fprintf(stderr, "no operation %s\n", name);
    exit(2);
}

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text == NULL ? fallback : number_of(text);
}

static lake_status open_store(struct lake_error *err)
{
    struct storage_s3_options options;
    storage_s3_options_init(&options);
    options.bucket = getenv("S3_TOOL_BUCKET");
    options.endpoint = getenv("S3_TOOL_ENDPOINT");
    options.region = getenv("S3_TOOL_REGION");
    options.profile = getenv("S3_TOOL_PROFILE");
    options.addressing = (enum storage_s3_addressing)setting("S3_TOOL_ADDRESSING", 0);
    options.payload = (enum storage_s3_payload)setting("S3_TOOL_PAYLOAD", 0);
    options.no_checksums = setting("S3_TOOL_NO_CHECKSUMS", 0) != 0;
    options.max_attempts = (uint32_t)setting("S3_TOOL_ATTEMPTS", options.max_attempts);
    options.retry_base_ms = (int64_t)setting("S3_TOOL_RETRY_BASE_MS", 1);
    options.retry_budget = (uint32_t)setting("S3_TOOL_RETRY_BUDGET", options.retry_budget);
    options.stall_timeout_ms = (int64_t)setting("S3_TOOL_STALL_MS", 20000);
    options.operation_timeout_ms = (int64_t)setting("S3_TOOL_TIMEOUT_MS", 60000);
    options.writer_part_bytes = setting("S3_TOOL_PART_BYTES", options.writer_part_bytes);
    struct storage_store *root;
    const char *prefix = getenv("S3_TOOL_PREFIX");
    lake_status status = storage_s3_open(&options, &root, err);
    if (status != LAKE_OK || prefix == NULL) {
        store = root;
        return status;
    }
    status = storage_child_open(root, base_str_of(prefix), &store, err);
    storage_store_unref(root);
    return status;
}

static void print(lake_status status, const struct lake_error *err)
{
    struct base_buffer line;
    base_buffer_init(&line, SIZE_MAX);
    (void)base_buffer_printf(&line, NULL,
                             "{\"status\": \"%s\", \"message\": ", lake_status_name(status));
    (void)base_json_append_string(&line, base_str_of(err->message), NULL);
    (void)base_buffer_printf(&line, NULL, ", \"cause\": ");
    (void)base_json_append_string(&line, base_str_of(err->cause), NULL);
    (void)base_buffer_append(&line, out.data, out.size, NULL);
    (void)base_buffer_append(&line, "}\n", 2, NULL);
    (void)fwrite(line.data, 1, line.size, stdout);
    (void)fflush(stdout);
    base_buffer_fini(&line);
}

int main(int argc, char **argv)
{
    struct lake_error err = {.code = LAKE_OK};
    base_buffer_init(&out, SIZE_MAX);
    lake_status status = open_store(&err);
    if (status != LAKE_OK) {
        print(status, &err);
        return 0;
    }
    for (int i = 1; i < argc;) {
        int end = i;
        while (end < argc && strcmp(argv[end], "+") != 0)
            end++;
        argv[end] = NULL;
        lake_error_clear(&err);
        base_buffer_clear(&out);
        status = run(argv + i, &err);
        print(status, &err);
        i = end + 1;
    }
    storage_store_unref(store);
    base_buffer_fini(&out);
    return 0;
}
