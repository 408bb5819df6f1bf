/* lake table delete and update. */
#include "cli_internal.h"

#include <inttypes.h>
#include <string.h>

#define MAX_ASSIGNMENTS 1024

struct change {
    const char *table;
    const char *predicate;
    const char *operation_id;
    struct lake_assignment *assignments;
    size_t count;
};

static void change_fini(struct change *change)
{
    for (size_t i = 0; i < change->count; i++)
        base_free((void *)(uintptr_t)change->assignments[i].column);
    base_free(change->assignments);
}

/* "column=expression"; false when it is not. */
static bool add_assignment(struct change *change, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || base_str_trim(base_str_of(equals + 1)).size == 0 ||
        change->count == MAX_ASSIGNMENTS)
        return false;
    struct lake_assignment *grown =
        base_realloc_array(change->assignments, change->count + 1, sizeof(*grown));
    if (grown == NULL)
        return false;
    change->assignments = grown;
    char *column = base_strndup(text, (size_t)(equals - text));
    if (column == NULL)
        return false;
    change->assignments[change->count++] = (struct lake_assignment){column, equals + 1};
    return true;
}

static void print_change(const struct cli_options *options, const struct change *change,
                         const struct lake_change_result *result)
{
    const char *done = change->count > 0 ? "updated" : "deleted";
    if (options->json)
        printf("{\"%s\":%" PRIu64 ",\"version\":%" PRIu64
               ",\"operation_id\":\"%s\",\"replayed\":%s}\n",
               done, result->row_count, result->version, result->operation_id,
               result->replayed ? "true" : "false");
    else if (result->row_count == 0)
        printf("no rows of %s %s, still version %" PRIu64 "\n", change->table, done,
               result->version);
    else
        printf("%" PRIu64 " rows of %s %s, now version %" PRIu64 "\n", result->row_count,
               change->table, done, result->version);
}

static lake_status run(lake_client *client, const struct change *change,
                       struct lake_change_result *result, struct lake_error *err)
{
    if (change->count == 0)
        return lake_delete_rows(client, change->table, change->predicate, change->operation_id,
                                result, err);
    return lake_update_rows(client, change->table, change->assignments, change->count,
                            change->predicate, change->operation_id, result, err);
}

/* CLI_EXIT_OK, or what to end with. */
static int read_arguments(struct cli_options *options, bool update, int argc, char **argv,
                          struct change *out)
{
    static const char *const names[] = {"where=", "operation-id=", "set=", NULL};
    const char *value = NULL;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0)
            out->predicate = value;
        else if (which == 1)
            out->operation_id = value;
        else if (which == 2 && update && add_assignment(out, value))
            continue;
        else if (which == 2)
            return cli_usage_error(&cli_table,
                                   update ? "--set takes COLUMN=EXPRESSION, not %s"
                                          : "unexpected argument --set %s",
                                   value);
        else if (which != CLI_ARGUMENT)
            return cli_stop(&cli_table, which);
        else if (out->table != NULL)
            return cli_usage_error(&cli_table, "unexpected argument %s", value);
        else
            out->table = value;
    }
    if (out->table == NULL || out->predicate == NULL)
        return cli_usage_error(&cli_table, "a table and --where are needed (--where true: all)");
    if (base_str_trim(base_str_of(out->predicate)).size == 0)
        return cli_usage_error(&cli_table, "which rows? The predicate is empty (true: all)");
    if (update && out->count == 0)
        return cli_usage_error(&cli_table, "at least one --set COLUMN=EXPRESSION is needed");
    int code = cli_check_table(&cli_table, out->table);
    return code == CLI_EXIT_OK ? cli_check_operation_id(&cli_table, out->operation_id) : code;
}

int cli_table_change(struct cli_options *options, bool update, int argc, char **argv)
{
    struct change change = {.table = NULL};
    struct lake_change_result result = {0};
    struct cli_session session;
    struct lake_error error = {0};
    int code = read_arguments(options, update, argc, argv, &change);
    if (code == CLI_EXIT_OK) {
        lake_status status = cli_session_open(options, &session, &error);
        if (status == LAKE_OK) {
            status = run(session.client, &change, &result, &error);
            cli_session_close(&session);
        }
        if (status == LAKE_OK)
            print_change(options, &change, &result);
        else
            code = cli_fail(options, &error);
    }
    change_fini(&change);
    return code;
}
