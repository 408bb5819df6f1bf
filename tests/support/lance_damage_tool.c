/* libs: lance */
/*
 * lance_damage_tool: a data set on disk read with one of its files damaged, for all of its files.
 * The damage is in memory only.
 *
 *   lance_damage_tool STEP SMALL RANDOM SEED PATH…
 *
 * In files of up to SMALL bytes every STEP-th byte is changed, and as many ends are cut off; in
 * larger ones RANDOM bytes. Reading must end in rows that Arrow's validation passes or in an error
 * that says what is wrong with the data. Prints how many readings there were, and how many of them
 * were refused.
 */
#include <arrow/arrow.h>
#include <inttypes.h>
#include <lance/lance.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 1024
#define MAX_FILE    ((size_t)64 << 20)
#define MAX_ITEM_MS 10000

struct damaged {
    struct storage_store *inner;
    char key[STORAGE_MAX_KEY_BYTES + 1]; /* of the file that is in memory */
    const uint8_t *data;
    size_t size;
};

struct arguments {
    uint64_t step;
    uint64_t small_bytes;
    uint64_t random_count;
    uint64_t state; /* of the random numbers */
};

static uint64_t reading_count;
static uint64_t refused_count;

/* ---- the store ---- */

static lake_status damaged_stat(void *context, struct lake_str key, struct storage_object_info *out,
                                struct lake_error *err)
{
    struct damaged *damaged = context;
    lake_status status = storage_stat(damaged->inner, key, out, err);
    if (status == LAKE_OK && base_str_equal_c(key, damaged->key))
        out->size_bytes = damaged->size;
    return status;
}

static lake_status damaged_read(void *context, struct lake_str key, uint64_t offset, size_t size,
                                uint8_t *out, struct lake_error *err)
{
    struct damaged *damaged = context;
    if (!base_str_equal_c(key, damaged->key))
        return storage_read_range(damaged->inner, key, offset, size, out, err);
    if (offset > damaged->size || size > damaged->size - offset)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "the object is shorter");
    memcpy(out, damaged->data + offset, size);
    return LAKE_OK;
}

static lake_status damaged_list(void *context, struct lake_str prefix, struct lake_str start_after,
                                size_t limit, struct storage_list_page *out, struct lake_error *err)
{
    struct damaged *damaged = context;
    return storage_list(damaged->inner, prefix, start_after, limit, out, err);
}

static void damaged_free(void *context)
{
    (void)context;
}

/* ---- reading ---- */

static lake_status open_directory(void *context, const char *path, struct storage_store **out,
                                  struct lake_error *err)
{
    (void)context;
    return storage_local_open(strncmp(path, "file://", 7) == 0 ? path + 7 : path, false, out, err);
}

/* What values are is theirs: nothing in the format tells that they, or what a schema says of them,
 * were changed. */
static bool is_about_values(const char *message)
{
    static const char *const complaints[] = {"not UTF-8", "declared not null",
                                             "more digits than its precision", "outside the day"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(complaints); i++) {
        if (strstr(message, complaints[i]) != NULL)
            return true;
    }
    return false;
}

static lake_status drain(struct ArrowArrayStream *stream, struct lake_error *err)
{
    struct ArrowSchema schema;
    lake_status status = LAKE_OK;
    if (stream->get_schema(stream, &schema) != 0)
        return lake_fail(err, lance_scan_stream_status(stream), "%s",
                         stream->get_last_error(stream));
    while (status == LAKE_OK) {
        struct ArrowArray batch = {.release = NULL};
        if (stream->get_next(stream, &batch) != 0) {
            status = lake_fail(err, lance_scan_stream_status(stream), "%s",
                               stream->get_last_error(stream));
            break;
        }
        if (batch.release == NULL)
            break;
        status = arrow_array_validate(&schema, &batch, err);
        if (status != LAKE_OK)
            status = is_about_values(err->message) ? LAKE_OK : LAKE_INTERNAL;
        batch.release(&batch);
    }
    schema.release(&schema);
    return status;
}

static lake_status read_rows(struct storage_store *store, struct lake_error *err)
{
    struct lance_open_options opening;
    struct lance_scan_options options;
    struct lance_dataset *dataset = NULL;
    struct ArrowArrayStream stream = {.release = NULL};
    uint32_t columns[MAX_COLUMNS];
    lance_open_options_init(&opening);
    opening.open_base = open_directory;
    lake_status status = lance_dataset_open_with(store, NULL, NULL, &opening, &dataset, err);
    if (status != LAKE_OK)
        return status;
    lance_scan_options_init(&options);
    options.columns = columns;
    int64_t count = lance_dataset_schema(dataset)->n_children;
    for (int64_t i = 0; i < count && i < MAX_COLUMNS; i++)
        columns[options.column_count++] = (uint32_t)i;
    status = lance_scan_stream(dataset, &options, &stream, err);
    if (status == LAKE_OK) {
        status = drain(&stream, err);
        stream.release(&stream);
    }
    lance_dataset_unref(dataset);
    return status;
}

/* What the reader may say of damaged data. */
static bool is_refusal(lake_status status)
{
    switch (status) {
    case LAKE_DATA_LOSS:
    case LAKE_UNIMPLEMENTED:
    case LAKE_RESOURCE_EXHAUSTED:
    case LAKE_NOT_FOUND:
    case LAKE_INVALID_ARGUMENT:
    case LAKE_OUT_OF_RANGE:
    case LAKE_PERMISSION_DENIED: /* a path that leads out of the directory */
        return true;
    default:
        return false;
    }
}

static lake_status read_damaged(struct storage_store *store, const struct damaged *damaged,
                                size_t at, struct lake_error *err)
{
    struct lake_error found = {0};
    int64_t began = base_clock_monotonic_us();
    lake_status status = read_rows(store, &found);
    int64_t ms = (base_clock_monotonic_us() - began) / 1000;
    reading_count++;
    refused_count += status != LAKE_OK;
    if (ms > MAX_ITEM_MS)
        return lake_fail(err, LAKE_DEADLINE_EXCEEDED, "%s, byte %zu: %" PRId64 " ms", damaged->key,
                         at, ms);
    if (status != LAKE_OK && (!is_refusal(status) || found.message[0] == '\0'))
        return lake_fail(err, LAKE_INTERNAL, "%s, byte %zu: %s: %s", damaged->key, at,
                         lake_status_name(status), found.message);
    return LAKE_OK;
}

/* ---- damage ---- */

static uint64_t next_random(struct arguments *arguments)
{
    arguments->state = arguments->state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return arguments->state >> 33;
}

/* One byte changed; of small files also the end cut off there. */
static lake_status damage_at(struct arguments *arguments, struct storage_store *store,
                             struct damaged *damaged, uint8_t *data, size_t size, size_t at,
                             struct lake_error *err)
{
    static const uint8_t changes[] = {0xff, 0x01, 0x80, 0x7f};
    uint8_t good = data[at];
    damaged->size = size;
    data[at] = (uint8_t)(good ^ changes[next_random(arguments) % sizeof(changes)]);
    lake_status status = read_damaged(store, damaged, at, err);
    data[at] = good;
    if (status == LAKE_OK && size <= arguments->small_bytes) {
        damaged->size = at;
        status = read_damaged(store, damaged, at, err);
    }
    return status;
}

static lake_status damage_file(struct arguments *arguments, struct storage_store *store,
                               struct damaged *damaged, struct lake_error *err)
{
    struct base_buffer bytes;
    base_buffer_init(&bytes, MAX_FILE);
    lake_status status = storage_read_all(damaged->inner, base_str_of(damaged->key), &bytes, err);
    damaged->data = bytes.data;
    if (bytes.size > arguments->small_bytes) {
        for (uint64_t i = 0; i < arguments->random_count && status == LAKE_OK; i++)
            status = damage_at(arguments, store, damaged, bytes.data, bytes.size,
                               (size_t)(next_random(arguments) % bytes.size), err);
    } else if (bytes.size > 0) {
        for (size_t at = (size_t)(next_random(arguments) % arguments->step);
             at < bytes.size && status == LAKE_OK; at += (size_t)arguments->step)
            status = damage_at(arguments, store, damaged, bytes.data, bytes.size, at, err);
    }
    damaged->key[0] = '\0';
    base_buffer_fini(&bytes);
    return status;
}

static lake_status damage_dataset(struct arguments *arguments, const char *path,
                                  struct lake_error *err)
{
    static const struct storage_methods methods = {.stat = damaged_stat,
                                                   .read_range = damaged_read,
                                                   .list = damaged_list,
                                                   .free = damaged_free};
    struct damaged damaged = {.key = ""};
    struct storage_store *store = NULL;
    struct storage_list_page page = {0};
    struct lake_error refused = {0};
    lake_status status = storage_local_open(path, false, &damaged.inner, err);
    if (status == LAKE_OK)
        status =
            storage_store_new(&methods, &damaged, storage_store_uri(damaged.inner), &store, err);
    if (status == LAKE_OK && read_rows(store, &refused) == LAKE_OK)
        status =
            storage_list(damaged.inner, LAKE_STR(""), LAKE_STR(""), STORAGE_MAX_LIST, &page, err);
    for (size_t i = 0; i < page.count && status == LAKE_OK; i++) {
        (void)snprintf(damaged.key, sizeof(damaged.key), "%s", page.entries[i].key);
        status = damage_file(arguments, store, &damaged, err);
    }
    if (status != LAKE_OK)
        status = lake_fail_wrap(err, status, "%s", path);
    storage_list_page_fini(&page);
    storage_store_unref(store);
    storage_store_unref(damaged.inner);
    return status;
}

int main(int argc, char **argv)
{
    struct lake_error err = {0};
    lake_status status = LAKE_OK;
    if (argc < 6) {
        fprintf(stderr, "usage: see the head of lance_damage_tool.c\n");
        return 2;
    }
    struct arguments arguments = {.step = strtoull(argv[1], NULL, 10),
                                  .small_bytes = strtoull(argv[2], NULL, 10),
                                  .random_count = strtoull(argv[3], NULL, 10),
                                  .state = strtoull(argv[4], NULL, 10)};
    arguments.step = BASE_MAX(arguments.step, UINT64_C(1));
    for (int i = 5; i < argc && status == LAKE_OK; i++)
        status = damage_dataset(&arguments, argv[i], &err);
    if (status == LAKE_OK) {
        printf("%" PRIu64 " readings %" PRIu64 " refused\n", reading_count, refused_count);
        return 0;
    }
    fprintf(stderr, "%s: %s: %s\n", lake_status_name(status), err.message, err.cause);
    return 1;
}
