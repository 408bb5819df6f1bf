/* lake lance cat and take: rows on the screen or into a file. */
#include "lance_cli.h"

#include <errno.h>
#include <sql/sql.h>
#include <string.h>

#define TAKEN_SCHEMA "lance"
#define TAKEN_TABLE  "dataset"

#define FILTERED_BATCH_ROWS  16384
#define FILTERED_BATCH_BYTES (UINT64_C(8) << 20) /* as a scan's */

/* ---- columns ---- */

struct columns {
    uint32_t *indices;
    size_t count;
};

static lake_status add_column(const struct ArrowSchema *schema, struct lake_str name,
                              struct columns *columns, struct lake_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (!base_str_equal_c(name, schema->children[i]->name))
            continue;
        for (size_t j = 0; j < columns->count; j++) {
            if (columns->indices[j] == (uint32_t)i)
                return lake_fail(err, LAKE_INVALID_ARGUMENT, "column %.*s is named twice",
                                 LAKE_STR_FMT(name));
        }
        columns->indices[columns->count++] = (uint32_t)i;
        return LAKE_OK;
    }
    return lake_fail(err, LAKE_NOT_FOUND, "there is no column %.*s", LAKE_STR_FMT(name));
}

/* Those named, in that order, or all. base_free the indices. */
static lake_status find_columns(const struct ArrowSchema *schema, const char *names,
                                struct columns *out, struct lake_error *err)
{
    struct columns columns = {base_alloc_array((size_t)schema->n_children + 1, sizeof(uint32_t)),
                              0};
    lake_status status =
        columns.indices == NULL ? base_fail_no_memory(err, (size_t)schema->n_children) : LAKE_OK;
    for (int64_t i = 0; names == NULL && i < schema->n_children && status == LAKE_OK; i++)
        columns.indices[columns.count++] = (uint32_t)i;
    while (names != NULL && status == LAKE_OK) {
        size_t size = strcspn(names, ",");
        status = add_column(schema, (struct lake_str){names, size}, &columns, err);
        names = names[size] == ',' ? names + size + 1 : NULL;
    }
    if (status != LAKE_OK)
        base_free(columns.indices);
    else
        *out = columns;
    return status;
}

/* The schema of a scan of these columns. */
static lake_status projected_schema(struct lance_dataset *dataset, struct columns columns,
                                    struct ArrowSchema *out, struct lake_error *err)
{
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    lance_scan_options_init(&options);
    options.columns = columns.indices;
    options.column_count = columns.count;
    lake_status status = lance_scan_new(dataset, &options, &scan, err);
    if (status == LAKE_OK && ArrowSchemaDeepCopy(lance_scan_schema(scan), out) != NANOARROW_OK)
        status = base_fail_no_memory(err, sizeof(*out));
    lance_scan_free(scan);
    return status;
}

/* ---- printing ---- */

/* Releases the stream. */
static lake_status print(const struct lance_arguments *arguments, struct ArrowArrayStream *stream,
                         struct lake_error *err)
{
    FILE *out = stdout;
    enum cli_format format = arguments->options->json ? CLI_FORMAT_JSON : arguments->format;
    if (arguments->output != NULL && strcmp(arguments->output, "-") != 0)
        out = fopen(arguments->output, "wb");
    if (out == NULL) {
        stream->release(stream);
        return base_fail_errno(err, errno, "%s cannot be written", arguments->output);
    }
    lake_status status = cli_print_stream(stream, format, out, NULL, err);
    if (out != stdout && fclose(out) != 0 && status == LAKE_OK)
        status = base_fail_errno(err, errno, "%s cannot be written", arguments->output);
    return status;
}

/* ---- cat ---- */

/* The rows that pass are found by the engine and taken by their addresses, as batches of bounded
 * size: the engine lacks some of Arrow's types (docs/types.md), and rows have the same ones with
 * and without a filter. */
struct filtered {
    struct lance_dataset *dataset;
    struct columns columns;
    struct ArrowSchema schema;
    struct sql_engine *engine;
    struct sql_query *query;
    struct ArrowArray found; /* addresses */
    int64_t taken;           /* of these */
    int64_t batch_rows;
    struct lake_error error;
};

static int filtered_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    struct filtered *filtered = stream->private_data;
    return ArrowSchemaDeepCopy(&filtered->schema, out);
}

static int filtered_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct filtered *filtered = stream->private_data;
    struct ArrowArray *found = &filtered->found;
    memset(out, 0, sizeof(*out));
    while (found->release == NULL || filtered->taken == found->length) {
        bool end = false;
        if (found->release != NULL)
            ArrowArrayRelease(found);
        filtered->taken = 0;
        if (sql_query_next(filtered->query, found, &end, &filtered->error) != LAKE_OK)
            return EIO;
        if (end)
            return 0;
    }
    const struct ArrowArray *addresses = found->children[0];
    const uint64_t *rows =
        (const uint64_t *)addresses->buffers[1] + addresses->offset + filtered->taken;
    int64_t count = BASE_MIN(found->length - filtered->taken, filtered->batch_rows);
    filtered->taken += count;
    return lance_take(filtered->dataset, LANCE_TAKE_ADDRESSES, rows, (size_t)count,
                      filtered->columns.indices, filtered->columns.count, out,
                      &filtered->error) == LAKE_OK
               ? 0
               : EIO;
}

static const char *filtered_error(struct ArrowArrayStream *stream)
{
    struct filtered *filtered = stream->private_data;
    return filtered->error.message;
}

static void filtered_release(struct ArrowArrayStream *stream)
{
    struct filtered *filtered = stream->private_data;
    if (filtered->found.release != NULL)
        ArrowArrayRelease(&filtered->found);
    if (filtered->schema.release != NULL)
        ArrowSchemaRelease(&filtered->schema);
    sql_query_free(filtered->query);
    sql_engine_free(filtered->engine);
    stream->release = NULL;
}

/* The statement that finds them; row order is the scan's. */
static lake_status find_rows(struct filtered *filtered, const char *filter, struct lake_error *err)
{
    struct sql_engine_options options;
    struct base_buffer sql;
    struct sql_table table = {.catalog = "lake",
                              .schema = TAKEN_SCHEMA,
                              .table = TAKEN_TABLE,
                              .dataset = filtered->dataset,
                              .row_addresses = true};
    base_buffer_init(&sql, (size_t)16 << 20);
    sql_engine_options_init(&options);
    lake_status status = sql_engine_open(&options, &filtered->engine, err);
    if (status == LAKE_OK)
        status = sql_expression_check(filtered->engine, base_str_of(filter), err);
    if (status == LAKE_OK)
        status = base_buffer_printf(&sql, err,
                                    "SELECT \"" SQL_ROW_ADDRESS "\" FROM " TAKEN_SCHEMA
                                    "." TAKEN_TABLE " WHERE (\n%s\n)",
                                    filter);
    if (status == LAKE_OK)
        status =
            sql_query_prepare(filtered->engine, (struct lake_str){(const char *)sql.data, sql.size},
                              &table, 1, NULL, &filtered->query, err);
    base_buffer_fini(&sql);
    return status;
}

static lake_status cat_filtered(const struct lance_arguments *arguments,
                                struct lance_dataset *dataset, struct columns columns,
                                struct lake_error *err)
{
    uint64_t row_bytes = BASE_MAX(lance_dataset_row_bytes(dataset), (uint64_t)1);
    uint64_t rows = BASE_MIN(FILTERED_BATCH_BYTES / row_bytes, (uint64_t)FILTERED_BATCH_ROWS);
    struct filtered filtered = {
        .dataset = dataset, .columns = columns, .batch_rows = (int64_t)BASE_MAX(rows, (uint64_t)1)};
    struct ArrowArrayStream stream = {.get_schema = filtered_schema,
                                      .get_next = filtered_next,
                                      .get_last_error = filtered_error,
                                      .release = filtered_release,
                                      .private_data = &filtered};
    lake_status status = projected_schema(dataset, columns, &filtered.schema, err);
    if (status == LAKE_OK)
        status = find_rows(&filtered, arguments->filter, err);
    if (status == LAKE_OK)
        status = print(arguments, &stream, err);
    else
        filtered_release(&stream);
    return status;
}

lake_status lance_cat(const struct lance_arguments *arguments, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct columns columns = {0};
    lake_status status = lance_open(arguments, &dataset, err);
    if (status != LAKE_OK)
        return status;
    status = find_columns(lance_dataset_schema(dataset), arguments->columns, &columns, err);
    if (status == LAKE_OK && arguments->filter != NULL) {
        status = cat_filtered(arguments, dataset, columns, err);
    } else if (status == LAKE_OK) {
        struct lance_scan_options options;
        struct ArrowArrayStream stream;
        lance_scan_options_init(&options);
        options.columns = columns.indices;
        options.column_count = columns.count;
        status = lance_scan_stream(dataset, &options, &stream, err);
        if (status == LAKE_OK)
            status = print(arguments, &stream, err);
    }
    base_free(columns.indices);
    lance_dataset_unref(dataset);
    return status;
}

/* ---- take ---- */

/* The next number of a list, and where the text goes on; NULL: behind the last one. */
static bool next_row(const char **text, uint64_t *out)
{
    size_t size = strcspn(*text, ",");
    bool number = base_str_to_u64((struct lake_str){*text, size}, out);
    *text = (*text)[size] == ',' ? *text + size + 1 : NULL;
    return number;
}

bool lance_rows_are_numbers(const char *text)
{
    uint64_t row;
    while (text != NULL) {
        if (!next_row(&text, &row))
            return false;
    }
    return true;
}

/* Of a list of numbers; base_free the rows. */
static lake_status parse_rows(const char *text, uint64_t **out, size_t *count,
                              struct lake_error *err)
{
    size_t most = 1;
    for (const char *p = text; *p != '\0'; p++)
        most += *p == ',';
    uint64_t *rows = base_alloc_array(most, sizeof(*rows));
    if (rows == NULL)
        return base_fail_no_memory(err, most);
    for (*count = 0; text != NULL; (*count)++)
        (void)next_row(&text, &rows[*count]);
    *out = rows;
    return LAKE_OK;
}

/* One batch as a stream. */
struct taken {
    struct ArrowSchema schema;
    struct ArrowArray rows;
};

static int taken_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    struct taken *taken = stream->private_data;
    return ArrowSchemaDeepCopy(&taken->schema, out);
}

static int taken_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct taken *taken = stream->private_data;
    *out = taken->rows;
    memset(&taken->rows, 0, sizeof(taken->rows));
    return 0;
}

static const char *taken_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return NULL;
}

static void taken_release(struct ArrowArrayStream *stream)
{
    struct taken *taken = stream->private_data;
    if (taken->rows.release != NULL)
        taken->rows.release(&taken->rows);
    stream->release = NULL;
}

lake_status lance_take_rows(const struct lance_arguments *arguments, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct columns columns = {0};
    struct taken taken = {0};
    struct ArrowArrayStream stream = {.get_schema = taken_schema,
                                      .get_next = taken_next,
                                      .get_last_error = taken_error,
                                      .release = taken_release,
                                      .private_data = &taken};
    uint64_t *rows = NULL;
    size_t count = 0;
    bool ids = arguments->row_ids != NULL;
    lake_status status = parse_rows(ids ? arguments->row_ids : arguments->rows, &rows, &count, err);
    if (status == LAKE_OK)
        status = lance_open(arguments, &dataset, err);
    if (status == LAKE_OK)
        status = find_columns(lance_dataset_schema(dataset), arguments->columns, &columns, err);
    if (status == LAKE_OK)
        status = projected_schema(dataset, columns, &taken.schema, err);
    if (status == LAKE_OK)
        status = lance_take(dataset, ids ? LANCE_TAKE_IDS : LANCE_TAKE_OFFSETS, rows, count,
                            columns.indices, columns.count, &taken.rows, err);
    if (status == LAKE_OK)
        status = print(arguments, &stream, err);
    if (taken.schema.release != NULL)
        taken.schema.release(&taken.schema);
    base_free(rows);
    base_free(columns.indices);
    lance_dataset_unref(dataset);
    return status;
}
