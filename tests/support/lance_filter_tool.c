/* libs: lance */
/*
 * lance_filter_tool PATH [--version N]: asks a table filters, each with its indices and without.
 *
 * A line of the input is one question: conditions COLUMN OP [VALUE]… that are separated by `;`. OP
 * is one of = < <= > >= != in null notnull. A VALUE is i-12 (int64), u12 (uint64), d1.5 (double),
 * or x6162 (bytes: text, binary, a decimal's 16). The answer is two lines, with indices and
 * without: indices used, rows looked at, pages and bytes read, then the values of the int64 column
 * `id`.
 */
#include <arrow/arrow.h>
#include <lance/lance.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILTERS    16
#define MAX_VALUES     4096
#define MAX_LINE_BYTES (1 << 20)

struct question {
    struct lance_filter filters[MAX_FILTERS];
    size_t filter_count;
    struct lance_value values[MAX_VALUES];
    size_t value_count;
    uint8_t bytes[MAX_LINE_BYTES];
    size_t byte_count;
};

static bool find_column(const struct ArrowSchema *schema, const char *name, uint32_t *out)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(schema->children[i]->name, name) == 0) {
            *out = (uint32_t)i;
            return true;
        }
    }
    return false;
}

static bool parse_op(const char *text, enum lance_filter_op *out)
{
    static const char *const names[] = {
        [LANCE_EQ] = "=",  [LANCE_LT] = "<",         [LANCE_LE] = "<=",
        [LANCE_GT] = ">",  [LANCE_GE] = ">=",        [LANCE_NE] = "!=",
        [LANCE_IN] = "in", [LANCE_IS_NULL] = "null", [LANCE_IS_NOT_NULL] = "notnull"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum lance_filter_op)i;
            return true;
        }
    }
    return false;
}

static bool parse_bytes(struct question *question, const char *hex, struct lake_bytes *out)
{
    out->data = question->bytes + question->byte_count;
    out->size = strlen(hex) / 2;
    for (size_t i = 0; i < out->size; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1 || question->byte_count == MAX_LINE_BYTES)
            return false;
        question->bytes[question->byte_count++] = (uint8_t)byte;
    }
    return true;
}

static bool parse_value(struct question *question, const char *text)
{
    if (question->value_count == MAX_VALUES)
        return false;
    struct lance_value *out = &question->values[question->value_count++];
    switch (text[0]) {
    case 'i':
        *out = (struct lance_value){.kind = LANCE_VALUE_INT64, .i64 = strtoll(text + 1, NULL, 10)};
        return true;
    case 'u':
        *out =
            (struct lance_value){.kind = LANCE_VALUE_UINT64, .u64 = strtoull(text + 1, NULL, 10)};
        return true;
    case 'd':
        *out = (struct lance_value){.kind = LANCE_VALUE_DOUBLE, .f64 = strtod(text + 1, NULL)};
        return true;
    case 'x':
        out->kind = LANCE_VALUE_BYTES;
        return parse_bytes(question, text + 1, &out->bytes);
    default:
        return false;
    }
}

static bool parse_condition(const struct ArrowSchema *schema, struct question *question, char *text)
{
    char *rest = NULL;
    const char *column = strtok_r(text, " ", &rest);
    const char *op = strtok_r(NULL, " ", &rest);
    if (question->filter_count == MAX_FILTERS || column == NULL || op == NULL)
        return false;
    struct lance_filter *filter = &question->filters[question->filter_count++];
    *filter = (struct lance_filter){.values = question->values + question->value_count};
    if (!find_column(schema, column, &filter->column) || !parse_op(op, &filter->op))
        return false;
    for (char *value; (value = strtok_r(NULL, " ", &rest)) != NULL; filter->value_count++)
        if (!parse_value(question, value))
            return false;
    return true;
}

static bool parse_question(const struct ArrowSchema *schema, struct question *question, char *line)
{
    char *rest = NULL;
    question->filter_count = question->value_count = question->byte_count = 0;
    for (char *part = strtok_r(line, ";\n", &rest); part != NULL;
         part = strtok_r(NULL, ";\n", &rest))
        if (!parse_condition(schema, question, part))
            return false;
    return question->filter_count > 0;
}

static lake_status print_task(struct lance_task *task, struct base_buffer *out,
                              struct lake_error *err)
{
    bool end = false;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && !end) {
        struct ArrowArray batch;
        status = lance_task_next(task, &batch, &end, err);
        if (status != LAKE_OK || end)
            break;
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t i = 0; i < batch.length && status == LAKE_OK; i++)
            status = base_buffer_printf(out, err, " %lld",
                                        (long long)ids[batch.children[0]->offset + i]);
        ArrowArrayRelease(&batch);
    }
    return status;
}

static lake_status answer(struct lance_dataset *dataset, const struct question *question,
                          bool without_indices, struct lake_error *err)
{
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lance_scan_stats stats = {0};
    struct base_buffer ids;
    uint32_t id = 0;
    base_buffer_init(&ids, SIZE_MAX / 2);
    if (!find_column(lance_dataset_schema(dataset), "id", &id))
        return lake_fail(err, LAKE_NOT_FOUND, "there is no column id");
    lance_scan_options_init(&options);
    options.columns = &id;
    options.column_count = 1;
    options.filters = question->filters;
    options.filter_count = question->filter_count;
    options.without_indices = without_indices;
    lake_status status = lance_scan_new(dataset, &options, &scan, err);
    while (status == LAKE_OK) {
        struct lance_task *task = NULL;
        status = lance_scan_next_task(scan, &task, err);
        if (status != LAKE_OK || task == NULL)
            break;
        status = print_task(task, &ids, err);
        lance_task_free(task);
    }
    if (status == LAKE_OK) {
        lance_scan_get_stats(scan, &stats);
        printf("%llu %llu %llu %llu:%.*s\n", (unsigned long long)stats.indices_used,
               (unsigned long long)stats.rows_scanned, (unsigned long long)stats.pages_read,
               (unsigned long long)stats.bytes_read, (int)ids.size, (const char *)ids.data);
    }
    lance_scan_free(scan);
    base_buffer_fini(&ids);
    return status;
}

static lake_status open_directory(void *context, const char *path, struct storage_store **out,
                                  struct lake_error *err)
{
    (void)context;
    return storage_local_open(path, false, out, err);
}

static lake_status run(const char *path, uint64_t version, struct question *question, char *line,
                       struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lance_cache *cache = NULL;
    struct lance_dataset *dataset = NULL;
    struct lance_open_options options;
    lake_status status = storage_local_open(path, false, &store, err);
    if (status == LAKE_OK)
        status = lance_cache_new((size_t)64 << 20, &cache, err);
    lance_open_options_init(&options);
    options.version = version;
    options.open_base = open_directory;
    if (status == LAKE_OK)
        status = lance_dataset_open_with(store, cache, "table", &options, &dataset, err);
    while (status == LAKE_OK && fgets(line, MAX_LINE_BYTES, stdin) != NULL) {
        if (!parse_question(lance_dataset_schema(dataset), question, line)) {
            status = lake_fail(err, LAKE_INVALID_ARGUMENT, "a question is not understood");
            break;
        }
        for (int without = 0; without < 2 && status == LAKE_OK; without++)
            status = answer(dataset, question, without == 1, err);
    }
    lance_dataset_unref(dataset);
    lance_cache_free(cache);
    storage_store_unref(store);
    return status;
}

int main(int argc, char **argv)
{
    uint64_t version = 0;
    struct lake_error err = {0};
    if (argc == 4 && strcmp(argv[2], "--version") == 0)
        version = strtoull(argv[3], NULL, 10);
    else if (argc != 2) {
        fprintf(stderr, "usage: lance_filter_tool PATH [--version N] < questions\n");
        return 2;
    }
    struct question *question = calloc(1, sizeof(*question));
    char *line = malloc(MAX_LINE_BYTES);
    lake_status status = question == NULL || line == NULL
                             ? lake_fail(&err, LAKE_RESOURCE_EXHAUSTED, "out of memory")
                             : run(argv[1], version, question, line, &err);
    if (status != LAKE_OK)
        fprintf(stderr, "lance_filter_tool: %s\n", err.message);
    free(question);
    free(line);
    return status == LAKE_OK ? 0 : 1;
}
