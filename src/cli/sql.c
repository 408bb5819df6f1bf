/* lake sql: one statement, or an interactive prompt. */
#include "cli_internal.h"

#include <ctype.h>
#include <histedit.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_STATEMENT ((size_t)1024 * 1024)

static int run_statement(const struct cli_options *options, lake_client *client, const char *sql,
                         enum cli_format format, bool summary)
{
    struct ArrowArrayStream stream = {0};
    struct lake_error error = {0};
    uint64_t rows = 0;
    int64_t started_us = base_clock_monotonic_us();
    lake_status status = lake_query(client, sql, &stream, &error);
    if (status == LAKE_OK)
        status = cli_print_stream(&stream, format, stdout, &rows, &error);
    if (status != LAKE_OK)
        return cli_fail(options, &error);
    if (summary)
        fprintf(stderr, "(%llu row%s, %.3f s)\n", (unsigned long long)rows, rows == 1 ? "" : "s",
                (double)(base_clock_monotonic_us() - started_us) / 1e6);
    return CLI_EXIT_OK;
}

/* ---- the prompt ---- */

struct prompt {
    EditLine *editor;
    History *history;
    struct base_buffer statement;
    char history_path[PATH_MAX];
};

static char *primary_prompt(EditLine *editor)
{
    static char text[] = "lake> ";
    static char more[] = "  ... ";
    struct prompt *prompt = NULL;
    el_get(editor, EL_CLIENTDATA, &prompt);
    return prompt != NULL && prompt->statement.size > 0 ? more : text;
}

static void print_prompt_help(void)
{
    fputs("Statements end with ; and may take several lines.\n"
          "  \\t          list tables\n"
          "  \\d ns.t     describe a table\n"
          "  \\q          leave (or Ctrl-D)\n"
          "  \\?          this help\n",
          stdout);
}

static void list_tables(const struct cli_options *options, lake_client *client)
{
    struct lake_table_list list = {0};
    struct lake_error error = {0};
    if (lake_list_tables(client, NULL, &list, &error) != LAKE_OK) {
        (void)cli_fail(options, &error);
        return;
    }
    for (size_t i = 0; i < list.count; i++)
        printf("%s\n", list.tables[i]);
    lake_table_list_fini(&list);
}

static void describe_table(const struct cli_options *options, lake_client *client,
                           const char *table)
{
    struct lake_table_info info;
    struct lake_error error = {0};
    if (lake_describe_table(client, table, &info, &error) != LAKE_OK) {
        (void)cli_fail(options, &error);
        return;
    }
    for (int64_t i = 0; i < info.schema.n_children; i++) {
        struct base_buffer type;
        base_buffer_init(&type, 65536);
        (void)arrow_type_format(info.schema.children[i], &type, NULL);
        printf("  %s  %.*s\n", info.schema.children[i]->name, (int)type.size,
               (const char *)type.data);
        base_buffer_fini(&type);
    }
    lake_table_info_fini(&info);
}

/* False: leave. */
static bool run_backslash(const struct cli_options *options, lake_client *client, char *line)
{
    char *argument = line + strcspn(line, " \t\n");
    while (isspace((unsigned char)*argument))
        *argument++ = '\0';
    argument[strcspn(argument, " ;\t\n")] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "\\q") == 0)
        return false;
    if (strcmp(line, "\\t") == 0)
        list_tables(options, client);
    else if (strcmp(line, "\\d") == 0 && *argument != '\0')
        describe_table(options, client, argument);
    else
        print_prompt_help();
    return true;
}

/* The statement ends with a ; outside quotes at the end of what was typed. */
static bool statement_is_complete(const struct base_buffer *statement)
{
    char quote = '\0';
    char last = '\0';
    for (size_t i = 0; i < statement->size; i++) {
        char c = (char)statement->data[i];
        if (quote != '\0')
            quote = c == quote ? '\0' : quote;
        else if (c == '\'' || c == '"')
            quote = c;
        if (!isspace((unsigned char)c))
            last = c;
    }
    return quote == '\0' && last == ';';
}

static void remember(struct prompt *prompt, const char *text)
{
    HistEvent event;
    history(prompt->history, &event, H_ENTER, text);
    history(prompt->history, &event, H_SAVE, prompt->history_path);
}

static void run_complete(const struct cli_options *options, lake_client *client,
                         struct prompt *prompt, enum cli_format format)
{
    if (base_buffer_append(&prompt->statement, "", 1, NULL) != LAKE_OK)
        return;
    remember(prompt, (const char *)prompt->statement.data);
    (void)run_statement(options, client, (const char *)prompt->statement.data, format, true);
    base_buffer_clear(&prompt->statement);
}

static void prompt_loop(const struct cli_options *options, lake_client *client,
                        struct prompt *prompt, enum cli_format format)
{
    for (;;) {
        int count = 0;
        const char *line = el_gets(prompt->editor, &count);
        if (line == NULL || count <= 0)
            break;
        if (prompt->statement.size == 0 && line[0] == '\\') {
            char command[1024];
            snprintf(command, sizeof(command), "%s", line);
            if (!run_backslash(options, client, command))
                return;
            continue;
        }
        if (prompt->statement.size == 0 && strspn(line, " \t\n") == strlen(line))
            continue;
        struct lake_error error = {0};
        if (base_buffer_append(&prompt->statement, line, strlen(line), &error) != LAKE_OK) {
            (void)cli_fail(options, &error);
            base_buffer_clear(&prompt->statement);
        }
        if (statement_is_complete(&prompt->statement))
            run_complete(options, client, prompt, format);
    }
    /* At the end of the input a last statement may lack its semicolon. */
    if (prompt->statement.size > 0)
        run_complete(options, client, prompt, format);
    if (isatty(STDIN_FILENO) == 1)
        fputs("\n", stdout);
}

static int run_prompt(const struct cli_options *options, lake_client *client,
                      enum cli_format format)
{
    struct prompt prompt = {0};
    HistEvent event;
    const char *home = getenv("HOME");
    base_buffer_init(&prompt.statement, MAX_STATEMENT);
    snprintf(prompt.history_path, sizeof(prompt.history_path), "%s/.lake_history",
             home == NULL ? "." : home);
    prompt.editor = el_init("lake", stdin, stdout, stderr);
    prompt.history = history_init();
    if (prompt.editor == NULL || prompt.history == NULL) {
        fputs("lake: the terminal cannot be used for a prompt\n", stderr);
        return CLI_EXIT_FAILED;
    }
    history(prompt.history, &event, H_SETSIZE, 1000);
    history(prompt.history, &event, H_SETUNIQUE, 1);
    history(prompt.history, &event, H_LOAD, prompt.history_path);
    el_set(prompt.editor, EL_CLIENTDATA, &prompt);
    el_set(prompt.editor, EL_PROMPT, primary_prompt);
    el_set(prompt.editor, EL_EDITOR, "emacs");
    el_set(prompt.editor, EL_HIST, history, prompt.history);
    el_set(prompt.editor, EL_SIGNAL, 1);
    if (isatty(STDIN_FILENO) == 1)
        fputs("Lake SQL. Statements end with ; — \\? for help, \\q to leave.\n", stdout);
    prompt_loop(options, client, &prompt, format);
    history_end(prompt.history);
    el_end(prompt.editor);
    base_buffer_fini(&prompt.statement);
    return CLI_EXIT_OK;
}

/* Standard input that is no terminal is one statement. */
static int run_input(const struct cli_options *options, lake_client *client, enum cli_format format)
{
    struct base_buffer sql;
    struct lake_error error = {0};
    char block[65536];
    size_t got;
    base_buffer_init(&sql, MAX_STATEMENT + 1);
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && (got = fread(block, 1, sizeof(block), stdin)) > 0)
        status = base_buffer_append(&sql, block, got, &error);
    if (status == LAKE_OK)
        status = base_buffer_append(&sql, "", 1, &error);
    int code = status == LAKE_OK
                   ? run_statement(options, client, (const char *)sql.data, format, false)
                   : cli_fail(options, &error);
    base_buffer_fini(&sql);
    return code;
}

static int run_sql(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {"format=", NULL};
    const char *sql = NULL;
    const char *value = NULL;
    enum cli_format format = CLI_FORMAT_TABLE;
    bool format_given = false;
    int index = 0;
    for (int which; (which = cli_next(options, names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == 0) {
            if (!cli_format_parse(value, &format))
                return cli_usage_error(&cli_sql, "the format is table, csv, json or arrow, not %s",
                                       value);
            format_given = true;
        } else if (which == CLI_ARGUMENT && sql == NULL) {
            sql = value;
        } else if (which == CLI_ARGUMENT) {
            return cli_usage_error(&cli_sql, "one statement at a time: put it in quotes");
        } else {
            return cli_stop(&cli_sql, which);
        }
    }
    if (options->json && !format_given)
        format = CLI_FORMAT_JSON;
    struct cli_session session;
    struct lake_error error = {0};
    if (cli_session_open(options, &session, &error) != LAKE_OK)
        return cli_fail(options, &error);
    int code;
    if (sql != NULL)
        code = run_statement(options, session.client, sql, format, false);
    else if (isatty(STDIN_FILENO) == 1)
        code = run_prompt(options, session.client, format);
    else
        code = run_input(options, session.client, format);
    cli_session_close(&session);
    return code;
}

const struct cli_command cli_sql = {
    "sql", "run a SELECT, or start an interactive prompt",
    "Usage: lake sql ['SELECT …'] [--format table|csv|json|arrow]\n"
    "\n"
    "Without a statement it reads one from standard input, or prompts on a terminal, with history\n"
    "and line editing. Tables are named namespace.table.\n"
    "\n"
    "Examples:\n"
    "  lake sql 'SELECT episode, count(*) FROM robots.frames GROUP BY episode ORDER BY episode'\n"
    "  lake sql 'SELECT * FROM robots.frames' --format csv > frames.csv\n"
    "  lake sql 'FROM robots.frames' --format arrow > frames.arrow\n"
    "  lake sql 'SELECT * FROM robots.frames AT (VERSION => 3)'\n",
    run_sql};
