/* `lake client pending`: appends that were written down and not answered (SDK-5). */
#include "cli_internal.h"

#include <inttypes.h>
#include <string.h>

static void print_time(const char *operation_id)
{
    struct base_uuid uuid;
    char text[CLI_TIME_BYTES] = "?";
    if (base_uuid_parse(base_str_of(operation_id), &uuid))
        cli_format_time(base_uuid7_unix_ms(&uuid), text);
    printf("%s  %s\n", operation_id, text);
}

static void print_ids(const struct cli_options *options, const struct lake_pending_appends *pending)
{
    if (!options->json) {
        for (size_t i = 0; i < pending->count; i++)
            print_time(pending->operation_ids[i]);
        return;
    }
    fputs("{\"pending\":[", stdout);
    for (size_t i = 0; i < pending->count; i++)
        printf("%s\"%s\"", i == 0 ? "" : ",", pending->operation_ids[i]);
    fputs("]}\n", stdout);
}

static void print_resumed(const struct cli_options *options,
                          const struct lake_insert_result *result)
{
    if (options->json)
        printf("{\"resumed\":\"%s\",\"version\":%" PRIu64 ",\"rows\":%" PRIu64
               ",\"replayed\":%s}\n",
               result->operation_id, result->version, result->row_count,
               result->replayed ? "true" : "false");
    else
        printf("%s  %" PRIu64 " rows are in version %" PRIu64 "%s\n", result->operation_id,
               result->row_count, result->version, result->replayed ? " (were there)" : "");
}

static lake_status resume_one(const struct cli_options *options, lake_client *client,
                              const char *operation_id, struct lake_error *err)
{
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    lake_status status = lake_resume_pending_append(client, operation_id, &result, err);
    if (status == LAKE_OK)
        print_resumed(options, &result);
    if (status == LAKE_OK || status == LAKE_OUTCOME_UNKNOWN)
        lake_insert_result_fini(&result);
    return status;
}

/* One that fails does not hold up the others, and each failure is said. */
static lake_status resume_all(const struct cli_options *options, lake_client *client,
                              struct lake_error *err)
{
    struct lake_pending_appends pending;
    lake_status failed = lake_pending_append_ids(client, &pending, err);
    if (failed != LAKE_OK)
        return failed;
    for (size_t i = 0; i < pending.count; i++) {
        struct lake_error problem = {0};
        lake_status status = resume_one(options, client, pending.operation_ids[i], &problem);
        if (status == LAKE_OK)
            continue;
        if (failed != LAKE_OK)
            (void)cli_fail(options, err); /* the last one is the command's */
        failed = lake_fail(err, status, "%s: %s", pending.operation_ids[i], problem.message);
        memcpy(err->cause, problem.cause, sizeof(err->cause));
    }
    lake_pending_appends_fini(&pending);
    return failed;
}

static lake_status list(const struct cli_options *options, lake_client *client,
                        struct lake_error *err)
{
    struct lake_pending_appends pending;
    lake_status status = lake_pending_append_ids(client, &pending, err);
    if (status == LAKE_OK) {
        print_ids(options, &pending);
        lake_pending_appends_fini(&pending);
    }
    return status;
}

static lake_status drop(const struct cli_options *options, lake_client *client,
                        const char *operation_id, struct lake_error *err)
{
    lake_status status = lake_drop_pending_append(client, operation_id, err);
    if (status == LAKE_OK && options->json)
        printf("{\"dropped\":\"%s\"}\n", operation_id);
    else if (status == LAKE_OK)
        printf("dropped %s\n", operation_id);
    return status;
}

int cli_run_pending(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"all", NULL};
    const char *words[2] = {NULL, NULL}; /* the verb, the ID */
    const char *value = NULL;
    bool all = false;
    int index = 0;
    size_t count = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0)
            all = true;
        else if (which == CLI_ARGUMENT && count < BASE_ARRAY_LEN(words))
            words[count++] = value;
        else if (which == CLI_ARGUMENT)
            return cli_usage_error(&cli_client, "unexpected argument %s", value);
        else
            return cli_stop(&cli_client, which);
    }
    bool resumes = words[0] != NULL && strcmp(words[0], "resume") == 0;
    bool drops = words[0] != NULL && strcmp(words[0], "drop") == 0;
    if (words[0] != NULL && !resumes && !drops)
        return cli_usage_error(&cli_client, "there is no lake client pending %s", words[0]);
    if ((resumes && (words[1] != NULL) == all) || (drops && words[1] == NULL) || (!resumes && all))
        return cli_usage_error(&cli_client, "resume takes an operation ID or --all, drop an ID");
    struct cli_session session;
    struct lake_error error = {0};
    lake_status status = cli_session_open(options, &session, &error);
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (drops)
        status = drop(options, session.client, words[1], &error);
    else if (all)
        status = resume_all(options, session.client, &error);
    else if (resumes)
        status = resume_one(options, session.client, words[1], &error);
    else
        status = list(options, session.client, &error);
    cli_session_close(&session);
    return status == LAKE_OK ? CLI_EXIT_OK : cli_fail(options, &error);
}
