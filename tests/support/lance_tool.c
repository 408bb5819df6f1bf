/* libs: lance */
/*
 * lance_tool: a data set on disk to and from Arrow IPC, for interop tests and for looking at files.
 *
 *   lance_tool cat PATH [--version N] [--branch B] [--tag T]
 *       [--columns a,b] [--batch-rows N] [--descriptions] [--row-columns]
 *       [--where COLUMN OP VALUE]… > out.arrow
 *   lance_tool write PATH in.arrow [--append|--overwrite] [--storage 2.1|2.2] [--profile NAME]
 *   lance_tool schema PATH [--version N]
 *   lance_tool drain PATH                     decodes everything, one batch at a time; prints rows
 *
 * To read from, PATH may also be an s3:// URI; the environment says the rest.
 */
#include <arrow/arrow.h>
#include <lance/lance.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lance_conditions.h"

#define MAX_COLUMNS 1024

struct arguments {
    const char *command;
    const char *path;
    const char *input;
    const char *columns;
    const char *storage;
    const char *branch;
    const char *tag;
    struct conditions *where;
    enum lance_profile profile;
    uint64_t version;
    uint32_t batch_rows;
    enum lance_write_mode mode;
    bool descriptions;
    bool row_columns;
};

static bool parse_arguments(int argc, char **argv, struct conditions *where, struct arguments *out)
{
    *out = (struct arguments){.storage = "2.2", .where = where};
    if (argc < 3)
        return false;
    out->command = argv[1];
    out->path = argv[2];
    for (int i = 3; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--append") == 0)
            out->mode = LANCE_WRITE_APPEND;
        else if (strcmp(argv[i], "--overwrite") == 0)
            out->mode = LANCE_WRITE_OVERWRITE;
        else if (strcmp(argv[i], "--descriptions") == 0)
            out->descriptions = true;
        else if (strcmp(argv[i], "--row-columns") == 0)
            out->row_columns = true;
        else if (strcmp(argv[i], "--where") == 0 && conditions_take(where, argc - i, argv + i))
            i += 3;
        else if (strcmp(argv[i], "--branch") == 0 && has_value)
            out->branch = argv[++i];
        else if (strcmp(argv[i], "--tag") == 0 && has_value)
            out->tag = argv[++i];
        else if (strcmp(argv[i], "--version") == 0 && has_value)
            out->version = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--batch-rows") == 0 && has_value)
            out->batch_rows = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--columns") == 0 && has_value)
            out->columns = argv[++i];
        else if (strcmp(argv[i], "--storage") == 0 && has_value)
            out->storage = argv[++i];
        else if (strcmp(argv[i], "--profile") == 0 && has_value &&
                 lance_profile_parse(argv[i + 1], &out->profile))
            i++;
        else if (argv[i][0] != '-' && out->input == NULL)
            out->input = argv[i];
        else
            return false;
    }
    return true;
}

/* ---- reading ---- */

/* A tool for whoever has the machine's files may follow a clone wherever it leads. */
static lake_status open_directory(void *context, const char *path, struct storage_store **out,
                                  struct lake_error *err)
{
    (void)context;
    return storage_local_open(strncmp(path, "file://", 7) == 0 ? path + 7 : path, false, out, err);
}

static lake_status open_dataset(const struct arguments *arguments, struct storage_store *store,
                                struct lance_dataset **out, struct lake_error *err)
{
    struct lance_open_options options;
    lance_open_options_init(&options);
    options.version = arguments->version;
    options.branch = arguments->branch;
    options.tag = arguments->tag;
    options.open_base = open_directory;
    return lance_dataset_open_with(store, NULL, NULL, &options, out, err);
}

static lake_status find_columns(const struct ArrowSchema *schema, const char *names,
                                uint32_t *columns, size_t *count, struct lake_error *err)
{
    *count = 0;
    if (names == NULL) {
        for (int64_t i = 0; i < schema->n_children && i < MAX_COLUMNS; i++)
            columns[(*count)++] = (uint32_t)i;
        return LAKE_OK;
    }
    while (*names != '\0' && *count < MAX_COLUMNS) {
        size_t size = strcspn(names, ",");
        int64_t found = 0;
        while (found < schema->n_children &&
               (strlen(schema->children[found]->name) != size ||
                memcmp(schema->children[found]->name, names, size) != 0))
            found++;
        if (found == schema->n_children)
            return lake_fail(err, LAKE_NOT_FOUND, "no column \"%.*s\"", (int)size, names);
        columns[(*count)++] = (uint32_t)found;
        names += size + (names[size] == ',');
    }
    return LAKE_OK;
}

static lake_status drain(struct ArrowArrayStream *stream, struct lake_error *err)
{
    for (uint64_t rows = 0;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0)
            return lake_fail(err, lance_scan_stream_status(stream), "%s",
                             stream->get_last_error(stream));
        if (batch.release == NULL) {
            printf("%llu rows\n", (unsigned long long)rows);
            return LAKE_OK;
        }
        rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
}

static lake_status read_dataset(const struct arguments *arguments, struct storage_store *store,
                                struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct lance_scan_options options;
    struct ArrowArrayStream stream = {0};
    uint32_t columns[MAX_COLUMNS];
    lance_scan_options_init(&options);
    lake_status status = open_dataset(arguments, store, &dataset, err);
    if (status != LAKE_OK)
        return status;
    options.columns = columns;
    options.blob_descriptions = arguments->descriptions;
    if (arguments->row_columns)
        options.row_columns =
            LANCE_ROW_ID | LANCE_ROW_ADDRESS | LANCE_ROW_CREATED_AT | LANCE_ROW_UPDATED_AT;
    if (arguments->batch_rows > 0)
        options.batch_rows = arguments->batch_rows;
    status = find_columns(lance_dataset_schema(dataset), arguments->columns, columns,
                          &options.column_count, err);
    if (status == LAKE_OK)
        status = conditions_resolve(arguments->where, lance_dataset_schema(dataset), err);
    options.filters = arguments->where->filters;
    options.filter_count = arguments->where->count;
    if (status == LAKE_OK)
        status = lance_scan_stream(dataset, &options, &stream, err);
    if (status == LAKE_OK) {
        status = strcmp(arguments->command, "drain") == 0
                     ? drain(&stream, err)
                     : arrow_ipc_write_fd(&stream, STDOUT_FILENO, err);
        if (lance_scan_stream_status(&stream) != LAKE_OK) /* what stopped it, not that it did */
            status = lake_fail(err, lance_scan_stream_status(&stream), "%s",
                               stream.get_last_error(&stream));
        stream.release(&stream);
    }
    lance_dataset_unref(dataset);
    return status;
}

static lake_status print_schema(const struct arguments *arguments, struct storage_store *store,
                                struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    lake_status status = open_dataset(arguments, store, &dataset, err);
    if (status != LAKE_OK)
        return status;
    const struct ArrowSchema *schema = lance_dataset_schema(dataset);
    printf("version %llu, %llu rows, %zu fragments, storage %s\n",
           (unsigned long long)lance_dataset_version(dataset),
           (unsigned long long)lance_dataset_row_count(dataset),
           lance_dataset_fragment_count(dataset), lance_dataset_storage_version(dataset));
    for (int64_t i = 0; status == LAKE_OK && i < schema->n_children; i++) {
        struct base_buffer text;
        base_buffer_init(&text, 1U << 20);
        status = arrow_type_format(schema->children[i], &text, err);
        if (status == LAKE_OK)
            printf("%s: %.*s\n", schema->children[i]->name, (int)text.size,
                   (const char *)text.data);
        base_buffer_fini(&text);
    }
    lance_dataset_unref(dataset);
    return status;
}

/* ---- writing ---- */

static lake_status write_dataset(const struct arguments *arguments, struct storage_store *store,
                                 struct lake_error *err)
{
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    struct lance_create_options options;
    struct ArrowArrayStream stream = {0};
    uint64_t version;
    limits.max_body_bytes = (uint64_t)4 << 30;
    lance_create_options_init(&options);
    options.storage_version = arguments->storage;
    options.profile = arguments->profile;
    lake_status status = arrow_ipc_open_file(arguments->input, &limits, &stream, err);
    if (status == LAKE_OK)
        status = lance_write_stream(store, &stream, &options, arguments->mode, &version, err);
    if (stream.release != NULL)
        stream.release(&stream);
    if (status == LAKE_OK)
        printf("version %llu\n", (unsigned long long)version);
    return status;
}

int main(int argc, char **argv)
{
    static struct conditions where;
    struct arguments arguments;
    struct storage_store *store = NULL;
    struct lake_error err = {0};
    if (!parse_arguments(argc, argv, &where, &arguments)) {
        fprintf(stderr, "usage: lance_tool cat|drain|schema|write PATH [in.arrow] [--version N] "
                        "[--branch B] [--tag T] [--columns a,b] [--batch-rows N] [--descriptions] "
                        "[--row-columns] [--where COLUMN OP VALUE] [--append|--overwrite] "
                        "[--storage 2.1|2.2] [--profile NAME]\n");
        return 2;
    }
    bool writes = strcmp(arguments.command, "write") == 0;
    lake_status status = base_fault_configure(getenv("LAKE_FAULT"), &err);
    if (status == LAKE_OK)
        status = strncmp(arguments.path, "s3://", 5) == 0
                     ? storage_open_uri(base_str_of(arguments.path), false, NULL, &store, &err)
                     : storage_local_open(arguments.path, writes, &store, &err);
    if (status == LAKE_OK && writes && arguments.input == NULL)
        status = lake_fail(&err, LAKE_INVALID_ARGUMENT, "write needs an Arrow IPC file");
    else if (status == LAKE_OK && writes)
        status = write_dataset(&arguments, store, &err);
    else if (status == LAKE_OK && strcmp(arguments.command, "schema") == 0)
        status = print_schema(&arguments, store, &err);
    else if (status == LAKE_OK)
        status = read_dataset(&arguments, store, &err);
    storage_store_unref(store);
    if (status == LAKE_OK)
        return 0;
    fprintf(stderr, "%s: %s%s%s\n", lake_status_name(status), err.message,
            err.cause[0] != '\0' ? ": " : "", err.cause);
    return 1;
}
