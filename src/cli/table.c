/* lake table …, and lake client … create-table: the same through a given address. */
#include "cli_internal.h"

#include <lance/lance.h>

#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS        10000
#define COMPACT_TIMEOUT_MS (24 * 60 * 60 * INT64_C(1000))

struct column_list {
    const char **columns;
    size_t count;
};

static bool add_column(struct column_list *list, const char *column)
{
    const char **grown = base_realloc_array((void *)list->columns, list->count + 1, sizeof(*grown));
    if (grown == NULL || list->count == MAX_COLUMNS)
        return false;
    list->columns = grown;
    list->columns[list->count++] = column;
    return true;
}

/* The table's profile travels in the schema's metadata, where whoever writes to it looks. */
static lake_status set_profile(const char *profile, struct ArrowSchema *schema,
                               struct lake_error *err)
{
    struct ArrowBuffer metadata;
    int code = ArrowMetadataBuilderInit(&metadata, NULL);
    if (code == NANOARROW_OK)
        code = ArrowMetadataBuilderAppend(&metadata, ArrowCharView(LANCE_CONFIG_PROFILE),
                                          ArrowCharView(profile));
    if (code == NANOARROW_OK)
        code = ArrowSchemaSetMetadata(schema, (const char *)metadata.data);
    ArrowBufferReset(&metadata);
    return code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, strlen(profile));
}

static lake_status create(struct cli_options *options, const char *table,
                          const struct ArrowSchema *schema, struct lake_error *err)
{
    struct cli_session session;
    lake_status status = cli_session_open(options, &session, err);
    if (status == LAKE_OK) {
        status = lake_create_table(session.client, table, schema, err);
        cli_session_close(&session);
    }
    return status;
}

/* CLI_EXIT_OK with the schema, or what to end with. */
static int make_schema(const struct cli_command *command, const struct column_list *columns,
                       const char *profile, struct ArrowSchema *out)
{
    struct lake_error error = {0};
    enum lance_profile known;
    if (profile != NULL && !lance_profile_parse(profile, &known))
        return cli_usage_error(command, "--profile takes balanced, fast or small, not %s", profile);
    lake_status status = lake_schema_parse(columns->columns, columns->count, out, &error);
    if (status == LAKE_OK && profile != NULL) {
        status = set_profile(profile, out, &error);
        if (status != LAKE_OK)
            out->release(out);
    }
    return status == LAKE_OK ? CLI_EXIT_OK : cli_usage_error(command, "%s", error.message);
}

static int run_create(struct cli_options *options, const struct cli_command *command, int argc,
                      char **argv)
{
    static const char *const names[] = {"column=", "profile=", NULL};
    struct column_list columns = {0};
    const char *table = NULL;
    const char *profile = NULL;
    const char *value = NULL;
    int index = 0;
    int code = CLI_EXIT_OK;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0 && add_column(&columns, value))
            continue;
        if (which == 1) {
            profile = value;
            continue;
        }
        if (which == CLI_ARGUMENT && table == NULL) {
            table = value;
            continue;
        }
        code = which == CLI_ARGUMENT || which == 0
                   ? cli_usage_error(command, "unexpected argument %s", value)
                   : cli_stop(command, which);
        base_free((void *)columns.columns);
        return code;
    }
    if (table == NULL || columns.count == 0) {
        base_free((void *)columns.columns);
        return cli_usage_error(command, "a table and at least one --column name:type are needed");
    }
    struct ArrowSchema schema = {0};
    struct lake_error error = {0};
    code = cli_check_table(command, table);
    if (code == CLI_EXIT_OK)
        code = make_schema(command, &columns, profile, &schema);
    base_free((void *)columns.columns);
    if (code != CLI_EXIT_OK)
        return code;
    lake_status status = create(options, table, &schema, &error);
    schema.release(&schema);
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json) {
        fputs("{\"created\":", stdout);
        cli_print_json_string(stdout, table);
        fputs("}\n", stdout);
    } else {
        printf("created %s\n", table);
    }
    return code;
}

/* ---- list ---- */

static void print_list(const struct cli_options *options, const struct lake_table_list *list)
{
    if (options->json)
        fputs("[", stdout);
    for (size_t i = 0; i < list->count; i++) {
        if (options->json) {
            fputs(i == 0 ? "" : ",", stdout);
            cli_print_json_string(stdout, list->tables[i]);
        } else {
            printf("%s\n", list->tables[i]);
        }
    }
    if (options->json)
        fputs("]\n", stdout);
    else if (list->count == 0)
        fputs("no tables yet: lake table create --help shows how to make one\n", stderr);
}

static int run_list(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    const char *namespace_name = NULL;
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which != CLI_ARGUMENT)
            return cli_stop(&cli_table, which);
        if (namespace_name != NULL)
            return cli_usage_error(&cli_table, "unexpected argument %s", value);
        namespace_name = value;
    }
    struct cli_session session;
    struct lake_table_list list = {0};
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_list_tables(session.client, namespace_name, &list, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    print_list(options, &list);
    lake_table_list_fini(&list);
    return CLI_EXIT_OK;
}

/* ---- describe ---- */

static lake_status print_column(const struct ArrowSchema *field, bool json, bool first,
                                size_t width, struct lake_error *err)
{
    struct base_buffer type;
    base_buffer_init(&type, 65536);
    lake_status status = arrow_type_format(field, &type, err);
    if (status == LAKE_OK)
        status = base_buffer_append(&type, "", 1, err);
    if (status == LAKE_OK && json) {
        fputs(first ? "{\"name\":" : ",{\"name\":", stdout);
        cli_print_json_string(stdout, field->name);
        fputs(",\"type\":", stdout);
        cli_print_json_string(stdout, (const char *)type.data);
        printf(",\"nullable\":%s}", (field->flags & ARROW_FLAG_NULLABLE) != 0 ? "true" : "false");
    } else if (status == LAKE_OK) {
        printf("  %-*s  %s%s\n", (int)width, field->name, (const char *)type.data,
               (field->flags & ARROW_FLAG_NULLABLE) != 0 ? "" : " not null");
    }
    base_buffer_fini(&type);
    return status;
}

static lake_status print_info(const struct cli_options *options, const struct lake_table_info *info,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    size_t width = 0;
    for (int64_t i = 0; i < info->schema.n_children; i++)
        width = BASE_MAX(width, strlen(info->schema.children[i]->name));
    if (options->json) {
        fputs("{\"table\":", stdout);
        cli_print_json_string(stdout, info->table);
        fputs(",\"location\":", stdout);
        cli_print_json_string(stdout, info->location);
        fputs(",\"incarnation\":", stdout);
        cli_print_json_string(stdout, info->incarnation);
        printf(",\"version\":%llu,\"columns\":[", (unsigned long long)info->version);
    } else {
        printf("%s, version %llu\n%s\n", info->table, (unsigned long long)info->version,
               info->location);
    }
    for (int64_t i = 0; i < info->schema.n_children && status == LAKE_OK; i++)
        status = print_column(info->schema.children[i], options->json, i == 0, width, err);
    if (options->json)
        fputs("]}\n", stdout);
    return status;
}

/* The one table that describe, drop and compact take. CLI_EXIT_OK, or what to end with. */
static int one_table(struct cli_options *options, int argc, char **argv, const char **table)
{
    static const char *const names[] = {NULL};
    struct cli_table_arguments arguments = {.count = 0};
    int code = cli_table_arguments(options, names, 1, "which table?", argc, argv, &arguments);
    *table = arguments.positional[0];
    return code;
}

static int run_describe(struct cli_options *options, int argc, char **argv)
{
    const char *table = NULL;
    int code = one_table(options, argc, argv, &table);
    if (code != CLI_EXIT_OK)
        return code;
    struct cli_session session;
    struct lake_table_info info;
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_describe_table(session.client, table, &info, &error);
        cli_session_close(&session);
    }
    if (status == LAKE_OK) {
        status = print_info(options, &info, &error);
        lake_table_info_fini(&info);
    }
    return status == LAKE_OK ? CLI_EXIT_OK : cli_fail(options, &error);
}

static int run_drop(struct cli_options *options, int argc, char **argv)
{
    const char *table = NULL;
    int code = one_table(options, argc, argv, &table);
    if (code != CLI_EXIT_OK)
        return code;
    struct cli_session session;
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_drop_table(session.client, table, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json) {
        fputs("{\"dropped\":", stdout);
        cli_print_json_string(stdout, table);
        fputs("}\n", stdout);
    } else {
        printf("dropped %s\n", table);
    }
    return CLI_EXIT_OK;
}

/* ---- compact ---- */

static void print_compaction(const struct cli_options *options, const char *table,
                             const struct lake_compaction *done)
{
    const unsigned long long version = done->version;
    const unsigned long long removed = done->fragments_removed;
    const unsigned long long added = done->fragments_added;
    const unsigned long long rewritten = done->rows_rewritten;
    const unsigned long long dropped = done->rows_dropped;
    if (options->json) {
        fputs("{\"compacted\":", stdout);
        cli_print_json_string(stdout, table);
        printf(",\"version\":%llu,\"fragments_removed\":%llu,\"fragments_added\":%llu,"
               "\"rows_rewritten\":%llu,\"rows_dropped\":%llu}\n",
               version, removed, added, rewritten, dropped);
    } else if (removed == 0) {
        printf("%s has nothing to compact, version %llu\n", table, version);
    } else {
        printf("compacted %s, version %llu: %llu fragments became %llu, %llu rows rewritten, "
               "%llu deleted rows dropped\n",
               table, version, removed, added, rewritten, dropped);
    }
}

static int run_compact(struct cli_options *options, int argc, char **argv)
{
    const char *table = NULL;
    int code = one_table(options, argc, argv, &table);
    if (code != CLI_EXIT_OK)
        return code;
    struct cli_session session;
    struct lake_compaction done;
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_compact_table(session.client, table, COMPACT_TIMEOUT_MS, &done, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    print_compaction(options, table, &done);
    return CLI_EXIT_OK;
}

static int run_table(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    const char *verb = NULL;
    int index = 0;
    int which = cli_next(options, names, argc, argv, &index, &verb);
    if (which == CLI_END)
        return cli_usage_error(&cli_table, "what? lake table --help lists what there is");
    if (which != CLI_ARGUMENT)
        return cli_stop(&cli_table, which);
    argc -= index;
    argv += index;
    if (strcmp(verb, "create") == 0)
        return run_create(options, &cli_table, argc, argv);
    if (strcmp(verb, "list") == 0)
        return run_list(options, argc, argv);
    if (strcmp(verb, "describe") == 0)
        return run_describe(options, argc, argv);
    if (strcmp(verb, "drop") == 0)
        return run_drop(options, argc, argv);
    if (strcmp(verb, "compact") == 0)
        return run_compact(options, argc, argv);
    if (strcmp(verb, "cleanup") == 0)
        return cli_table_cleanup(options, argc, argv);
    if (strcmp(verb, "delete") == 0 || strcmp(verb, "update") == 0)
        return cli_table_change(options, verb[0] == 'u', argc, argv);
    const struct cli_verb *versions = cli_table_versions(verb);
    if (versions != NULL)
        return versions->run(options, argc, argv);
    return cli_usage_error(&cli_table, "there is no lake table %s", verb);
}

static int run_client(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    const char *verb = NULL;
    int index = 0;
    int which = cli_next(options, names, argc, argv, &index, &verb);
    if (which == CLI_END)
        return cli_usage_error(&cli_client, "create-table or pending?");
    if (which != CLI_ARGUMENT)
        return cli_stop(&cli_client, which);
    if (strcmp(verb, "pending") == 0)
        return cli_run_pending(options, argc - index, argv + index);
    if (options->address == NULL)
        return cli_usage_error(&cli_client, "lake client needs --addr HOST:PORT");
    if (strcmp(verb, "create-table") == 0)
        return run_create(options, &cli_client, argc - index, argv + index);
    return cli_usage_error(&cli_client, "there is no lake client %s", verb);
}

#define TYPES_HELP                                                                             \
    "Types: bool, int8 to int64, uint8 to uint64, float16, float, double, utf8, large_utf8,\n" \
    "binary, large_binary, fixed_size_binary[16], decimal(10,2), date32, date64, time32[s],\n" \
    "time64[us], timestamp[us], timestamp[us, UTC], duration[ms], list<T>, T[7] (a vector\n"   \
    "of 7), struct<a: T, b: T>, dictionary<int32, utf8>, json, FILE. A ! at the end: not\n"    \
    "null.\n"

const struct cli_command cli_table = {
    "table", "tables: create, list, describe, compact, clean up, drop; their rows and versions",
    "Usage: lake table create NAMESPACE.TABLE --column NAME:TYPE … [--profile NAME]\n"
    "       lake table list [NAMESPACE]\n"
    "       lake table describe NAMESPACE.TABLE\n"
    "       lake table compact NAMESPACE.TABLE\n"
    "       lake table cleanup NAMESPACE.TABLE [--older-than 14d] [--keep N] [--dry-run]\n"
    "                          [--operation-id ID]\n"
    "       lake table drop NAMESPACE.TABLE\n"
    "       lake table delete NAMESPACE.TABLE --where PREDICATE [--operation-id ID]\n"
    "       lake table update NAMESPACE.TABLE --set COLUMN=EXPRESSION … --where PREDICATE\n"
    "       lake table restore NAMESPACE.TABLE VERSION [--operation-id ID]\n"
    "       lake table history NAMESPACE.TABLE [--limit N] [--before VERSION]\n"
    "       lake table diff NAMESPACE.TABLE VERSION VERSION\n"
    "       lake table tag create NAMESPACE.TABLE TAG [--version N]\n"
    "       lake table tag delete NAMESPACE.TABLE TAG\n"
    "       lake table tag list NAMESPACE.TABLE\n"
    "       lake table branch create NAMESPACE.TABLE BRANCH [--from BRANCH] [--version N]\n"
    "       lake table branch delete NAMESPACE.TABLE BRANCH\n"
    "       lake table branch list NAMESPACE.TABLE\n"
    "\n" TYPES_HELP "\n"
    "Predicates and expressions are SQL over the table's columns; an update's see the row as it\n"
    "was. Older versions keep their rows. The same --operation-id changes the rows once only.\n"
    "\n"
    "Profiles: balanced (the default), fast (nothing is compressed), small (Zstandard).\n"
    "\n"
    "Compact puts the small fragments that many small appends leave together, and takes deleted\n"
    "rows off the disk: a new version with the same rows. Appends go on meanwhile.\n"
    "\n"
    "Cleanup removes versions older than --older-than (30s, 10m, 12h, 14d, 2w), but --keep of the\n"
    "newest and what tags and branches hold, and the files that nobody needs any more. The server\n"
    "keeps at least LAKE_LANCE_RETAIN_VERSIONS (10), and files that a writer may be about to use.\n"
    "\n"
    "Restore makes an older version the newest again, as a new version. A tag names a version\n"
    "(the newest, unless --version says which), which stays when others are cleaned up.\n"
    "\n"
    "A branch begins as a version of the table (or, --from, of another branch) without copying\n"
    "data, and goes its own way: other Lance programs write to it, lake lance cat reads it. One\n"
    "that a tag or another branch needs is not deleted.\n"
    "\n"
    "History lists versions, newest first, at most 256. Diff counts rows by fragments and\n"
    "deletion vectors: those that an update or a compaction moved are removed and added.\n"
    "\n"
    "Examples:\n"
    "  lake table create robots.frames --column episode:int64! --column 'state:float[25]'\n"
    "  lake table create robots.episodes --column episode:int64! --column video:FILE\n"
    "  lake table describe robots.frames --json\n"
    "  lake table compact robots.frames\n"
    "  lake table cleanup robots.frames --older-than 30d --keep 100\n"
    "  lake table delete robots.frames --where 'episode = 7 AND step < 10'\n"
    "  lake table update robots.frames --set 'reward=reward * 2' --where 'episode IN (1, 2)'\n"
    "  lake table tag create robots.frames before-cleaning\n"
    "  lake table branch create robots.frames relabelled/v2 --version 7\n"
    "  lake table history robots.frames --limit 10\n"
    "  lake table diff robots.frames 7 9 --json\n"
    "  lake table restore robots.frames 7\n",
    run_table};

const struct cli_command cli_client = {
    "client", "speak to a Query server at an address; finish interrupted appends",
    "Usage: lake client --addr HOST:PORT create-table NAMESPACE.TABLE --column NAME:TYPE …\n"
    "       lake client pending\n"
    "       lake client pending resume ID | --all\n"
    "       lake client pending drop ID\n"
    "\n" TYPES_HELP "\n"
    "With LAKE_UPLOAD_CHECKPOINT_DIR set, every append is written down there before it is sent.\n"
    "One whose answer was lost stays: pending lists the oldest 1,024 by their operation IDs and\n"
    "when they were made, resume sends them, which never adds rows twice, drop forgets one.\n"
    "\n"
    "Examples:\n"
    "  lake client --addr 127.0.0.1:8815 create-table robots.runs --column id:int64! \\\n"
    "       --column video:FILE\n"
    "  lake client pending resume --all --json\n",
    run_client};
