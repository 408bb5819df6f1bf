/*
 * Files through the engine, for `lake import`: an instance of its own, not locked, that lives as
 * long as the stream. With a target, CSV is read as text and cast, so that `007` stays what it is
 * in a text column and nothing is guessed from the first rows.
 */
#include "sql_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define STATEMENT_MAX_BYTES (16 * 1024 * 1024)
#define TYPE_NAME_BYTES     (64 * 1024)

struct file_stream {
    duckdb_database database;
    char *file_metadata;
    char *source; /* the FROM clause */
    bool csv;
    struct sql_bridge_query *query;
    struct ArrowSchema found;  /* the file's own columns, with a target */
    struct ArrowSchema made;   /* what the engine makes */
    struct ArrowSchema wanted; /* what the stream gives */
    struct lake_error err;
};

static void file_stream_free(struct file_stream *stream)
{
    sql_bridge_query_free(stream->query);
    duckdb_close(&stream->database);
    if (stream->found.release != NULL) {
        ArrowSchemaRelease(&stream->found);
    }
    if (stream->made.release != NULL) {
        ArrowSchemaRelease(&stream->made);
    }
    if (stream->wanted.release != NULL) {
        ArrowSchemaRelease(&stream->wanted);
    }
    base_free(stream->source);
    base_free(stream->file_metadata);
    base_free(stream);
}

/* The engine shows the statement that failed; this one is ours, and says nothing to the user. */
static void forget_statement(struct lake_error *err)
{
    char *line = err == NULL ? NULL : strstr(err->message, "\nLINE ");
    while (line != NULL && line > err->message && (line[-1] == '\n' || line[-1] == ' ')) {
        line--;
    }
    if (line != NULL) {
        *line = '\0';
    }
}

/* ---- SQL text ---- */

/* The path as a string literal that the engine takes as one file: quotes doubled, and characters of
 * its patterns in brackets. */
static lake_status append_path(struct base_buffer *sql, const char *path, struct lake_error *err)
{
    lake_status status = base_buffer_append(sql, "'", 1, err);
    for (const char *at = path; status == LAKE_OK && *at != '\0'; at++) {
        if (*at == '\'') {
            status = base_buffer_append(sql, "''", 2, err);
        } else if (*at == '*' || *at == '?' || *at == '[') {
            status = base_buffer_printf(sql, err, "[%c]", *at);
        } else {
            status = base_buffer_append(sql, at, 1, err);
        }
    }
    return status == LAKE_OK ? base_buffer_append(sql, "'", 1, err) : status;
}

static lake_status append_name(struct base_buffer *sql, const char *name, struct lake_error *err)
{
    lake_status status = base_buffer_append(sql, "\"", 1, err);
    for (const char *at = name; status == LAKE_OK && *at != '\0'; at++) {
        status = base_buffer_append(sql, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1, err);
    }
    return status == LAKE_OK ? base_buffer_append(sql, "\"", 1, err) : status;
}

static lake_status take_text(struct base_buffer *sql, char **out, struct lake_error *err)
{
    lake_status status = base_buffer_append(sql, "", 1, err);
    if (status == LAKE_OK) {
        size_t size;
        *out = (char *)base_buffer_take(sql, &size);
    }
    return status;
}

static lake_status make_source(const char *path, enum sql_file_format format, bool has_target,
                               char **out, struct lake_error *err)
{
    static const char *const READERS[] = {[SQL_FILE_PARQUET] = "read_parquet",
                                          [SQL_FILE_CSV] = "read_csv",
                                          [SQL_FILE_JSON] = "read_json"};
    const char *options = format == SQL_FILE_CSV && has_target
                              ? ", hive_partitioning = false, header = true, all_varchar = true, "
                                "allow_quoted_nulls = false)"
                              : ", hive_partitioning = false)";
    struct base_buffer sql;
    base_buffer_init(&sql, STATEMENT_MAX_BYTES);
    lake_status status = base_buffer_printf(&sql, err, "%s(", READERS[format]);
    if (status == LAKE_OK) {
        status = append_path(&sql, path, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(&sql, options, strlen(options), err);
    }
    if (status == LAKE_OK) {
        status = take_text(&sql, out, err);
    }
    base_buffer_fini(&sql);
    return status;
}

static bool has_column(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcasecmp(schema->children[i]->name, name) == 0) { /* as the engine compares names */
            return true;
        }
    }
    return false;
}

static bool is_text(const struct ArrowSchema *field)
{
    static const char *const FORMATS[] = {"u", "U", "vu", "z", "Z", "vz"};
    const char *format = field->dictionary != NULL ? field->dictionary->format : field->format;
    for (size_t i = 0; i < BASE_ARRAY_LEN(FORMATS); i++) {
        if (strcmp(format, FORMATS[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What a column is cast from: NULL when the file lacks it. In CSV an empty field is NULL, and an
 * empty one in quotes is an empty text where there can be one. */
static lake_status append_source(struct file_stream *stream, struct base_buffer *sql,
                                 const struct ArrowSchema *field, struct lake_error *err)
{
    if (!has_column(&stream->found, field->name)) {
        return base_buffer_append(sql, "NULL", 4, err);
    }
    if (!stream->csv || is_text(field)) {
        return append_name(sql, field->name, err);
    }
    lake_status status = base_buffer_printf(sql, err, "NULLIF(");
    if (status == LAKE_OK) {
        status = append_name(sql, field->name, err);
    }
    return status == LAKE_OK ? base_buffer_printf(sql, err, ", '')") : status;
}

/* `CAST(source AS type)`; with `try`, a cast that gives NULL instead of failing. */
static lake_status append_cast(struct file_stream *stream, struct base_buffer *sql, bool try,
                               const struct ArrowSchema *field, struct lake_error *err)
{
    char *type = base_alloc(TYPE_NAME_BYTES);
    struct ArrowSchema widened = {0};
    if (type == NULL || ArrowSchemaDeepCopy(field, &widened) != NANOARROW_OK) {
        base_free(type);
        return base_fail_no_memory(err, TYPE_NAME_BYTES);
    }
    lake_status status = sql_half_widen_schema(&widened, err);
    if (status == LAKE_OK) {
        status = sql_bridge_type_name(stream->database, &widened, type, TYPE_NAME_BYTES, err);
    }
    ArrowSchemaRelease(&widened);
    if (status == LAKE_OK) {
        status = base_buffer_printf(sql, err, "%sCAST(", try ? "TRY_" : "");
    }
    if (status == LAKE_OK) {
        status = append_source(stream, sql, field, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_printf(sql, err, " AS %s)", type);
    }
    base_free(type);
    return status;
}

/* The columns of `target` from `from` up to `to`, cast. */
static lake_status make_select(struct file_stream *stream, const struct ArrowSchema *target,
                               int64_t from, int64_t to, char **out, struct lake_error *err)
{
    struct base_buffer sql;
    base_buffer_init(&sql, STATEMENT_MAX_BYTES);
    lake_status status = base_buffer_printf(&sql, err, "SELECT ");
    for (int64_t i = from; status == LAKE_OK && i < to; i++) {
        if (i > from) {
            status = base_buffer_append(&sql, ", ", 2, err);
        }
        if (status == LAKE_OK) {
            status = append_cast(stream, &sql, false, target->children[i], err);
        }
        if (status == LAKE_OK) {
            status = base_buffer_append(&sql, " AS ", 4, err);
        }
        if (status == LAKE_OK) {
            status = append_name(&sql, target->children[i]->name, err);
        }
    }
    if (status == LAKE_OK) {
        status = base_buffer_printf(&sql, err, " FROM %s", stream->source);
    }
    if (status == LAKE_OK) {
        status = take_text(&sql, out, err);
    }
    base_buffer_fini(&sql);
    return status;
}

/* ---- columns by name ---- */

/* What a file lacks becomes null where the table takes nulls. */
static lake_status check_columns(const struct ArrowSchema *found, const struct ArrowSchema *target,
                                 struct lake_error *err)
{
    for (int64_t i = 0; i < target->n_children; i++) {
        if (!has_column(found, target->children[i]->name) &&
            (target->children[i]->flags & ARROW_FLAG_NULLABLE) == 0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column %s is missing from the file and takes no nulls",
                             target->children[i]->name);
        }
    }
    for (int64_t i = 0; i < found->n_children; i++) {
        if (!has_column(target, found->children[i]->name)) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the file's column %s is not a column of the table",
                             found->children[i]->name);
        }
    }
    return LAKE_OK;
}

/* After a failed cast of all columns: the first one that fails alone, by name. */
static lake_status name_bad_cast(struct file_stream *stream, const struct ArrowSchema *target,
                                 struct lake_error *err)
{
    for (int64_t i = 0; i < target->n_children; i++) {
        char *sql = NULL;
        struct sql_bridge_query *query = NULL;
        struct lake_error cause = {0};
        lake_status status = make_select(stream, target, i, i + 1, &sql, &cause);
        if (status == LAKE_OK) {
            status = sql_bridge_prepare_trusted(stream->database, sql, &query, &cause);
        }
        sql_bridge_query_free(query);
        base_free(sql);
        if (status != LAKE_OK) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "column %s: %s", target->children[i]->name,
                             cause.message);
        }
    }
    return err == NULL ? LAKE_INVALID_ARGUMENT : err->code;
}

static lake_status prepare_target(struct file_stream *stream, const struct ArrowSchema *target,
                                  struct lake_error *err)
{
    char *sql = NULL;
    lake_status status = check_columns(&stream->made, target, err);
    if (status != LAKE_OK) {
        return status;
    }
    ArrowSchemaMove(&stream->made, &stream->found);
    sql_bridge_query_free(stream->query);
    stream->query = NULL;
    status = make_select(stream, target, 0, target->n_children, &sql, err);
    if (status == LAKE_OK) {
        status = sql_bridge_prepare_trusted(stream->database, sql, &stream->query, err);
        if (status != LAKE_OK) {
            status = name_bad_cast(stream, target, err);
        }
    }
    base_free(sql);
    if (status == LAKE_OK) {
        status = sql_result_schema(stream->query, &stream->made, err);
    }
    if (status == LAKE_OK) {
        status = sql_recast_check(target, &stream->made, err);
    }
    if (status == LAKE_OK && ArrowSchemaDeepCopy(target, &stream->wanted) != NANOARROW_OK) {
        status = base_fail_no_memory(err, sizeof(*target));
    }
    return status;
}

/* ---- the stream ---- */

static int errno_of(lake_status status)
{
    return status == LAKE_RESOURCE_EXHAUSTED ? ENOMEM : status == LAKE_UNAVAILABLE ? EIO : EINVAL;
}

static int stream_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct file_stream *stream = self->private_data;
    return ArrowSchemaDeepCopy(&stream->wanted, out);
}

/* A value that a cast refused does not tell its column: the file is asked which one it was. */
static void name_bad_value(struct file_stream *stream)
{
    struct lake_error cause = stream->err;
    for (int64_t i = 0; i < stream->wanted.n_children; i++) {
        const struct ArrowSchema *field = stream->wanted.children[i];
        if (!has_column(&stream->found, field->name)) {
            continue;
        }
        struct base_buffer sql;
        struct sql_bridge_query *query = NULL;
        struct ArrowArray batch = {0};
        struct sql_bridge_batch_limits limits = {.rows = 1, .bytes = 1024, .offset_bytes = 1 << 30};
        bool end = true;
        base_buffer_init(&sql, STATEMENT_MAX_BYTES);
        lake_status status =
            base_buffer_printf(&sql, NULL, "SELECT 1 FROM %s WHERE ", stream->source);
        status = status == LAKE_OK ? append_source(stream, &sql, field, NULL) : status;
        status = status == LAKE_OK ? base_buffer_printf(&sql, NULL, " IS NOT NULL AND ") : status;
        status = status == LAKE_OK ? append_cast(stream, &sql, true, field, NULL) : status;
        status =
            status == LAKE_OK ? base_buffer_append(&sql, " IS NULL LIMIT 1", 17, NULL) : status;
        if (status == LAKE_OK &&
            sql_bridge_prepare_trusted(stream->database, (const char *)sql.data, &query, NULL) ==
                LAKE_OK) {
            status = sql_bridge_next(query, &limits, &batch, &end, NULL);
        }
        if (batch.release != NULL) {
            ArrowArrayRelease(&batch);
        }
        sql_bridge_query_free(query);
        base_buffer_fini(&sql);
        if (status == LAKE_OK && !end) {
            (void)lake_fail(&stream->err, LAKE_INVALID_ARGUMENT, "column %s: %s", field->name,
                            cause.message);
            return;
        }
    }
}

static int stream_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    static const struct sql_bridge_batch_limits LIMITS = {
        .rows = 65536, .bytes = 16 * 1024 * 1024, .offset_bytes = INT32_MAX};
    struct file_stream *stream = self->private_data;
    struct ArrowArray batch = {0};
    bool end = false;
    memset(&stream->err, 0, sizeof(stream->err));
    lake_status status = sql_bridge_next(stream->query, &LIMITS, &batch, &end, &stream->err);
    forget_statement(&stream->err);
    if (status == LAKE_INVALID_ARGUMENT) {
        name_bad_value(stream);
    }
    if (status == LAKE_OK && !end) {
        status = sql_recast_batch(&stream->wanted, &stream->made, &batch, &stream->err);
    }
    if (status != LAKE_OK) {
        if (batch.release != NULL) {
            ArrowArrayRelease(&batch);
        }
        return errno_of(status);
    }
    *out = batch; /* released at the end, which is how a stream ends */
    return 0;
}

static const char *stream_get_last_error(struct ArrowArrayStream *self)
{
    const struct file_stream *stream = self->private_data;
    return stream->err.message[0] == '\0' ? NULL : stream->err.message;
}

static void stream_release(struct ArrowArrayStream *self)
{
    file_stream_free(self->private_data);
    self->release = NULL;
}

/* ---- opening ---- */

static lake_status check_path(const char *path, bool has_target, struct lake_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return base_fail_errno(err, errno, "cannot read %s", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "%s is not a regular file", path);
    }
    if (info.st_size == 0 && !has_target) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s is empty: it says nothing about a table's columns", path);
    }
    return LAKE_OK;
}

static lake_status open_instance(struct file_stream *stream, struct lake_error *err)
{
    static const char *const CONFIG[][2] = {{"autoinstall_known_extensions", "false"},
                                            {"autoload_known_extensions", "false"},
                                            {"temp_directory", ""}};
    duckdb_config config = NULL;
    char *message = NULL;
    if (duckdb_create_config(&config) != DuckDBSuccess) {
        return base_fail_no_memory(err, sizeof(config));
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(CONFIG); i++) {
        (void)duckdb_set_config(config, CONFIG[i][0], CONFIG[i][1]);
    }
    lake_status status = LAKE_OK;
    if (duckdb_open_ext(NULL, &stream->database, config, &message) != DuckDBSuccess) {
        status = lake_fail(err, LAKE_INTERNAL, "the SQL engine did not open: %s",
                           message == NULL ? "no message" : message);
    }
    duckdb_free(message);
    duckdb_destroy_config(&config);
    if (status == LAKE_OK) {
        status = sql_engine_run(stream->database, "SET GLOBAL TimeZone = 'UTC'", err);
    }
    if (status == LAKE_OK) {
        status = sql_file_metadata_new(&stream->file_metadata, err);
    }
    if (status == LAKE_OK) {
        struct sql_bridge_file_type type = {.extension_name = ARROW_FILE_EXTENSION_NAME,
                                            .metadata = stream->file_metadata};
        status = sql_bridge_install(stream->database, &type, err);
    }
    return status;
}

static lake_status prepare_all(struct file_stream *stream, const char *columns,
                               struct lake_error *err)
{
    char *sql = base_format("SELECT %s FROM %s", columns, stream->source);
    if (sql == NULL) {
        return base_fail_no_memory(err, strlen(stream->source));
    }
    lake_status status = sql_bridge_prepare_trusted(stream->database, sql, &stream->query, err);
    base_free(sql);
    return status == LAKE_OK ? sql_result_schema(stream->query, &stream->made, err) : status;
}

/* ---- lists of a fixed size, which Parquet does not know ---- */

/* What the file's writer said in Arrow's terms; no schema (`release` NULL) when it did not. */
static void read_arrow_schema(struct file_stream *stream, const char *path, struct ArrowSchema *out)
{
    static const struct sql_bridge_batch_limits LIMITS = {
        .rows = 1, .bytes = 16 * 1024 * 1024, .offset_bytes = INT32_MAX};
    struct base_buffer sql;
    struct sql_bridge_query *query = NULL;
    struct ArrowArray batch = {.release = NULL};
    bool end = false;
    base_buffer_init(&sql, STATEMENT_MAX_BYTES);
    lake_status status = base_buffer_printf(
        &sql, NULL, "SELECT from_base64(decode(value)) FROM parquet_kv_metadata(");
    if (status == LAKE_OK) {
        status = append_path(&sql, path, NULL);
    }
    if (status == LAKE_OK) {
        status = base_buffer_printf(&sql, NULL, ") WHERE decode(key) = 'ARROW:schema'");
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(&sql, "", 1, NULL);
    }
    if (status == LAKE_OK) {
        status = sql_bridge_prepare_trusted(stream->database, (const char *)sql.data, &query, NULL);
    }
    if (status == LAKE_OK) {
        status = sql_bridge_next(query, &LIMITS, &batch, &end, NULL);
    }
    if (status == LAKE_OK && !end && batch.children[0]->null_count == 0) {
        const int32_t *offsets = batch.children[0]->buffers[1];
        struct lake_bytes message = {batch.children[0]->buffers[2], (size_t)offsets[1]};
        (void)arrow_ipc_schema_from_bytes(message, out, NULL);
    }
    if (batch.release != NULL) {
        ArrowArrayRelease(&batch);
    }
    sql_bridge_query_free(query);
    base_buffer_fini(&sql);
}

static int64_t list_size(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowSchema *field = schema->children[i];
        uint64_t size = 0;
        if (field->name != NULL && strcmp(field->name, name) == 0 &&
            strncmp(field->format, "+w:", 3) == 0 &&
            base_str_to_u64(base_str_of(field->format + 3), &size)) {
            return (int64_t)BASE_MIN(size, (uint64_t)INT32_MAX);
        }
    }
    return 0;
}

static bool is_list_of_numbers(const struct ArrowSchema *field)
{
    const char *item = strcmp(field->format, "+l") == 0 ? field->children[0]->format : "";
    return item[0] != '\0' && item[1] == '\0' && strchr("cCsSiIlLfg", item[0]) != NULL;
}

/* Reads the file's lists that were of a fixed size, vectors and poses, as such again. */
static lake_status restore_list_sizes(struct file_stream *stream, const char *path,
                                      struct lake_error *err)
{
    struct ArrowSchema schema = {.release = NULL};
    struct base_buffer sql;
    char type[TYPE_NAME_BYTES / 16];
    int count = 0;
    read_arrow_schema(stream, path, &schema);
    if (schema.release == NULL) {
        return LAKE_OK;
    }
    base_buffer_init(&sql, STATEMENT_MAX_BYTES);
    lake_status status = base_buffer_printf(&sql, err, "* REPLACE (");
    for (int64_t i = 0; i < stream->made.n_children && status == LAKE_OK; i++) {
        const struct ArrowSchema *made = stream->made.children[i];
        int64_t size = is_list_of_numbers(made) ? list_size(&schema, made->name) : 0;
        if (size == 0 || sql_bridge_type_name(stream->database, made->children[0], type,
                                              sizeof(type), NULL) != LAKE_OK) {
            continue;
        }
        status = base_buffer_printf(&sql, err, count++ == 0 ? "CAST(" : ", CAST(");
        if (status == LAKE_OK) {
            status = append_name(&sql, made->name, err);
        }
        if (status == LAKE_OK) {
            status = base_buffer_printf(&sql, err, " AS %s[%lld]) AS ", type, (long long)size);
        }
        if (status == LAKE_OK) {
            status = append_name(&sql, made->name, err);
        }
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(&sql, ")", 2, err);
    }
    if (status == LAKE_OK && count > 0) {
        sql_bridge_query_free(stream->query);
        stream->query = NULL;
        ArrowSchemaRelease(&stream->made);
        status = prepare_all(stream, (const char *)sql.data, err);
    }
    base_buffer_fini(&sql);
    ArrowSchemaRelease(&schema);
    return status;
}

/* Without a target the engine guesses whether there is a header, and makes names up when it sees
 * none; with one the first line is the header. A table made of made-up names could take no row. */
static lake_status check_header(struct file_stream *stream, const char *path,
                                struct lake_error *err)
{
    static const char MADE_UP[] = "column0";
    char *source = NULL;
    char *sql = NULL;
    struct sql_bridge_query *query = NULL;
    struct ArrowSchema schema = {.release = NULL};
    if (strcmp(stream->made.children[0]->name, MADE_UP) != 0) {
        return LAKE_OK;
    }
    lake_status status = make_source(path, SQL_FILE_CSV, true, &source, err);
    if (status == LAKE_OK && (sql = base_format("SELECT * FROM %s", source)) == NULL) {
        status = base_fail_no_memory(err, strlen(source));
    }
    if (status == LAKE_OK) {
        status = sql_bridge_prepare_trusted(stream->database, sql, &query, err);
    }
    if (status == LAKE_OK) {
        status = sql_result_schema(query, &schema, err);
    }
    if (status == LAKE_OK && strcmp(schema.children[0]->name, MADE_UP) != 0) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the first line of %s does not name the columns of the rows below it; "
                           "write a line of names first",
                           path);
    }
    if (schema.release != NULL) {
        ArrowSchemaRelease(&schema);
    }
    sql_bridge_query_free(query);
    base_free(sql);
    base_free(source);
    return status;
}

lake_status sql_file_open(const char *path, enum sql_file_format format,
                          const struct ArrowSchema *target, struct ArrowArrayStream *out,
                          struct lake_error *err)
{
    lake_status status = check_path(path, target != NULL, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct file_stream *stream = base_calloc_array(1, sizeof(*stream));
    if (stream == NULL) {
        return base_fail_no_memory(err, sizeof(*stream));
    }
    stream->csv = format == SQL_FILE_CSV;
    status = make_source(path, format, target != NULL, &stream->source, err);
    if (status == LAKE_OK) {
        status = open_instance(stream, err);
    }
    if (status == LAKE_OK) {
        status = prepare_all(stream, "*", err);
    }
    if (status == LAKE_OK && target != NULL) {
        status = prepare_target(stream, target, err);
    } else if (status == LAKE_OK && format == SQL_FILE_CSV) {
        status = check_header(stream, path, err);
    } else if (status == LAKE_OK && format == SQL_FILE_PARQUET) {
        status = restore_list_sizes(stream, path, err);
    }
    if (status == LAKE_OK && target == NULL &&
        ArrowSchemaDeepCopy(&stream->made, &stream->wanted) != NANOARROW_OK) {
        status = base_fail_no_memory(err, sizeof(stream->made));
    }
    if (status != LAKE_OK) {
        forget_statement(err);
        file_stream_free(stream);
        return status;
    }
    *out = (struct ArrowArrayStream){.get_schema = stream_get_schema,
                                     .get_next = stream_get_next,
                                     .get_last_error = stream_get_last_error,
                                     .release = stream_release,
                                     .private_data = stream};
    return LAKE_OK;
}
