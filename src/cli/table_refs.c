/* lake table tag and branch: names for versions of a table, and where its history forks. */
#include "cli_internal.h"

#include <inttypes.h>
#include <string.h>

/* "tag create …": runs the verb that comes first in argv. */
static int run_verb(struct cli_options *options, const char *what, const struct cli_verb *verbs,
                    size_t count, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    const char *name = NULL;
    int index = 0;
    int which = cli_next(options, names, argc, argv, &index, &name);
    if (which == CLI_END)
        return cli_usage_error(&cli_table, "%s create, %s delete or %s list?", what, what, what);
    if (which != CLI_ARGUMENT)
        return cli_stop(&cli_table, which);
    const struct cli_verb *verb = cli_find_verb(verbs, count, name);
    if (verb == NULL)
        return cli_usage_error(&cli_table, "there is no lake table %s %s", what, name);
    return verb->run(options, argc - index, argv + index);
}

static const char *or_main(const char *branch)
{
    return branch[0] == '\0' ? "main" : branch;
}

/* Deletes a `what`, a tag or a branch, by `delete_it`. */
static int delete_ref(struct cli_options *options, const char *what, const char *missing,
                      lake_status (*delete_it)(lake_client *client, const char *table,
                                               const char *name, struct lake_error *err),
                      int argc, char **argv)
{
    static const char *const names[] = {NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct cli_session session;
    struct lake_error error = {0};
    int code = cli_table_arguments(options, names, 2, missing, argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    const char *table = arguments.positional[0];
    const char *name = arguments.positional[1];
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = delete_it(session.client, table, name, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json) {
        fputs("{\"deleted\":", stdout);
        cli_print_json_string(stdout, name);
        fputs(",\"table\":", stdout);
        cli_print_json_string(stdout, table);
        fputs("}\n", stdout);
    } else {
        printf("deleted %s %s of %s\n", what, name, table);
    }
    return CLI_EXIT_OK;
}

/* ---- tags ---- */

static int tag_create(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"version=", NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct cli_session session;
    struct lake_error error = {0};
    uint64_t tagged = 0;
    int code = cli_table_arguments(options, names, 2, "which table, and what is the tag's name?",
                                   argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    const char *table = arguments.positional[0];
    const char *tag = arguments.positional[1];
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_create_tag(session.client, table, tag, arguments.version, &tagged, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json) {
        fputs("{\"tagged\":", stdout);
        cli_print_json_string(stdout, tag);
        fputs(",\"table\":", stdout);
        cli_print_json_string(stdout, table);
        printf(",\"version\":%" PRIu64 "}\n", tagged);
    } else {
        printf("tagged version %" PRIu64 " of %s as %s\n", tagged, table, tag);
    }
    return CLI_EXIT_OK;
}

static int tag_delete(struct cli_options *options, int argc, char **argv)
{
    return delete_ref(options, "tag", "which table, and which tag of it?", lake_delete_tag, argc,
                      argv);
}

static void print_tags(const struct cli_options *options, const struct lake_tag_list *list)
{
    if (options->json)
        fputs("{\"tags\":[", stdout);
    for (size_t i = 0; i < list->count; i++) {
        const struct lake_tag *tag = &list->tags[i];
        if (options->json) {
            fputs(i > 0 ? ",{\"tag\":" : "{\"tag\":", stdout);
            cli_print_json_string(stdout, tag->name);
            printf(",\"version\":%" PRIu64 ",\"branch\":", tag->version);
            cli_print_json_string(stdout, or_main(tag->branch));
            fputs("}", stdout);
        } else {
            printf("%s\tversion %" PRIu64 "%s%s\n", tag->name, tag->version,
                   tag->branch[0] == '\0' ? "" : " of branch ", tag->branch);
        }
    }
    if (options->json)
        fputs("]}\n", stdout);
}

static int tag_list(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct lake_tag_list list = {NULL, 0};
    struct cli_session session;
    struct lake_error error = {0};
    int code = cli_table_arguments(options, names, 1, "which table?", argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_list_tags(session.client, arguments.positional[0], &list, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    print_tags(options, &list);
    lake_tag_list_fini(&list);
    return CLI_EXIT_OK;
}

int cli_table_tag(struct cli_options *options, int argc, char **argv)
{
    static const struct cli_verb verbs[] = {
        {"create", tag_create}, {"delete", tag_delete}, {"list", tag_list}};
    return run_verb(options, "tag", verbs, BASE_ARRAY_LEN(verbs), argc, argv);
}

/* ---- branches ---- */

static int branch_create(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"from=", "version=", NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct cli_session session;
    struct lake_error error = {0};
    uint64_t version = 0;
    int code = cli_table_arguments(options, names, 2, "which table, and what is the branch's name?",
                                   argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    const char *table = arguments.positional[0];
    const char *branch = arguments.positional[1];
    bool of_main = arguments.from == NULL || strcmp(arguments.from, "main") == 0;
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_create_branch(session.client, table, branch, of_main ? NULL : arguments.from,
                                    arguments.version, &version, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    const char *parent = of_main ? "main" : arguments.from;
    if (options->json) {
        fputs("{\"branched\":", stdout);
        cli_print_json_string(stdout, branch);
        fputs(",\"table\":", stdout);
        cli_print_json_string(stdout, table);
        fputs(",\"parent\":", stdout);
        cli_print_json_string(stdout, parent);
        printf(",\"version\":%" PRIu64 "}\n", version);
    } else {
        printf("branch %s of %s begins as version %" PRIu64 " of %s\n", branch, table, version,
               parent);
    }
    return CLI_EXIT_OK;
}

static int branch_delete(struct cli_options *options, int argc, char **argv)
{
    return delete_ref(options, "branch", "which table, and which branch of it?", lake_delete_branch,
                      argc, argv);
}

static void print_branch(const struct cli_options *options, const struct lake_branch *branch)
{
    char time[CLI_TIME_BYTES];
    cli_format_time(branch->created_unix_ms, time);
    if (!options->json) {
        printf("%s\tfrom version %" PRIu64 " of %s\t%s\n", branch->name, branch->parent_version,
               or_main(branch->parent), time);
        return;
    }
    fputs("{\"branch\":", stdout);
    cli_print_json_string(stdout, branch->name);
    fputs(",\"parent\":", stdout);
    cli_print_json_string(stdout, or_main(branch->parent));
    printf(",\"parent_version\":%" PRIu64 ",\"created_ms\":%" PRId64 ",\"created\":\"%s\"}",
           branch->parent_version, branch->created_unix_ms, time);
}

static int branch_list(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    struct cli_table_arguments arguments = {.count = 0};
    struct lake_branch_list list = {NULL, 0};
    struct cli_session session;
    struct lake_error error = {0};
    int code = cli_table_arguments(options, names, 1, "which table?", argc, argv, &arguments);
    if (code != CLI_EXIT_OK)
        return code;
    lake_status status = cli_session_open(options, &session, &error);
    if (status == LAKE_OK) {
        status = lake_list_branches(session.client, arguments.positional[0], &list, &error);
        cli_session_close(&session);
    }
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (options->json)
        fputs("{\"branches\":[", stdout);
    for (size_t i = 0; i < list.count; i++) {
        if (options->json && i > 0)
            fputs(",", stdout);
        print_branch(options, &list.branches[i]);
    }
    if (options->json)
        fputs("]}\n", stdout);
    lake_branch_list_fini(&list);
    return CLI_EXIT_OK;
}

int cli_table_branch(struct cli_options *options, int argc, char **argv)
{
    static const struct cli_verb verbs[] = {
        {"create", branch_create}, {"delete", branch_delete}, {"list", branch_list}};
    return run_verb(options, "branch", verbs, BASE_ARRAY_LEN(verbs), argc, argv);
}
