/* libs: lance */
/*
 * lance_change_tool: operations on a data set on disk, for interop and crash tests.
 *
 *   lance_change_tool delete PATH [--where COLUMN OP VALUE]… [--base N]
 *   lance_change_tool delete-rows PATH ADDRESS… [--base N]
 *   lance_change_tool update PATH COLUMN VALUE [--where …]… [--base N]     of an int64 column
 *   lance_change_tool merge PATH KEY in.arrow [update|insert]         rows of the first batch
 *   lance_change_tool restore PATH VERSION
 *   lance_change_tool compact PATH [TARGET_ROWS [DELETED_PERCENT]] [--base N] | tiers PATH
 *   lance_change_tool drop PATH COLUMN | rename PATH COLUMN NAME | add PATH NAME TYPE  [--base N]
 *   lance_change_tool cleanup PATH OLDER_THAN_MS GRACE_MS [RETAIN [DRY]]
 *   lance_change_tool branch PATH NAME VERSION [PARENT]
 *   lance_change_tool tag PATH NAME VERSION | retag PATH NAME VERSION | untag PATH NAME | tags PATH
 *
 * OP: see lance_conditions.h. --base begins from version N, as a writer does that was slow. Prints
 * the version and how many rows it changed.
 */
#include <arrow/arrow.h>
#include <inttypes.h>
#include <lance/lance.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lance_conditions.h"

#define MAX_ITEMS 256

struct arguments {
    const char *command;
    const char *path;
    struct conditions *where;
    const char *words[MAX_ITEMS];
    size_t word_count;
    uint64_t base;
};

static bool parse_arguments(int argc, char **argv, struct conditions *where, struct arguments *out)
{
    if (argc < 3)
        return false;
    *out = (struct arguments){.command = argv[1], .path = argv[2], .where = where};
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--where") == 0 && conditions_take(where, argc - i, argv + i)) {
            i += 3;
        } else if (strcmp(argv[i], "--base") == 0 && i + 1 < argc) {
            out->base = strtoull(argv[++i], NULL, 10);
        } else if (strncmp(argv[i], "--", 2) != 0 && out->word_count < MAX_ITEMS) {
            out->words[out->word_count++] = argv[i];
        } else {
            return false;
        }
    }
    return true;
}

static void print_change(const struct lance_change *change)
{
    printf("version %" PRIu64 " rows %" PRIu64 "\n", change->version, change->row_count);
}

static lake_status delete_where(const struct arguments *arguments, struct lance_dataset *dataset,
                                struct lake_error *err)
{
    struct lance_change change;
    lake_status status = conditions_resolve(arguments->where, lance_dataset_schema(dataset), err);
    if (status == LAKE_OK)
        status = lance_delete(dataset, arguments->where->filters, arguments->where->count, NULL,
                              &change, err);
    if (status == LAKE_OK)
        print_change(&change);
    return status;
}

static lake_status delete_rows(const struct arguments *arguments, struct lance_dataset *dataset,
                               struct lake_error *err)
{
    uint64_t addresses[MAX_ITEMS];
    struct lance_change change;
    for (size_t i = 0; i < arguments->word_count; i++)
        addresses[i] = strtoull(arguments->words[i], NULL, 10);
    lake_status status =
        lance_delete_addresses(dataset, addresses, arguments->word_count, NULL, &change, err);
    if (status == LAKE_OK)
        print_change(&change);
    return status;
}

struct assignment {
    uint32_t column;
    int64_t value;
};

static lake_status assign(void *context, struct ArrowArray *batch, struct lake_error *err)
{
    const struct assignment *assignment = context;
    struct ArrowArray values;
    if (ArrowArrayInitFromType(&values, NANOARROW_TYPE_INT64) != NANOARROW_OK ||
        ArrowArrayStartAppending(&values) != NANOARROW_OK)
        return base_fail_no_memory(err, 0);
    for (int64_t i = 0; i < batch->length; i++) {
        if (ArrowArrayAppendInt(&values, assignment->value) != NANOARROW_OK)
            return base_fail_no_memory(err, 0);
    }
    if (ArrowArrayFinishBuildingDefault(&values, NULL) != NANOARROW_OK)
        return base_fail_no_memory(err, 0);
    ArrowArrayRelease(batch->children[assignment->column]);
    ArrowArrayMove(&values, batch->children[assignment->column]);
    return LAKE_OK;
}

static lake_status update(const struct arguments *arguments, struct lance_dataset *dataset,
                          struct lake_error *err)
{
    struct lance_change change;
    struct assignment assignment = {0, 0};
    if (arguments->word_count != 2)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "update needs a column and a value");
    assignment.value = strtoll(arguments->words[1], NULL, 10);
    lake_status status =
        find_column(lance_dataset_schema(dataset), arguments->words[0], &assignment.column, err);
    if (status == LAKE_OK)
        status = conditions_resolve(arguments->where, lance_dataset_schema(dataset), err);
    if (status == LAKE_OK)
        status = lance_update(dataset, arguments->where->filters, arguments->where->count, assign,
                              &assignment, NULL, &change, err);
    if (status == LAKE_OK)
        print_change(&change);
    return status;
}

static lake_status merge(const struct arguments *arguments, struct lance_dataset *dataset,
                         struct lake_error *err)
{
    struct lance_merge_options options;
    struct lance_merge done;
    struct ArrowArrayStream stream = {0};
    struct ArrowArray batch = {0};
    if (arguments->word_count < 2)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "merge needs a key and a file");
    lance_merge_options_init(&options);
    if (arguments->word_count > 2) {
        options.keep_matched = strcmp(arguments->words[2], "insert") == 0;
        options.skip_unmatched = strcmp(arguments->words[2], "update") == 0;
    }
    lake_status status =
        find_column(lance_dataset_schema(dataset), arguments->words[0], &options.key, err);
    if (status == LAKE_OK)
        status = arrow_ipc_open_file(arguments->words[1], NULL, &stream, err);
    if (status == LAKE_OK && (stream.get_next(&stream, &batch) != 0 || batch.release == NULL))
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the file has no batch");
    if (status == LAKE_OK)
        status = lance_merge_insert(dataset, &batch, &options, &done, err);
    if (status == LAKE_OK)
        printf("version %" PRIu64 " updated %" PRIu64 " inserted %" PRIu64 "\n", done.version,
               done.rows_updated, done.rows_inserted);
    if (batch.release != NULL)
        batch.release(&batch);
    if (stream.release != NULL)
        stream.release(&stream);
    return status;
}

static lake_status print_version(lake_status status, const uint64_t *version)
{
    if (status == LAKE_OK)
        printf("version %" PRIu64 "\n", *version);
    return status;
}

static uint64_t number(const struct arguments *arguments, size_t index)
{
    return index < arguments->word_count ? strtoull(arguments->words[index], NULL, 10) : 0;
}

static const char *word(const struct arguments *arguments, size_t index)
{
    return index < arguments->word_count ? arguments->words[index] : "";
}

static lake_status restore(const struct arguments *arguments, struct lance_dataset *dataset,
                           struct lake_error *err)
{
    uint64_t version = 0;
    return print_version(lance_restore(dataset, number(arguments, 0), NULL, &version, err),
                         &version);
}

static lake_status drop(const struct arguments *arguments, struct lance_dataset *dataset,
                        struct lake_error *err)
{
    uint64_t version = 0;
    return print_version(lance_drop_column(dataset, word(arguments, 0), NULL, &version, err),
                         &version);
}

static lake_status rename_column(const struct arguments *arguments, struct lance_dataset *dataset,
                                 struct lake_error *err)
{
    uint64_t version = 0;
    return print_version(
        lance_rename_column(dataset, word(arguments, 0), word(arguments, 1), NULL, &version, err),
        &version);
}

static lake_status add(const struct arguments *arguments, struct lance_dataset *dataset,
                       struct lake_error *err)
{
    struct ArrowSchema column = {.release = NULL};
    uint64_t version = 0;
    lake_status status =
        arrow_type_parse(base_str_of(word(arguments, 1)), word(arguments, 0), &column, err);
    if (status == LAKE_OK)
        status = lance_add_column(dataset, &column, NULL, &version, err);
    if (column.release != NULL)
        ArrowSchemaRelease(&column);
    return print_version(status, &version);
}

static lake_status run_compaction(struct lance_dataset *dataset,
                                  const struct lance_compact_options *options,
                                  struct lake_error *err)
{
    struct lance_compaction done;
    lake_status status = lance_compact(dataset, options, &done, err);
    if (status == LAKE_OK)
        printf("version %" PRIu64 " removed %" PRIu64 " added %" PRIu64 " rewritten %" PRIu64
               " dropped %" PRIu64 "\n",
               done.version, done.fragments_removed, done.fragments_added, done.rows_rewritten,
               done.rows_dropped);
    return status;
}

static lake_status compact(const struct arguments *arguments, struct lance_dataset *dataset,
                           struct lake_error *err)
{
    struct lance_compact_options options;
    lance_compact_options_init(&options);
    if (arguments->word_count > 0)
        options.target_rows = number(arguments, 0);
    if (arguments->word_count > 1)
        options.deleted_percent = (uint32_t)number(arguments, 1);
    return run_compaction(dataset, &options, err);
}

static lake_status compact_by_tiers(const struct arguments *arguments,
                                    struct lance_dataset *dataset, struct lake_error *err)
{
    struct lance_compact_options options;
    (void)arguments;
    lance_compact_options_init(&options);
    options.tiers = true;
    return run_compaction(dataset, &options, err);
}

static lake_status cleanup(const struct arguments *arguments, struct lance_dataset *dataset,
                           struct lake_error *err)
{
    struct lance_cleanup_options options;
    struct lance_cleanup_stats stats;
    lance_cleanup_options_init(&options);
    options.older_than_ms = (int64_t)number(arguments, 0);
    options.grace_ms = (int64_t)number(arguments, 1);
    options.retain_versions = number(arguments, 2);
    options.dry_run = arguments->word_count > 3;
    lake_status status = lance_cleanup(lance_dataset_store(dataset), &options, &stats, err);
    if (status == LAKE_OK)
        printf("versions %" PRIu64 " removed %" PRIu64 " files %" PRIu64 " abandoned %" PRIu64
               " grace %" PRIu64 "\n",
               stats.versions_kept, stats.versions_removed, stats.files_removed,
               stats.abandoned_files_removed, stats.files_in_grace);
    return status;
}

static lake_status branch(const struct arguments *arguments, struct lance_dataset *dataset,
                          struct lake_error *err)
{
    return lance_branch_create(lance_dataset_store(dataset), word(arguments, 0),
                               arguments->word_count > 2 ? word(arguments, 2) : NULL,
                               number(arguments, 1), NULL, err);
}

static lake_status tag(const struct arguments *arguments, struct lance_dataset *dataset,
                       struct lake_error *err)
{
    return lance_tag_create(lance_dataset_store(dataset), word(arguments, 0), NULL,
                            number(arguments, 1), err);
}

static lake_status retag(const struct arguments *arguments, struct lance_dataset *dataset,
                         struct lake_error *err)
{
    return lance_tag_update(lance_dataset_store(dataset), word(arguments, 0), NULL,
                            number(arguments, 1), err);
}

static lake_status untag(const struct arguments *arguments, struct lance_dataset *dataset,
                         struct lake_error *err)
{
    return lance_tag_delete(lance_dataset_store(dataset), word(arguments, 0), err);
}

static lake_status tags(const struct arguments *arguments, struct lance_dataset *dataset,
                        struct lake_error *err)
{
    struct lance_tag *list = NULL;
    size_t count = 0;
    (void)arguments;
    lake_status status = lance_tags_list(lance_dataset_store(dataset), &list, &count, err);
    for (size_t i = 0; i < count; i++)
        printf("%s %s%s%" PRIu64 "\n", list[i].name, list[i].branch,
               list[i].branch[0] == '\0' ? "" : " ", list[i].version);
    base_free(list);
    return status;
}

static const struct {
    const char *name;
    lake_status (*run)(const struct arguments *arguments, struct lance_dataset *dataset,
                       struct lake_error *err);
} commands[] = {{"delete", delete_where},
                {"delete-rows", delete_rows},
                {"restore", restore},
                {"update", update},
                {"merge", merge},
                {"compact", compact},
                {"tiers", compact_by_tiers},
                {"cleanup", cleanup},
                {"branch", branch},
                {"drop", drop},
                {"rename", rename_column},
                {"add", add},
                {"tag", tag},
                {"retag", retag},
                {"untag", untag},
                {"tags", tags}};

static lake_status run(const struct arguments *arguments, struct storage_store *store,
                       struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    lake_status status = lance_dataset_open(store, NULL, NULL, arguments->base, &dataset, err);
    for (size_t i = 0; status == LAKE_OK && i < BASE_ARRAY_LEN(commands); i++) {
        if (strcmp(arguments->command, commands[i].name) == 0) {
            status = commands[i].run(arguments, dataset, err);
            lance_dataset_unref(dataset);
            return status;
        }
    }
    lance_dataset_unref(dataset);
    return status == LAKE_OK
               ? lake_fail(err, LAKE_INVALID_ARGUMENT, "no command %s", arguments->command)
               : status;
}

int main(int argc, char **argv)
{
    static struct conditions where;
    struct arguments arguments;
    struct storage_store *store = NULL;
    struct lake_error err = {0};
    if (!parse_arguments(argc, argv, &where, &arguments)) {
        fprintf(stderr, "usage: see the head of lance_change_tool.c\n");
        return 2;
    }
    lake_status status = base_fault_configure(getenv("LAKE_FAULT"), &err);
    if (status == LAKE_OK)
        status = storage_local_open(arguments.path, false, &store, &err);
    if (status == LAKE_OK)
        status = run(&arguments, store, &err);
    storage_store_unref(store);
    if (status == LAKE_OK)
        return 0;
    fprintf(stderr, "%s: %s%s%s\n", lake_status_name(status), err.message,
            err.cause[0] != '\0' ? ": " : "", err.cause);
    return 1;
}
