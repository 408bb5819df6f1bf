/* lake put, lake get: objects into the stage and out of it, alone or as values of a row. */
#include "cli_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_VALUES 10000

/* ---- media types ---- */

static const char *media_type_of(const char *path)
{
    static const struct {
        const char *extension;
        const char *media_type;
    } known[] = {{"mp4", "video/mp4"},
                 {"mkv", "video/x-matroska"},
                 {"webm", "video/webm"},
                 {"mov", "video/quicktime"},
                 {"png", "image/png"},
                 {"jpg", "image/jpeg"},
                 {"jpeg", "image/jpeg"},
                 {"ply", "model/ply"},
                 {"pcd", "application/x-pcd"},
                 {"las", "application/vnd.las"},
                 {"json", "application/json"},
                 {"csv", "text/csv"},
                 {"txt", "text/plain"},
                 {"mcap", "application/x-mcap"},
                 {"parquet", "application/vnd.apache.parquet"},
                 {"safetensors", "application/x-safetensors"}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < BASE_ARRAY_LEN(known); i++) {
        if (strcasecmp(dot + 1, known[i].extension) == 0)
            return known[i].media_type;
    }
    return "application/octet-stream";
}

static void print_location(const struct cli_options *options,
                           const struct lake_data_location *location)
{
    if (!options->json) {
        printf("%s\n", location->uri);
        return;
    }
    fputs("{\"uri\":", stdout);
    cli_print_json_string(stdout, location->uri);
    fputs(",\"media_type\":", stdout);
    cli_print_json_string(stdout, location->media_type);
    printf(",\"size_bytes\":%lld,\"sha256\":\"%s\"}\n", (long long)location->size_bytes,
           location->sha256_hex);
}

/* ---- put ---- */

static lake_status upload(lake_client *client, const char *path, const char *media_type,
                          struct lake_data_location *out, struct lake_error *err)
{
    struct cli_progress progress;
    cli_interrupt_watch();
    cli_progress_init(&progress, path);
    lake_status status =
        lake_upload_path(client, path, media_type != NULL ? media_type : media_type_of(path),
                         cli_progress_update, &progress, out, err);
    cli_progress_end(&progress);
    return status;
}

/* "column=text", taken apart in place. */
struct assignment {
    char *column;
    char *text;
    bool is_file;
};

struct put_row {
    struct assignment items[MAX_VALUES];
    struct lake_value values[MAX_VALUES];
    struct cli_progress progress[MAX_VALUES]; /* of files */
    double *floats[MAX_VALUES];
    size_t count;
};

static void put_row_free(struct put_row *row)
{
    if (row == NULL)
        return;
    for (size_t i = 0; i < row->count; i++) {
        base_free(row->floats[i]);
        base_free(row->items[i].column);
    }
    base_free(row);
}

static bool add_assignment(struct put_row *row, const char *text, bool is_file)
{
    char *copy = base_strdup(text);
    char *equals = copy == NULL ? NULL : strchr(copy, '=');
    if (equals == NULL || equals == copy || row->count == MAX_VALUES) {
        base_free(copy);
        return false;
    }
    *equals = '\0';
    row->items[row->count++] = (struct assignment){copy, equals + 1, is_file};
    return true;
}

static const struct ArrowSchema *find_column(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcasecmp(schema->children[i]->name, name) == 0) /* as SQL compares names */
            return schema->children[i];
    }
    return NULL;
}

/* "[1, 2.5]" into numbers. */
static lake_status parse_list(const char *text, double **out, size_t *count, struct lake_error *err)
{
    json_t *root = json_loads(text, JSON_DECODE_INT_AS_REAL, NULL);
    lake_status status = LAKE_OK;
    double *numbers = NULL;
    if (!json_is_array(root)) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "'%s' is no list of numbers: write [1, 2.5, 3]", text);
        goto out;
    }
    numbers = base_calloc_array(json_array_size(root) + 1, sizeof(*numbers));
    if (numbers == NULL) {
        status = base_fail_no_memory(err, json_array_size(root) * sizeof(*numbers));
        goto out;
    }
    for (size_t i = 0; i < json_array_size(root) && status == LAKE_OK; i++) {
        const json_t *item = json_array_get(root, i);
        numbers[i] = json_number_value(item);
        if (!json_is_number(item))
            status = lake_fail(err, LAKE_INVALID_ARGUMENT, "'%s' holds something else than numbers",
                               text);
    }
    if (status == LAKE_OK) {
        *out = numbers;
        *count = json_array_size(root);
        numbers = NULL;
    }
out:
    base_free(numbers);
    json_decref(root);
    return status;
}

static lake_status parse_number(const char *text, bool whole, struct lake_value *out,
                                struct lake_error *err)
{
    char *end = NULL;
    errno = 0;
    if (whole) {
        out->kind = LAKE_VALUE_INT64;
        out->as.int64 = strtoll(text, &end, 10);
    } else {
        out->kind = LAKE_VALUE_DOUBLE;
        out->as.float64 = strtod(text, &end);
    }
    if (end == text || *end != '\0' || (errno != 0 && (whole || isinf(out->as.float64))))
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "'%s' is not a%s number", text,
                         whole ? " whole" : "");
    return LAKE_OK;
}

/* What a column's text means is decided by the column's type. */
static lake_status parse_text(const struct ArrowSchema *field, const char *text,
                              struct lake_value *out, double **floats, struct lake_error *err)
{
    struct ArrowSchemaView view;
    if (ArrowSchemaViewInit(&view, field, NULL) != NANOARROW_OK)
        return lake_fail(err, LAKE_INTERNAL, "the column's type cannot be read");
    switch (view.type) {
    case NANOARROW_TYPE_BOOL:
        out->kind = LAKE_VALUE_BOOL;
        out->as.boolean = strcasecmp(text, "true") == 0;
        if (!out->as.boolean && strcasecmp(text, "false") != 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "'%s' is neither true nor false", text);
        return LAKE_OK;
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
        out->kind = LAKE_VALUE_TEXT;
        out->as.text.data = text;
        out->as.text.size = strlen(text);
        return LAKE_OK;
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        out->kind = LAKE_VALUE_BYTES;
        out->as.bytes.data = (const uint8_t *)text;
        out->as.bytes.size = strlen(text);
        return LAKE_OK;
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_FIXED_SIZE_LIST: {
        size_t count = 0;
        lake_status status = parse_list(text, floats, &count, err);
        out->kind = LAKE_VALUE_FLOAT_LIST;
        out->as.floats.data = *floats;
        out->as.floats.count = count;
        return status;
    }
    case NANOARROW_TYPE_HALF_FLOAT:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        return parse_number(text, false, out, err);
    default:
        return parse_number(text, true, out, err);
    }
}

static lake_status fill_values(lake_client *client, const char *table, struct put_row *row,
                               struct lake_error *err)
{
    struct lake_table_info info;
    lake_status status = lake_describe_table(client, table, &info, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < row->count && status == LAKE_OK; i++) {
        const struct assignment *item = &row->items[i];
        const struct ArrowSchema *field = find_column(&info.schema, item->column);
        if (field == NULL) {
            status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the table %s has no column %s", table,
                               item->column);
        } else if (item->is_file) {
            cli_interrupt_watch();
            cli_progress_init(&row->progress[i], item->text);
            row->values[i].kind = LAKE_VALUE_FILE_PATH;
            row->values[i].as.file_path.path = item->text;
            row->values[i].as.file_path.media_type = media_type_of(item->text);
            row->values[i].as.file_path.progress = cli_progress_update;
            row->values[i].as.file_path.progress_context = &row->progress[i];
        } else {
            status = parse_text(field, item->text, &row->values[i], &row->floats[i], err);
        }
    }
    lake_table_info_fini(&info);
    return status;
}

/* In quotes, with those inside doubled. */
static lake_status append_name(struct base_buffer *sql, const char *before, const char *name,
                               struct lake_error *err)
{
    lake_status status = base_buffer_append(sql, before, strlen(before), err);
    for (const char *p = name; *p != '\0' && status == LAKE_OK; p++)
        status = base_buffer_append(sql, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1, err);
    return status == LAKE_OK ? base_buffer_append(sql, "\"", 1, err) : status;
}

static lake_status insert_statement(const char *table, const struct put_row *row,
                                    struct base_buffer *sql, struct lake_error *err)
{
    lake_status status = base_buffer_printf(sql, err, "INSERT INTO %s (", table);
    for (size_t i = 0; i < row->count && status == LAKE_OK; i++)
        status = append_name(sql, i == 0 ? "\"" : ", \"", row->items[i].column, err);
    if (status == LAKE_OK)
        status = base_buffer_printf(sql, err, ") VALUES (");
    for (size_t i = 0; i < row->count && status == LAKE_OK; i++)
        status = base_buffer_printf(sql, err, "%s?", i == 0 ? "" : ", ");
    if (status == LAKE_OK)
        status = base_buffer_append(sql, ")", 2, err); /* with its NUL */
    return status;
}

static lake_status put_into(lake_client *client, const char *table, struct put_row *row,
                            struct lake_insert_result *result, struct lake_error *err)
{
    struct base_buffer sql;
    base_buffer_init(&sql, (size_t)1024 * 1024);
    lake_status status = fill_values(client, table, row, err);
    if (status == LAKE_OK)
        status = insert_statement(table, row, &sql, err);
    if (status == LAKE_OK)
        status = lake_insert(client, (const char *)sql.data, row->values, row->count, result, err);
    for (size_t i = 0; i < row->count; i++)
        cli_progress_end(&row->progress[i]);
    base_buffer_fini(&sql);
    return status;
}

static int finish_put(struct cli_options *options, const char *table, const char *path,
                      const char *media_type, struct put_row *row)
{
    struct cli_session session;
    struct lake_error error = {0};
    struct lake_data_location location = {0};
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = table == NULL ? upload(session.client, path, media_type, &location, &error)
                               : put_into(session.client, table, row, &result, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_interrupt_end(cli_fail(options, &error));
    if (table == NULL)
        print_location(options, &location);
    else if (options->json)
        printf("{\"version\": %llu, \"operation_id\": \"%s\"}\n",
               (unsigned long long)result.version, result.operation_id);
    else
        printf("1 row into %s, now version %llu\n", table, (unsigned long long)result.version);
    lake_data_location_fini(&location);
    lake_insert_result_fini(&result);
    return CLI_EXIT_OK;
}

static int cancel_put(struct cli_options *options, const char *path)
{
    struct cli_session session;
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_cancel_upload(session.client, path, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (!options->json)
        printf("the unfinished upload of %s was removed\n", path);
    return CLI_EXIT_OK;
}

static int run_put(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"into=", "set=", "file=", "media-type=", "cancel", NULL};
    const char *table = NULL;
    const char *path = NULL;
    const char *media_type = NULL;
    const char *value = NULL;
    bool cancel = false;
    int code = CLI_EXIT_OK;
    int index = 0;
    struct put_row *row = base_calloc_array(1, sizeof(*row));
    if (row == NULL)
        return CLI_EXIT_FAILED;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0) {
            table = value;
        } else if (which == 1 || which == 2) {
            if (add_assignment(row, value, which == 2))
                continue;
            code = cli_usage_error(&cli_put, "write column=value, not %s", value);
            goto out;
        } else if (which == 3) {
            media_type = value;
        } else if (which == 4) {
            cancel = true;
        } else if (which == CLI_ARGUMENT && path == NULL) {
            path = value;
        } else {
            code = which == CLI_ARGUMENT
                       ? cli_usage_error(&cli_put, "unexpected argument %s", value)
                       : cli_stop(&cli_put, which);
            goto out;
        }
    }
    if (table == NULL ? path == NULL || row->count > 0 : path != NULL || row->count == 0)
        code = cli_usage_error(&cli_put, "give a file, or --into a table with --set and --file");
    else if (table != NULL && (code = cli_check_table(&cli_put, table)) != CLI_EXIT_OK)
        goto out;
    else if (cancel && path == NULL)
        code = cli_usage_error(&cli_put, "--cancel takes the file whose upload is given up");
    else if (cancel)
        code = cancel_put(options, path);
    else
        code = finish_put(options, table, path, media_type, row);
out:
    put_row_free(row);
    return code;
}

/* ---- get ---- */

struct get {
    lake_client *client;
    const char *output; /* a file, a directory, or "-" */
    bool to_directory;
    bool ranged;    /* [start, end) only; end -1: to the object's end */
    bool via_query; /* without credentials of the stage's own */
    int64_t start, end;
    uint64_t count;
    const struct cli_options *options;
};

static lake_status copy_to_stdout(const struct get *get, const struct lake_data_location *location,
                                  struct lake_error *err)
{
    lake_reader *reader = NULL;
    static char block[1 << 20];
    int64_t end = get->end < 0 ? location->size_bytes : get->end;
    lake_status status = get->ranged
                             ? (get->via_query ? lake_open_range_via_query : lake_open_range)(
                                   get->client, location, get->start, end, &reader, err)
                             : (get->via_query ? lake_open_via_query
                                               : lake_open)(get->client, location, &reader, err);
    for (size_t got = 1; status == LAKE_OK && got > 0;) {
        status = lake_reader_read(reader, block, sizeof(block), &got, err);
        if (status == LAKE_OK && fwrite(block, 1, got, stdout) != got)
            status = cli_write_failed(stdout, err);
    }
    if (status == LAKE_OK && fflush(stdout) != 0)
        status = cli_write_failed(stdout, err);
    lake_reader_free(reader);
    return status;
}

static lake_status print_fetched(const char *path, const struct lake_data_location *location,
                                 struct lake_error *err)
{
    struct base_buffer plain;
    base_buffer_init(&plain, 2 * (size_t)PATH_MAX);
    lake_status status = cli_append_plain(&plain, base_str_of(path), false, err);
    if (status == LAKE_OK)
        printf("%.*s  %lld bytes, SHA-256 %s verified\n", (int)plain.size, (const char *)plain.data,
               (long long)location->size_bytes, location->sha256_hex);
    base_buffer_fini(&plain);
    return status;
}

static lake_status hash_file(int fd, char hex[BASE_SHA256_HEX_BYTES], struct lake_error *err)
{
    static char block[1 << 20];
    uint8_t digest[BASE_SHA256_BYTES];
    struct base_sha256 *hash = NULL;
    lake_status status = base_sha256_new(&hash, err);
    for (ssize_t got = 1; status == LAKE_OK && got != 0;) {
        got = read(fd, block, sizeof(block));
        if (cli_interrupt_seen())
            status = lake_fail(err, LAKE_CANCELLED, "the comparison of a file was cancelled");
        else if (got < 0 && errno != EINTR)
            status = base_fail_errno(err, errno, "a file cannot be read");
        else if (got > 0)
            status = base_sha256_update(hash, block, (size_t)got, err);
    }
    if (status == LAKE_OK)
        status = base_sha256_final(hash, digest, err);
    if (status == LAKE_OK)
        base_hex_encode((struct lake_bytes){digest, sizeof(digest)}, hex);
    base_sha256_free(hash);
    return status;
}

/* In a directory names come from the data. What is there is left alone: it is this object already,
 * or something that nobody has asked to replace. */
static lake_status look_for(const char *path, const struct lake_data_location *location,
                            bool *there, struct lake_error *err)
{
    struct stat info;
    char hex[BASE_SHA256_HEX_BYTES] = "";
    lake_status status = LAKE_OK;
    *there = lstat(path, &info) == 0;
    if (!*there)
        return LAKE_OK;
    if (S_ISREG(info.st_mode) && info.st_size == location->size_bytes) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        status =
            fd < 0 ? base_fail_errno(err, errno, "cannot open %s", path) : hash_file(fd, hex, err);
        if (fd >= 0)
            (void)close(fd);
    }
    if (status == LAKE_OK && strcmp(hex, location->sha256_hex) != 0)
        status = lake_fail(err, LAKE_ALREADY_EXISTS,
                           "%s is there and is not this object: it is not replaced; take another "
                           "directory, or get that object into a file with a name of its own",
                           path);
    return status;
}

/* In a directory an object is named by the last part of its URI. */
static lake_status fetch_one(struct get *get, const struct lake_data_location *location,
                             struct lake_error *err)
{
    char path[PATH_MAX];
    const char *name = strrchr(location->uri, '/');
    struct cli_progress progress;
    if (strcmp(get->output, "-") == 0) {
        get->count++;
        return copy_to_stdout(get, location, err);
    }
    if (!get->to_directory && get->count > 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the statement gives several objects: name a directory with -o, or select "
                         "one row");
    bool slash = base_str_has_suffix(base_str_of(get->output), "/");
    int size = get->to_directory ? snprintf(path, sizeof(path), "%s%s%s", get->output,
                                            slash ? "" : "/", name == NULL ? "object" : name + 1)
                                 : snprintf(path, sizeof(path), "%s", get->output);
    if (size < 0 || (size_t)size >= sizeof(path))
        return base_fail_errno(err, ENAMETOOLONG, "cannot write %s", get->output);
    bool there = false;
    cli_interrupt_watch();
    cli_progress_init(&progress, path);
    lake_status status = get->to_directory ? look_for(path, location, &there, err) : LAKE_OK;
    if (status == LAKE_OK && !there)
        status = (get->via_query ? lake_download_via_query : lake_download)(
            get->client, location, path, cli_progress_update, &progress, err);
    cli_progress_end(&progress);
    if (status == LAKE_OK && get->options->json)
        print_location(get->options, location);
    else if (status == LAKE_OK)
        status = print_fetched(path, location, err);
    get->count++;
    return status;
}

static lake_status fetch_batch(struct get *get, const struct ArrowSchema *schema,
                               const struct ArrowArray *batch, struct lake_error *err)
{
    for (int64_t row = 0; row < batch->length; row++) {
        for (int64_t c = 0; c < schema->n_children; c++) {
            struct lake_data_location location = {0};
            if (!arrow_file_schema_is(schema->children[c]))
                continue;
            lake_status status =
                lake_data_location_get(schema, batch, (size_t)c, row, &location, err);
            if (status == LAKE_NOT_FOUND) /* a null has no object */
                continue;
            if (status == LAKE_OK)
                status = fetch_one(get, &location, err);
            lake_data_location_fini(&location);
            if (status != LAKE_OK)
                return status;
        }
    }
    return LAKE_OK;
}

static bool has_file_column(const struct ArrowSchema *schema)
{
    for (int64_t c = 0; c < schema->n_children; c++) {
        if (arrow_file_schema_is(schema->children[c]))
            return true;
    }
    return false;
}

static lake_status fetch_all(struct get *get, const char *sql, struct lake_error *err)
{
    struct ArrowArrayStream stream = {0};
    struct ArrowSchema schema = {0};
    lake_status status = lake_query(get->client, sql, &stream, err);
    if (status != LAKE_OK)
        return status;
    int code = stream.get_schema(&stream, &schema);
    if (code != 0)
        status = lake_fail(err, LAKE_INTERNAL, "the result has no readable schema");
    else if (!has_file_column(&schema))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the statement selects no FILE column: select one as it is, without an "
                           "expression around it");
    while (status == LAKE_OK) {
        struct ArrowArray batch = {0};
        code = stream.get_next(&stream, &batch);
        if (code != 0)
            status =
                lake_fail(err, lake_query_status(&stream), "%s", stream.get_last_error(&stream));
        if (code != 0 || batch.release == NULL)
            break;
        status = fetch_batch(get, &schema, &batch, err);
        batch.release(&batch);
    }
    if (status == LAKE_OK && get->count == 0)
        status = lake_fail(err, LAKE_NOT_FOUND, "the statement gives no objects");
    if (schema.release != NULL)
        schema.release(&schema);
    stream.release(&stream);
    return status;
}

static int run_fetch(struct cli_options *options, struct get *get, const char *sql)
{
    struct cli_session session;
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        get->client = session.client;
        status = fetch_all(get, sql, &error);
        cli_session_close(&session);
    }
    return status == LAKE_OK ? CLI_EXIT_OK : cli_interrupt_end(cli_fail(options, &error));
}

static int run_get(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"o=", "output=", "via-query", NULL};
    struct get get = {.options = options};
    const char *sql = NULL;
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0 || which == 1)
            get.output = value;
        else if (which == 2)
            get.via_query = true;
        else if (which == CLI_ARGUMENT && sql == NULL)
            sql = value;
        else if (which == CLI_ARGUMENT)
            return cli_usage_error(&cli_get, "unexpected argument %s", value);
        else
            return cli_stop(&cli_get, which);
    }
    if (sql == NULL || get.output == NULL || get.output[0] == '\0')
        return cli_usage_error(&cli_get, "a SELECT and -o FILE, DIRECTORY or - are needed");
    struct stat info;
    struct lake_error error = {0};
    if (base_str_has_suffix(base_str_of(get.output), "/") &&
        base_make_directories(get.output, &error) != LAKE_OK)
        return cli_fail(options, &error);
    get.to_directory = stat(get.output, &info) == 0 && S_ISDIR(info.st_mode);
    return run_fetch(options, &get, sql);
}

/* ---- cat ---- */

/* "A:B" or "A:", in bytes. */
static bool parse_range(const char *text, struct get *get)
{
    const char *colon = strchr(text, ':');
    uint64_t start;
    uint64_t end = 0;
    if (colon == NULL ||
        !base_str_to_u64((struct lake_str){text, (size_t)(colon - text)}, &start) ||
        (colon[1] != '\0' && !base_str_to_u64(base_str_of(colon + 1), &end)) || start > INT64_MAX ||
        end > INT64_MAX)
        return false;
    get->ranged = true;
    get->start = (int64_t)start;
    get->end = colon[1] == '\0' ? -1 : (int64_t)end;
    return true;
}

static int run_cat(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"range=", "via-query", NULL};
    struct get get = {.options = options, .output = "-"};
    const char *sql = NULL;
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0 && !parse_range(value, &get))
            return cli_usage_error(&cli_cat,
                                   "'%s' is no range of bytes: write 0:4096, or 4096:", value);
        if (which == 1)
            get.via_query = true;
        else if (which == CLI_ARGUMENT && sql == NULL)
            sql = value;
        else if (which == CLI_ARGUMENT)
            return cli_usage_error(&cli_cat, "unexpected argument %s", value);
        else if (which != 0)
            return cli_stop(&cli_cat, which);
    }
    if (sql == NULL)
        return cli_usage_error(&cli_cat, "a SELECT of a FILE column is needed");
    return run_fetch(options, &get, sql);
}

const struct cli_command cli_put = {
    "put", "store a file, alone or in a new row",
    "Usage: lake put FILE [--media-type TYPE/SUBTYPE]\n"
    "       lake put --into NAMESPACE.TABLE [--set COLUMN=VALUE …] [--file COLUMN=PATH …]\n"
    "       lake put FILE --cancel\n"
    "\n"
    "Stores a file in your stage and prints where it is; with --into, adds a row that holds it.\n"
    "Lists are written as [1, 2.5], times as whole numbers in the column's unit; columns that are\n"
    "left out become null.\n"
    "\n"
    "With LAKE_UPLOAD_CHECKPOINT_DIR set, an interrupted upload of a file into S3 goes on when\n"
    "the same file is put again; --cancel removes what arrived of it.\n"
    "\n"
    "Examples:\n"
    "  lake put run1.mp4 --json\n"
    "  lake put --into robots.runs --set id=1 --file video=run1.mp4 --file cloud=run1.ply\n",
    run_put};

const struct cli_command cli_get = {
    "get", "read objects back, verified",
    "Usage: lake get 'SELECT file_column FROM …' -o FILE|DIRECTORY|- [--via-query]\n"
    "\n"
    "Reads the objects of the FILE columns that the statement selects. A file appears under its\n"
    "name only when its size and SHA-256 are right. With a directory, or a name that ends in /,\n"
    "every object has a file of its own there, named as the object is; one that is there already\n"
    "is not fetched again, and another file of its name not replaced. A get that was interrupted\n"
    "leaves what arrived in FILE.part-<digits>, and the same get goes on with it.\n"
    "\n"
    "--via-query is for whoever has no credentials of the object storage: Query signs a URL for\n"
    "each object, and the bytes come from object storage by it.\n"
    "\n"
    "Examples:\n"
    "  lake get 'SELECT video FROM robots.runs WHERE id = 1' -o copy.mp4\n"
    "  lake get 'SELECT video FROM robots.runs' -o videos/\n"
    "  lake get 'SELECT video FROM robots.runs LIMIT 1' -o - | ffprobe -\n",
    run_get};

const struct cli_command cli_cat = {
    "cat", "write objects, or a range of their bytes, to the standard output",
    "Usage: lake cat 'SELECT file_column FROM …' [--range START:[END]] [--via-query]\n"
    "\n"
    "Writes the objects that the statement selects to the standard output, one after the other;\n"
    "with --range only the bytes from START up to END, or to the object's end. --via-query as\n"
    "for get.\n"
    "\n"
    "Examples:\n"
    "  lake cat 'SELECT video FROM robots.runs WHERE id = 1' | ffprobe -\n"
    "  lake cat 'SELECT video FROM robots.runs WHERE id = 1' --range 0:64 | xxd\n",
    run_cat};
