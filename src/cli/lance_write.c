/* lake lance write, verify and stat. */
#include "lance_cli.h"

#include <inttypes.h>
#include <string.h>

/* ---- write ---- */

bool lance_mode_parse(const char *name, enum lance_write_mode *out)
{
    static const char *const NAMES[] = {[LANCE_WRITE_CREATE] = "create",
                                        [LANCE_WRITE_APPEND] = "append",
                                        [LANCE_WRITE_OVERWRITE] = "overwrite"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(NAMES); i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            *out = (enum lance_write_mode)i;
            return true;
        }
    }
    return false;
}

lake_status lance_write(const struct lance_arguments *arguments, struct lake_error *err)
{
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    struct lance_create_options options;
    struct ArrowArrayStream stream = {0};
    struct storage_store *store = NULL;
    uint64_t version = 0;
    enum lance_write_mode mode = arguments->mode;
    const char *input = strcmp(arguments->input, "-") == 0 ? "/dev/stdin" : arguments->input;
    lance_create_options_init(&options);
    options.profile = arguments->profile;
    if (arguments->data_format != NULL)
        options.storage_version = arguments->data_format;
    limits.allow_compressed = true;
    limits.max_body_bytes = (uint64_t)4 << 30; /* a file of the caller's own */
    lake_status status = arrow_ipc_open_file(input, &limits, &stream, err);
    if (status == LAKE_OK)
        status = arrow_plain_stream(&stream, limits.max_body_bytes, err);
    if (status == LAKE_OK)
        status = lance_store_open(arguments, mode != LANCE_WRITE_APPEND, &store, err);
    if (status == LAKE_OK)
        status = lance_write_stream(store, &stream, &options, mode, &version, err);
    if (stream.release != NULL)
        stream.release(&stream);
    storage_store_unref(store);
    if (status == LAKE_OK && arguments->options->json)
        printf("{\"version\":%" PRIu64 "}\n", version);
    else if (status == LAKE_OK)
        printf("%s, now version %" PRIu64 "\n", arguments->path, version);
    return status;
}

/* ---- verify ---- */

static lake_status drain(struct ArrowArrayStream *stream, uint64_t *rows, struct lake_error *err)
{
    *rows = 0;
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0)
            return lake_fail(err, lance_scan_stream_status(stream), "%s",
                             stream->get_last_error(stream));
        if (batch.release == NULL)
            return LAKE_OK;
        *rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
}

/* Every column of every row is decoded. */
static lake_status decode_all(struct lance_dataset *dataset, struct lake_error *err)
{
    struct lance_scan_options options;
    struct ArrowArrayStream stream;
    uint64_t rows = 0;
    lance_scan_options_init(&options);
    options.column_count = LANCE_ALL_COLUMNS;
    lake_status status = lance_scan_stream(dataset, &options, &stream, err);
    if (status == LAKE_OK) {
        status = drain(&stream, &rows, err);
        stream.release(&stream);
    }
    if (status == LAKE_OK && rows != lance_dataset_row_count(dataset))
        status = lake_fail(err, LAKE_DATA_LOSS,
                           "the manifest promises %" PRIu64 " rows, the files hold %" PRIu64,
                           lance_dataset_row_count(dataset), rows);
    return status;
}

lake_status lance_verify(const struct lance_arguments *arguments, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct lance_file_check check = {0};
    lake_status status = lance_open(arguments, &dataset, err);
    if (status != LAKE_OK)
        return status;
    status = lance_dataset_check_files(dataset, &check, err);
    if (status == LAKE_OK)
        status = decode_all(dataset, err);
    if (status == LAKE_OK && arguments->options->json)
        printf("{\"version\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"files\":%" PRIu64
               ",\"bytes\":%" PRIu64 ",\"ok\":true}\n",
               lance_dataset_version(dataset), lance_dataset_row_count(dataset), check.files,
               check.bytes);
    else if (status == LAKE_OK)
        printf("version %" PRIu64 " is whole: %" PRIu64 " rows decoded, %" PRIu64
               " files of %" PRIu64 " bytes\n",
               lance_dataset_version(dataset), lance_dataset_row_count(dataset), check.files,
               check.bytes);
    lance_dataset_unref(dataset);
    return status;
}

/* ---- stat ---- */

static lake_status print_columns(const struct ArrowSchema *schema, bool json,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; i < schema->n_children && status == LAKE_OK; i++) {
        struct base_buffer text;
        base_buffer_init(&text, (size_t)1 << 20);
        status = arrow_type_format(schema->children[i], &text, err);
        if (status == LAKE_OK)
            status = base_buffer_append(&text, "", 1, err);
        if (status == LAKE_OK && json) {
            fputs(i == 0 ? "{\"name\":" : ",{\"name\":", stdout);
            cli_print_json_string(stdout, schema->children[i]->name);
            fputs(",\"type\":", stdout);
            cli_print_json_string(stdout, (const char *)text.data);
            fputs("}", stdout);
        } else if (status == LAKE_OK) {
            struct base_buffer name;
            base_buffer_init(&name, (size_t)1 << 20);
            status = cli_append_plain(&name, base_str_of(schema->children[i]->name), false, err);
            printf("  %-24.*s %s\n", (int)name.size, (const char *)name.data,
                   (const char *)text.data);
            base_buffer_fini(&name);
        }
        base_buffer_fini(&text);
    }
    return status;
}

lake_status lance_stat(const struct lance_arguments *arguments, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct lance_file_check check = {0};
    lake_status status = lance_open(arguments, &dataset, err);
    if (status != LAKE_OK)
        return status;
    status = lance_dataset_check_files(dataset, &check, err);
    if (status != LAKE_OK)
        goto out;
    const char *profile = lance_dataset_config(dataset, LANCE_CONFIG_PROFILE);
    if (arguments->options->json) {
        printf("{\"version\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"fragments\":%zu,\"files\":%" PRIu64
               ",\"bytes\":%" PRIu64 ",\"storage\":\"%s\",\"timestamp_unix_ms\":%" PRId64
               ",\"columns\":[",
               lance_dataset_version(dataset), lance_dataset_row_count(dataset),
               lance_dataset_fragment_count(dataset), check.files, check.bytes,
               lance_dataset_storage_version(dataset), lance_dataset_timestamp_unix_ms(dataset));
    } else {
        uint64_t rows = lance_dataset_row_count(dataset);
        printf("version    %" PRIu64 "\nrows       %" PRIu64 "\nfragments  %zu\nfiles      %" PRIu64
               ", %" PRIu64 " bytes",
               lance_dataset_version(dataset), rows, lance_dataset_fragment_count(dataset),
               check.files, check.bytes);
        if (rows > 0)
            printf(" (%.1f a row)", (double)check.bytes / (double)rows);
        printf("\nstorage    %s%s%s\ncolumns\n", lance_dataset_storage_version(dataset),
               profile == NULL ? "" : ", ", profile == NULL ? "" : profile);
    }
    status = print_columns(lance_dataset_schema(dataset), arguments->options->json, err);
    if (arguments->options->json)
        fputs("]}\n", stdout);
out:
    lance_dataset_unref(dataset);
    return status;
}
