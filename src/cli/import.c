/* lake import: rows of Parquet, CSV, JSON and Arrow IPC files into a table. */
#include "cli_internal.h"

#include <sql/sql.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* What one append takes (SDK-4), below its 64 MiB, whatever the encoding adds. */
#define CHUNK_ROWS  10000
#define CHUNK_BYTES ((uint64_t)48 * 1024 * 1024)

enum file_kind {
    KIND_UNKNOWN,
    KIND_PARQUET,
    KIND_CSV,
    KIND_JSON,
    KIND_ARROW
};

static enum file_kind kind_of(const char *path, const char *format)
{
    static const struct {
        const char *name;
        enum file_kind kind;
    } kinds[] = {{"parquet", KIND_PARQUET}, {"pq", KIND_PARQUET},   {"csv", KIND_CSV},
                 {"tsv", KIND_CSV},         {"json", KIND_JSON},    {"jsonl", KIND_JSON},
                 {"ndjson", KIND_JSON},     {"arrow", KIND_ARROW},  {"arrows", KIND_ARROW},
                 {"ipc", KIND_ARROW},       {"feather", KIND_ARROW}};
    const char *dot = strrchr(path, '.');
    const char *name = format != NULL ? format : dot == NULL ? "" : dot + 1;
    for (size_t i = 0; i < BASE_ARRAY_LEN(kinds); i++) {
        if (strcasecmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    }
    return KIND_UNKNOWN;
}

/* Views as the text and bytes that a table has for them. */
static lake_status open_arrow(const char *path, struct ArrowArrayStream *out,
                              struct lake_error *err)
{
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    struct ArrowArrayStream stream;
    struct stat info;
    limits.allow_compressed = true;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "\"%s\" is not a regular file", path);
    lake_status status = arrow_ipc_open_file(path, &limits, &stream, err);
    if (status != LAKE_OK)
        return status;
    status = arrow_plain_stream(&stream, limits.max_body_bytes, err);
    if (status != LAKE_OK) {
        stream.release(&stream);
        return status;
    }
    *out = stream;
    return LAKE_OK;
}

static lake_status open_file(const char *path, enum file_kind kind,
                             const struct ArrowSchema *target, struct ArrowArrayStream *out,
                             struct lake_error *err)
{
    switch (kind) {
    case KIND_ARROW:
        return open_arrow(path, out, err);
    case KIND_PARQUET:
        return sql_file_open(path, SQL_FILE_PARQUET, target, out, err);
    case KIND_CSV:
        return sql_file_open(path, SQL_FILE_CSV, target, out, err);
    case KIND_JSON:
        return sql_file_open(path, SQL_FILE_JSON, target, out, err);
    default:
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s: its kind is not known from its name: give --from parquet, csv, json "
                         "or arrow",
                         path);
    }
}

/* ---- a chunk: up to CHUNK_ROWS rows of as many batches ---- */

struct chunk {
    lake_client *client;
    const char *table;
    const struct ArrowSchema *schema;
    struct ArrowArray batches[CHUNK_ROWS];
    size_t batch_count;
    int64_t rows;
    uint64_t bytes;
    uint64_t total_rows;
    uint64_t last_version;
    struct cli_progress progress;
};

static void chunk_clear(struct chunk *chunk)
{
    for (size_t i = 0; i < chunk->batch_count; i++)
        chunk->batches[i].release(&chunk->batches[i]);
    chunk->batch_count = 0;
    chunk->rows = 0;
    chunk->bytes = 0;
}

static lake_status chunk_commit(struct chunk *chunk, struct lake_error *err)
{
    if (chunk->rows == 0)
        return LAKE_OK;
    const struct ArrowArray **pointers = base_calloc_array(chunk->batch_count, sizeof(*pointers));
    if (pointers == NULL)
        return base_fail_no_memory(err, chunk->batch_count * sizeof(*pointers));
    for (size_t i = 0; i < chunk->batch_count; i++)
        pointers[i] = &chunk->batches[i];
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    lake_status status = lake_append_batches(chunk->client, chunk->table, chunk->schema, pointers,
                                             chunk->batch_count, NULL, &result, err);
    base_free((void *)pointers);
    if (status == LAKE_OK) {
        chunk->total_rows += (uint64_t)chunk->rows;
        chunk->last_version = result.version;
        cli_progress_rows(&chunk->progress, chunk->total_rows);
        lake_insert_result_fini(&result);
        chunk_clear(chunk);
    }
    return status;
}

/* Encoded bytes of these rows. */
static lake_status measure(const struct ArrowSchema *schema, struct ArrowArray *rows,
                           uint64_t *bytes, struct lake_error *err)
{
    struct arrow_ipc_encoder *encoder = NULL;
    struct arrow_batch *batch = NULL;
    struct ArrowArray again;
    lake_status status = arrow_batch_new(rows, &batch, err);
    if (status != LAKE_OK)
        return status;
    status = arrow_ipc_encoder_new(schema, &encoder, err);
    if (status == LAKE_OK)
        status = arrow_ipc_batch_bytes(encoder, batch, bytes, err);
    if (status == LAKE_OK) /* `rows` was moved in */
        status = arrow_batch_slice(batch, 0, arrow_batch_array(batch)->length, &again, err);
    if (status == LAKE_OK)
        *rows = again;
    arrow_ipc_encoder_free(encoder);
    arrow_batch_unref(batch);
    return status;
}

/* The rows from `at` on, as many as an append takes beside those that are gathered: halved until
 * they are few enough bytes, but at least one. None: what is gathered goes first. */
static lake_status take_rows(const struct chunk *chunk, struct arrow_batch *batch, int64_t at,
                             struct ArrowArray *rows, uint64_t *bytes, struct lake_error *err)
{
    int64_t count =
        BASE_MIN(arrow_batch_array(batch)->length - at, (int64_t)CHUNK_ROWS - chunk->rows);
    for (;;) {
        lake_status status = arrow_batch_slice(batch, at, count, rows, err);
        if (status == LAKE_OK)
            status = measure(chunk->schema, rows, bytes, err);
        if (status != LAKE_OK || chunk->bytes + *bytes <= CHUNK_BYTES ||
            (count == 1 && chunk->rows == 0)) /* one row above the limit: the append says so */
            return status;
        rows->release(rows);
        if (count == 1)
            return LAKE_OK;
        count = (count + 1) / 2;
    }
}

static lake_status add_rows(struct chunk *chunk, struct arrow_batch *batch, struct lake_error *err)
{
    int64_t length = arrow_batch_array(batch)->length;
    lake_status status = LAKE_OK;
    for (int64_t at = 0; at < length && status == LAKE_OK;) {
        struct ArrowArray rows = {0};
        uint64_t bytes = 0;
        status = take_rows(chunk, batch, at, &rows, &bytes, err);
        bool full = status == LAKE_OK && rows.release == NULL;
        if (status == LAKE_OK && !full) {
            at += rows.length;
            chunk->rows += rows.length;
            chunk->bytes += bytes;
            chunk->batches[chunk->batch_count++] = rows;
            full = chunk->rows == CHUNK_ROWS || chunk->bytes >= CHUNK_BYTES;
        }
        if (full)
            status = chunk_commit(chunk, err);
    }
    return status;
}

static lake_status stream_failed(struct ArrowArrayStream *stream, int code, const char *path,
                                 struct lake_error *err)
{
    const char *message = stream->get_last_error(stream);
    return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s: %s", path,
                     message == NULL ? strerror(code) : message);
}

static lake_status import_stream(struct chunk *chunk, struct ArrowArrayStream *stream,
                                 const struct cli_conversion *conversion, const char *path,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    while (status == LAKE_OK) {
        struct ArrowArray array = {0};
        struct arrow_batch *batch = NULL;
        int code = stream->get_next(stream, &array);
        if (code != 0)
            return stream_failed(stream, code, path, err);
        if (array.release == NULL)
            break;
        if (array.length == 0) {
            array.release(&array);
            continue;
        }
        if (conversion != NULL)
            status = cli_convert(conversion, &array, &array, err);
        if (status == LAKE_OK)
            status = arrow_batch_new(&array, &batch, err);
        if (status == LAKE_OK)
            status = add_rows(chunk, batch, err);
        arrow_batch_unref(batch);
    }
    return status;
}

/* The engine casts the rows of other files; Arrow's are taken as they are. */
static lake_status convert_stream(struct ArrowArrayStream *stream, const struct ArrowSchema *target,
                                  const char *path, struct cli_conversion **out,
                                  struct lake_error *err)
{
    struct ArrowSchema schema;
    int code = stream->get_schema(stream, &schema);
    if (code != 0)
        return stream_failed(stream, code, path, err);
    lake_status status = cli_conversion_new(&schema, target, out, err);
    schema.release(&schema);
    return status;
}

/* The message of `err`, with the file before it. */
static lake_status name_file(const char *path, lake_status status, struct lake_error *err)
{
    char message[LAKE_ERROR_MESSAGE_BYTES];
    if (strstr(err->message, path) != NULL)
        return status;
    snprintf(message, sizeof(message), "%s", err->message);
    snprintf(err->message, sizeof(err->message), "%s: %.900s", path, message);
    return status;
}

static lake_status import_file(struct chunk *chunk, const char *path, const char *format,
                               struct lake_error *err)
{
    struct ArrowArrayStream stream = {0};
    struct cli_conversion *conversion = NULL;
    enum file_kind kind = kind_of(path, format);
    lake_status status = open_file(path, kind, chunk->schema, &stream, err);
    if (status == LAKE_OK && kind == KIND_ARROW)
        status = convert_stream(&stream, chunk->schema, path, &conversion, err);
    if (status == LAKE_OK) {
        cli_progress_init(&chunk->progress, path);
        status = import_stream(chunk, &stream, conversion, path, err);
        if (status == LAKE_OK)
            status = chunk_commit(chunk, err);
        cli_progress_end(&chunk->progress);
    }
    cli_conversion_free(conversion);
    if (stream.release != NULL)
        stream.release(&stream);
    return status == LAKE_OK ? LAKE_OK : name_file(path, status, err);
}

/* ---- the table ---- */

static lake_status create_like(lake_client *client, const char *table, const char *path,
                               const char *format, struct lake_error *err)
{
    struct ArrowArrayStream stream = {0};
    struct ArrowSchema schema = {0};
    lake_status status = open_file(path, kind_of(path, format), NULL, &stream, err);
    if (status != LAKE_OK)
        return status;
    int code = stream.get_schema(&stream, &schema);
    if (code != 0)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "%s: its schema cannot be read: %s", path,
                           stream.get_last_error(&stream));
    else
        status = lake_create_table(client, table, &schema, err);
    if (schema.release != NULL)
        schema.release(&schema);
    stream.release(&stream);
    return status;
}

static lake_status import_files(lake_client *client, const char *table, char *const *paths,
                                size_t path_count, const char *format, bool create,
                                struct chunk *chunk, struct lake_error *err)
{
    struct lake_table_info info;
    lake_status status = lake_describe_table(client, table, &info, err);
    if (status == LAKE_NOT_FOUND && create) {
        status = create_like(client, table, paths[0], format, err);
        if (status == LAKE_OK)
            status = lake_describe_table(client, table, &info, err);
    } else if (status == LAKE_NOT_FOUND) {
        return lake_fail(err, LAKE_NOT_FOUND,
                         "there is no table %s: create it, or import with --create to take the "
                         "columns of the first file",
                         table);
    }
    if (status != LAKE_OK)
        return status;
    chunk->client = client;
    chunk->table = table;
    chunk->schema = &info.schema;
    chunk->last_version = info.version;
    for (size_t i = 0; i < path_count && status == LAKE_OK; i++)
        status = import_file(chunk, paths[i], format, err);
    chunk_clear(chunk);
    lake_table_info_fini(&info);
    return status;
}

/* What is in the table stays there, and a second try must know. */
static void add_to_message(struct lake_error *error, unsigned long long rows,
                           unsigned long long version)
{
    char message[LAKE_ERROR_MESSAGE_BYTES];
    snprintf(message, sizeof(message), "%s", error->message);
    snprintf(error->message, sizeof(error->message),
             "%.900s (%llu rows before that were imported, up to version %llu)", message, rows,
             version);
}

static int run_import(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"from=", "create", NULL};
    const char *format = NULL;
    const char *table = NULL;
    const char *value = NULL;
    bool create = false;
    size_t path_count = 0;
    int index = 0;
    char **paths = argv; /* gathered in place: never ahead of `index` */
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0)
            format = value;
        else if (which == 1)
            create = true;
        else if (which == CLI_ARGUMENT && table == NULL)
            table = value;
        else if (which == CLI_ARGUMENT)
            paths[path_count++] = (char *)(uintptr_t)value;
        else
            return cli_stop(&cli_import, which);
    }
    if (table == NULL || path_count == 0)
        return cli_usage_error(&cli_import, "a table and at least one file are needed");
    int code = cli_check_table(&cli_import, table);
    if (code != CLI_EXIT_OK)
        return code;
    if (format != NULL && kind_of("", format) == KIND_UNKNOWN)
        return cli_usage_error(&cli_import, "--from takes parquet, csv, json or arrow, not %s",
                               format);
    struct chunk *chunk = base_calloc_array(1, sizeof(*chunk));
    struct cli_session session;
    struct lake_error error = {0};
    if (chunk == NULL) {
        (void)base_fail_no_memory(&error, sizeof(*chunk));
        return cli_fail(options, &error);
    }
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status =
            import_files(session.client, table, paths, path_count, format, create, chunk, &error);
        cli_session_close(&session);
    }
    unsigned long long rows = chunk->total_rows;
    unsigned long long version = chunk->last_version;
    base_free(chunk);
    if (status != LAKE_OK) {
        if (rows > 0)
            add_to_message(&error, rows, version);
        return cli_fail(options, &error);
    }
    if (options->json)
        printf("{\"rows\": %llu, \"version\": %llu}\n", rows, version);
    else
        printf("%llu row%s into %s, now version %llu\n", rows, rows == 1 ? "" : "s", table,
               version);
    return CLI_EXIT_OK;
}

const struct cli_command cli_import = {
    "import", "add the rows of Parquet, CSV, JSON or Arrow files to a table",
    "Usage: lake import NAMESPACE.TABLE FILE… [--create] [--from parquet|csv|json|arrow]\n"
    "\n"
    "Adds the rows of files on this machine. Columns are matched by name and cast to the table's\n"
    "types (those of Arrow files only where no value can change); columns that a file lacks\n"
    "become null. Each 10,000 rows become one version; a failure keeps those before it.\n"
    "\n"
    "  --create       make the table with the first file's columns when it is not there\n"
    "  --from FORMAT  the files' format, where their names do not say\n"
    "\n"
    "Examples:\n"
    "  lake import robots.frames data/chunk-000/file-000.parquet\n"
    "  lake import lab.readings *.csv --create\n",
    run_import};
