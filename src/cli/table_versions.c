/* lake table restore, history and diff: the versions of a table. */
#include "cli_internal.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_VERSIONS 20
#define MAX_VERSIONS     256 /* that lake_table_history gives */

static bool parse_version(const char *text, uint64_t *out)
{
    return base_str_to_u64(base_str_of(text), out) && *out > 0;
}

int cli_table_arguments(struct cli_options *options, const char *const *names, size_t wanted,
                        const char *missing, int argc, char **argv, struct cli_table_arguments *out)
{
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which >= 0 && names[which][0] == 'o') {
            out->operation_id = value;
        } else if (which >= 0 && names[which][0] == 'f') {
            out->from = value;
        } else if (which >= 0) {
            if (!parse_version(value, names[which][0] == 'l' ? &out->limit : &out->version))
                return cli_usage_error(&cli_table, "--%s takes a number from 1, not %s",
                                       names[which], value);
        } else if (which != CLI_ARGUMENT) {
            return cli_stop(&cli_table, which);
        } else if (out->count == wanted) {
            return cli_usage_error(&cli_table, "unexpected argument %s", value);
        } else {
            out->positional[out->count++] = value;
        }
    }
    if (out->count < wanted)
        return cli_usage_error(&cli_table, "%s", missing);
    int code = cli_check_table(&cli_table, out->positional[0]);
    return code == CLI_EXIT_OK ? cli_check_operation_id(&cli_table, out->operation_id) : code;
}

/* ---- restore ---- */

static int run_restore(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"operation-id=", NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct lake_change_result result = {0};
    struct cli_session session;
    struct lake_error error = {0};
    int code = cli_table_arguments(options, names, 2, "which table, and which version of it?", argc,
                                   argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    const char *table = arguments.positional[0];
    uint64_t version = 0;
    if (!parse_version(arguments.positional[1], &version))
        return cli_usage_error(&cli_table, "a version is a number from 1, not %s",
                               arguments.positional[1]);
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_restore_table(session.client, table, version, arguments.operation_id, &result,
                                    &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json) {
        fputs("{\"restored\":", stdout);
        cli_print_json_string(stdout, table);
        printf(",\"from_version\":%" PRIu64 ",\"version\":%" PRIu64 ",\"rows\":%" PRIu64
               ",\"operation_id\":\"%s\",\"replayed\":%s}\n",
               version, result.version, result.row_count, result.operation_id,
               result.replayed ? "true" : "false");
    } else {
        printf("restored version %" PRIu64 " of %s, now version %" PRIu64 " with %" PRIu64
               " rows\n",
               version, table, result.version, result.row_count);
    }
    return CLI_EXIT_OK;
}

/* ---- history and diff ---- */

static void print_version(const struct cli_options *options, const struct lake_version_info *info)
{
    char time[CLI_TIME_BYTES];
    cli_format_time(info->timestamp_unix_ms, time);
    if (!options->json) {
        printf("%" PRIu64 "\t%s\t%s\t%" PRIu64 " rows\t%" PRIu64 " fragments\t%s\n", info->version,
               time, info->operation, info->row_count, info->fragment_count,
               info->operation_id[0] == '\0' ? "-" : info->operation_id);
        return;
    }
    printf("{\"version\":%" PRIu64 ",\"timestamp_ms\":%" PRId64 ",\"time\":\"%s\",\"operation\":",
           info->version, info->timestamp_unix_ms, time);
    cli_print_json_string(stdout, info->operation);
    printf(",\"rows\":%" PRIu64 ",\"fragments\":%" PRIu64 ",\"operation_id\":", info->row_count,
           info->fragment_count);
    if (info->operation_id[0] == '\0')
        fputs("null}", stdout);
    else {
        cli_print_json_string(stdout, info->operation_id);
        fputs("}", stdout);
    }
}

static int run_history(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"limit=", "before=", NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct lake_history history;
    struct cli_session session;
    struct lake_error error = {0};
    int code = cli_table_arguments(options, names, 1, "which table?", argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    uint64_t limit = arguments.limit == 0 ? DEFAULT_VERSIONS : arguments.limit;
    if (limit > MAX_VERSIONS)
        return cli_usage_error(&cli_table, "--limit takes a number from 1 to %d, not %" PRIu64,
                               MAX_VERSIONS, limit);
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_table_history(session.client, arguments.positional[0], arguments.version,
                                    (uint32_t)limit, &history, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json)
        fputs("{\"versions\":[", stdout);
    for (size_t i = 0; i < history.count; i++) {
        if (options->json && i > 0)
            fputs(",", stdout);
        print_version(options, &history.versions[i]);
    }
    if (options->json && history.next_before > 0)
        printf("],\"next_before\":%" PRIu64 "}\n", history.next_before);
    else if (options->json)
        fputs("],\"next_before\":null}\n", stdout);
    else if (history.next_before > 0)
        printf("older ones: --before %" PRIu64 "\n", history.next_before);
    lake_history_fini(&history);
    return CLI_EXIT_OK;
}

static void print_columns(const struct cli_options *options, const char *what,
                          const struct lake_column_names *columns)
{
    if (options->json)
        printf(",\"columns_%s\":[", what);
    else if (columns->count > 0)
        printf("columns %s:", what);
    for (size_t i = 0; i < columns->count; i++) {
        fputs(!options->json ? " " : i > 0 ? "," : "", stdout);
        cli_print_json_string(stdout, columns->names[i]);
    }
    if (options->json)
        fputs("]", stdout);
    else if (columns->count > 0)
        fputs("\n", stdout);
}

static void print_diff(const struct cli_options *options, const struct lake_version_diff *diff)
{
    printf(options->json ? "{\"rows_added\":%" PRIu64 ",\"rows_removed\":%" PRIu64
                           ",\"rows_rewritten\":%" PRIu64 ",\"fragments_added\":%" PRIu64
                           ",\"fragments_removed\":%" PRIu64 ",\"fragments_changed\":%" PRIu64
                         : "rows: %" PRIu64 " added, %" PRIu64 " removed, %" PRIu64
                           " rewritten\nfragments: %" PRIu64 " added, %" PRIu64 " removed, %" PRIu64
                           " changed\n",
           diff->rows_added, diff->rows_removed, diff->rows_rewritten, diff->fragments_added,
           diff->fragments_removed, diff->fragments_changed);
    print_columns(options, "added", &diff->columns_added);
    print_columns(options, "removed", &diff->columns_removed);
    print_columns(options, "changed", &diff->columns_changed);
    if (options->json)
        fputs("}\n", stdout);
}

static int run_diff(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct lake_version_diff diff;
    struct cli_session session;
    struct lake_error error = {0};
    uint64_t from = 0;
    uint64_t to = 0;
    int code = cli_table_arguments(options, names, 3, "which table, and which two versions of it?",
                                   argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    if (!parse_version(arguments.positional[1], &from) ||
        !parse_version(arguments.positional[2], &to))
        return cli_usage_error(&cli_table, "a version is a number from 1");
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status =
            lake_diff_versions(session.client, arguments.positional[0], from, to, &diff, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    print_diff(options, &diff);
    lake_version_diff_fini(&diff);
    return CLI_EXIT_OK;
}

/* ---- verbs ---- */

const struct cli_verb *cli_find_verb(const struct cli_verb *verbs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}

const struct cli_verb *cli_table_versions(const char *verb)
{
    static const struct cli_verb verbs[] = {{"restore", run_restore},
                                            {"history", run_history},
                                            {"diff", run_diff},
                                            {"tag", cli_table_tag},
                                            {"branch", cli_table_branch}};
    return cli_find_verb(verbs, BASE_ARRAY_LEN(verbs), verb);
}
