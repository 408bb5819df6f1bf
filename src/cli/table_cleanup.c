/* lake table cleanup. */
#include "cli_internal.h"

#include <inttypes.h>
#include <string.h>

#define CLEANUP_TIMEOUT_MS (24 * 60 * 60 * INT64_C(1000))

/* "90s", "10m", "12h", "14d", "2w": a number and a unit. */
static bool parse_age(const char *text, uint64_t *out_ms)
{
    static const struct {
        char unit;
        uint64_t ms;
    } units[] = {{'s', 1000},
                 {'m', 60 * 1000},
                 {'h', 3600 * 1000},
                 {'d', 24 * 3600 * 1000},
                 {'w', 7 * 24 * 3600 * 1000}};
    uint64_t number = 0;
    size_t size = strlen(text);
    if (size < 2 || !base_str_to_u64((struct lake_str){text, size - 1}, &number))
        return false;
    for (size_t i = 0; i < BASE_ARRAY_LEN(units); i++) {
        if (units[i].unit == text[size - 1])
            return base_u64_mul(number, units[i].ms, out_ms) && *out_ms <= INT64_MAX;
    }
    return false;
}

static void print_cleanup(const struct cli_options *options, const char *table, bool dry_run,
                          const struct lake_cleanup *done)
{
    if (options->json) {
        fputs("{\"cleaned_up\":", stdout);
        cli_print_json_string(stdout, table);
        printf(",\"dry_run\":%s,\"versions_kept\":%" PRIu64 ",\"versions_removed\":%" PRIu64
               ",\"files_removed\":%" PRIu64 ",\"abandoned_files_removed\":%" PRIu64
               ",\"files_in_grace\":%" PRIu64 ",\"bytes_removed\":%" PRIu64
               ",\"operation_id\":\"%s\"}\n",
               dry_run ? "true" : "false", done->versions_kept, done->versions_removed,
               done->files_removed, done->abandoned_files_removed, done->files_in_grace,
               done->bytes_removed, done->operation_id);
    } else {
        printf("%s %s: %" PRIu64 " versions and %" PRIu64 " files (%" PRIu64 " bytes) %s, %" PRIu64
               " versions stay\n",
               dry_run ? "would clean up" : "cleaned up", table, done->versions_removed,
               done->files_removed, done->bytes_removed, dry_run ? "would go" : "removed",
               done->versions_kept);
    }
}

/* CLI_EXIT_OK, or what to end with. */
static int read_arguments(struct cli_options *options, int argc, char **argv, const char **table,
                          struct lake_cleanup_options *out)
{
    static const char *const names[] = {"older-than=", "keep=", "dry-run", "operation-id=", NULL};
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0 && !parse_age(value, &out->older_than_ms))
            return cli_usage_error(
                &cli_table, "--older-than takes a number and s, m, h, d or w, not %s", value);
        if (which == 1 && (!base_str_to_u64(base_str_of(value), &out->retain_versions) ||
                           out->retain_versions == 0))
            return cli_usage_error(&cli_table, "--keep takes a number from 1, not %s", value);
        if (which == 2)
            out->dry_run = true;
        if (which == 3)
            out->operation_id = value;
        if (which >= 0)
            continue;
        if (which != CLI_ARGUMENT)
            return cli_stop(&cli_table, which);
        if (*table != NULL)
            return cli_usage_error(&cli_table, "unexpected argument %s", value);
        *table = value;
    }
    if (*table == NULL)
        return cli_usage_error(&cli_table, "which table?");
    int code = cli_check_table(&cli_table, *table);
    return code == CLI_EXIT_OK ? cli_check_operation_id(&cli_table, out->operation_id) : code;
}

int cli_table_cleanup(struct cli_options *options, int argc, char **argv)
{
    const char *table = NULL;
    struct lake_cleanup_options how;
    struct lake_cleanup done;
    struct cli_session session;
    struct lake_error error = {0};
    lake_cleanup_options_init(&how);
    int code = read_arguments(options, argc, argv, &table, &how);
    if (code != CLI_EXIT_OK)
        return code;
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_cleanup_table(session.client, table, &how, CLEANUP_TIMEOUT_MS, &done, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    print_cleanup(options, table, how.dry_run, &done);
    return CLI_EXIT_OK;
}
