/* lake sql: one statement, or an interactive prompt. */
#define _GNU_SOURCE /* memmem */
#include "cli_internal.h"

#include <ctype.h>
#include <histedit.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
        (void)cli_append_plain(&type, base_str_of(info.schema.children[i]->name), false, NULL);
        (void)base_buffer_append(&type, "  ", 2, NULL);
        (void)arrow_type_format(info.schema.children[i], &type, NULL);
        printf("  %.*s\n", (int)type.size, (const char *)type.data);
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

/* Where what starts at `at` ends: a quoted text, a comment or one character. SIZE_MAX: not yet. */
static size_t skip_piece(struct lake_str sql, size_t at)
{
    const char *end = NULL;
    const char *rest = sql.data + at;
    size_t left = sql.size - at;
    if (*rest == '\'' || *rest == '"') {
        end = memchr(rest + 1, *rest, left - 1);
        return end == NULL ? SIZE_MAX : (size_t)(end - sql.data) + 1;
    }
    if (left >= 2 && memcmp(rest, "--", 2) == 0) {
        end = memchr(rest, '\n', left);
        return end == NULL ? sql.size : (size_t)(end - sql.data);
    }
    if (left >= 2 && memcmp(rest, "/*", 2) == 0) {
        end = memmem(rest + 2, left - 2, "*/", 2);
        return end == NULL ? SIZE_MAX : (size_t)(end - sql.data) + 2;
    }
    return at + 1;
}

/* The statement ends with a ; outside quotes and comments, behind which only these and blanks are.
 */
static bool statement_is_complete(const struct base_buffer *statement)
{
    struct lake_str sql = {(const char *)statement->data, statement->size};
    bool complete = false;
    for (size_t at = 0; at < sql.size;) {
        size_t end = skip_piece(sql, at);
        if (end == SIZE_MAX)
            return false;
        bool comment = end > at + 1 && (sql.data[at] == '-' || sql.data[at] == '/');
        if (!comment && !isspace((unsigned char)sql.data[at]))
            complete = sql.data[at] == ';';
        at = end;
    }
    return complete;
}

/* One line that can be edited again: line ends become blanks, unless a comment ends with one. */
static void remember(struct prompt *prompt, const char *text)
{
    HistEvent event;
    char *line = base_strdup(text);
    for (char *p = line; p != NULL && *p != '\0' && strstr(text, "--") == NULL; p++)
        *p = *p == '\n' ? ' ' : *p;
    size_t size = line == NULL ? 0 : strlen(line);
    while (size > 0 && isspace((unsigned char)line[size - 1]))
        line[--size] = '\0';
    if (line != NULL) {
        mode_t mask = umask(077); /* statements can hold what others must not read */
        history(prompt->history, &event, H_ENTER, line);
        history(prompt->history, &event, H_SAVE, prompt->history_path);
        umask(mask);
    }
    base_free(line);
}

/* Ctrl-C while a line is edited gives the line up; while a statement runs it ends the command, and
 * the server ends the statement. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static const char *read_line(struct prompt *prompt, int *count)
{
    const struct sigaction give_up = {.sa_handler = on_interrupt};
    struct sigaction before;
    interrupted = 0;
    sigaction(SIGINT, &give_up, &before);
    const char *line = el_gets(prompt->editor, count);
    sigaction(SIGINT, &before, NULL);
    return line;
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
        const char *line = read_line(prompt, &count);
        if (interrupted) {
            base_buffer_clear(&prompt->statement);
            el_reset(prompt->editor);
            fputs("\n", stdout);
            continue;
        }
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
        if (prompt.history != NULL)
            history_end(prompt.history);
        if (prompt.editor != NULL)
            el_end(prompt.editor);
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
