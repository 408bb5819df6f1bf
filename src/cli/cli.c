#include "cli_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cli_command *const cli_commands[] = {
    &cli_up,  &cli_meta, &cli_query, &cli_table, &cli_client,  &cli_sql, &cli_import,
    &cli_put, &cli_get,  &cli_cat,   &cli_lance, &cli_inspect, NULL};

static const char overview[] = "lake: a lakehouse for embodied-AI data\n"
                               "\n"
                               "Usage: lake [OPTIONS] COMMAND …\n"
                               "\n"
                               "Commands:\n";

static const char common_options[] =
    "\n"
    "Options of every command:\n"
    "  --data-dir DIR      where tables, objects and the registry are (LAKE_DATA_DIR;\n"
    "                      default " CLI_DEFAULT_DATA_DIR ")\n"
    "  --addr HOST:PORT    the Query server to speak to (LAKE_ADDR); default: the one that\n"
    "                      serves the data directory, or one run inside the command\n"
    "  --token-file FILE   bearer token (LAKE_TOKEN_FILE)\n"
    "  --tls               encrypt; implied by the two options below\n"
    "  --ca FILE           certificate authorities in PEM (LAKE_CA_FILE; default: the system's)\n"
    "  --server-name NAME  name to expect in the server's certificate\n"
    "  --json              print JSON for machines, errors on stderr, too\n"
    "  --help              explain a command, with examples\n"
    "  --version           print the version\n"
    "  --                  what follows is no option\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.\n"
    "\n"
    "Start here:\n"
    "  lake up                                  # serve ./" CLI_DEFAULT_DATA_DIR "\n"
    "  lake table create robots.runs --column id:int64! --column video:FILE\n"
    "  lake put --into robots.runs --set id=1 --file video=run1.mp4\n"
    "  lake sql 'SELECT id, video FROM robots.runs'\n"
    "  lake get 'SELECT video FROM robots.runs WHERE id = 1' -o copy.mp4\n";

static int print_overview(FILE *out)
{
    fputs(overview, out);
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        fprintf(out, "  %-9s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputs(common_options, out);
    return out == stdout ? CLI_EXIT_OK : CLI_EXIT_USAGE;
}

/* ---- arguments ---- */

static const char *const common_names[] = {"data-dir=",    "addr=", "token-file=", "ca=",
                                           "server-name=", "tls",   "json",        "help",
                                           "version",      NULL};

static const char *environment(const char *variable, const char *fallback)
{
    return base_config_string(variable, fallback);
}

/* The place of `argument` ("--name", "--name=value", "-o") in `names`, or -1. */
static int find_option(const char *const *names, const char *argument, bool *takes_value,
                       const char **inline_value)
{
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    size_t size = strcspn(name, "=");
    *inline_value = name[size] == '=' ? name + size + 1 : NULL;
    for (int i = 0; names[i] != NULL; i++) {
        size_t known = strcspn(names[i], "=");
        if (known == size && strncmp(names[i], name, size) == 0) {
            *takes_value = names[i][known] == '=';
            return i;
        }
    }
    return -1;
}

bool cli_is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    return colon != NULL && colon != text && base_str_to_u64(base_str_of(colon + 1), &port) &&
           port <= UINT16_MAX;
}

static void set_common(struct cli_options *options, int which, const char *value)
{
    switch (which) {
    case 0:
        options->data_dir = value;
        break;
    case 1:
        options->address = value;
        break;
    case 2:
        options->token_path = value;
        break;
    case 3:
        options->ca_path = value;
        break;
    case 4:
        options->server_name = value;
        break;
    case 5:
        options->tls = true;
        break;
    default:
        options->json = true;
        break;
    }
}

int cli_next(struct cli_options *options, const char *const *names, int argc, char **argv,
             int *index, const char **value)
{
    while (*index < argc) {
        const char *argument = argv[(*index)++];
        bool takes_value = false;
        const char *inline_value = NULL;
        *value = argument;
        if (options->only_arguments || argument[0] != '-' || argument[1] == '\0')
            return CLI_ARGUMENT;
        if (strcmp(argument, "--") == 0) {
            options->only_arguments = true;
            continue;
        }
        if (strcmp(argument, "-h") == 0)
            return CLI_HELP;
        int which = find_option(names, argument, &takes_value, &inline_value);
        bool common = which < 0;
        if (common)
            which = find_option(common_names, argument, &takes_value, &inline_value);
        if (which < 0) {
            fprintf(stderr, "lake: there is no option %s\n", argument);
            return CLI_WRONG;
        }
        if (takes_value && inline_value == NULL && *index == argc) {
            fprintf(stderr, "lake: the option %s needs a value\n", argument);
            return CLI_WRONG;
        }
        if (!takes_value && inline_value != NULL) {
            fprintf(stderr, "lake: the option %s takes no value\n", argument);
            return CLI_WRONG;
        }
        *value = !takes_value ? NULL : inline_value != NULL ? inline_value : argv[(*index)++];
        if (takes_value && (*value)[0] == '\0') {
            fprintf(stderr, "lake: the option %.*s needs a value, and it is empty\n",
                    (int)strcspn(argument, "="), argument);
            return CLI_WRONG;
        }
        if (!common)
            return which;
        if (strcmp(common_names[which], "addr=") == 0 && !cli_is_address(*value)) {
            fprintf(stderr, "lake: --addr takes HOST:PORT, not %s\n", *value);
            return CLI_WRONG;
        }
        if (strcmp(common_names[which], "help") == 0)
            return CLI_HELP;
        if (strcmp(common_names[which], "version") == 0)
            return CLI_VERSION;
        set_common(options, which, *value);
    }
    return CLI_END;
}

static int print_help(const struct cli_command *command)
{
    fputs(command->usage, stdout);
    fputs("\nOptions of every command are listed by: lake --help\n", stdout);
    return CLI_EXIT_OK;
}

int cli_usage_error(const struct cli_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("lake: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (lake %s --help explains)\n", command->name);
    return CLI_EXIT_USAGE;
}

int cli_check_table(const struct cli_command *command, const char *table)
{
    const char *dot = strchr(table, '.');
    if (dot != NULL && dot != table && dot[1] != '\0' && strchr(dot + 1, '.') == NULL)
        return CLI_EXIT_OK;
    return cli_usage_error(command, "a table is named namespace.table, not '%s'", table);
}

int cli_check_operation_id(const struct cli_command *command, const char *operation_id)
{
    struct base_uuid id;
    if (operation_id == NULL || base_uuid_parse(base_str_of(operation_id), &id))
        return CLI_EXIT_OK;
    return cli_usage_error(command, "the operation ID '%s' is not a UUIDv7", operation_id);
}

static int print_version(void)
{
    printf("lake %s\n", lake_version());
    return CLI_EXIT_OK;
}

int cli_stop(const struct cli_command *command, int code)
{
    if (code == CLI_HELP)
        return print_help(command);
    return code == CLI_VERSION ? print_version() : CLI_EXIT_USAGE;
}

/* The failure of a write whose reader has gone: there is nothing to say. */
static bool reader_is_gone(const struct lake_error *err)
{
    return err->code != LAKE_OK && strstr(err->message, strerror(EPIPE)) != NULL &&
           cli_pipe_is_broken(stdout);
}

/* Messages hold names and values that anybody may have written. */
static void print_plain(FILE *out, const char *before, const char *text)
{
    struct base_buffer plain;
    base_buffer_init(&plain, 2 * LAKE_ERROR_MESSAGE_BYTES);
    if (cli_append_plain(&plain, base_str_of(text), true, NULL) == LAKE_OK)
        fprintf(out, "%s%.*s\n", before, (int)plain.size, (const char *)plain.data);
    base_buffer_fini(&plain);
}

int cli_fail(const struct cli_options *options, const struct lake_error *err)
{
    if (reader_is_gone(err))
        return CLI_EXIT_PIPE;
    if (options->json) {
        fputs("{\"error\":", stderr);
        cli_print_json_string(stderr, lake_status_name(err->code));
        fputs(",\"message\":", stderr);
        cli_print_json_string(stderr, err->message);
        if (err->cause[0] != '\0') {
            fputs(",\"cause\":", stderr);
            cli_print_json_string(stderr, err->cause);
        }
        fputs("}\n", stderr);
        return CLI_EXIT_FAILED;
    }
    print_plain(stderr, "lake: ", err->message);
    if (err->cause[0] != '\0')
        print_plain(stderr, "      because: ", err->cause);
    return CLI_EXIT_FAILED;
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    }
    return NULL;
}

/* Characters as the terminal has them, for the prompt and for columns; numbers stay C's. */
static void set_locale(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
}

/* No file that is opened later may become one of these, or messages would be written into it.
 * Whoever uses one that was closed is refused, as before. */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

/* What was printed must have arrived. */
static int finish(const struct cli_options *options, int code)
{
    struct lake_error error = {0};
    errno = 0;
    if ((fflush(stdout) == 0 && ferror(stdout) == 0) || code != CLI_EXIT_OK)
        return code;
    cli_write_failed(stdout, &error);
    return cli_fail(options, &error);
}

static int run_command(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    const char *value = NULL;
    int index = 1;
    for (;;) {
        int which = cli_next(options, names, argc, argv, &index, &value);
        if (which == CLI_VERSION)
            return print_version();
        if (which == CLI_HELP)
            return print_overview(stdout);
        if (which == CLI_WRONG)
            return CLI_EXIT_USAGE;
        if (which == CLI_END)
            return print_overview(stderr);
        const struct cli_command *command = find_command(value);
        if (command == NULL) {
            fprintf(stderr, "lake: there is no command %s (lake --help lists them)\n", value);
            return CLI_EXIT_USAGE;
        }
        return command->run(options, argc - index, argv + index);
    }
}

int cli_main(int argc, char **argv)
{
    struct cli_options options = {
        .data_dir = environment("LAKE_DATA_DIR", CLI_DEFAULT_DATA_DIR),
        .address = environment("LAKE_ADDR", NULL),
        .token_path = environment("LAKE_TOKEN_FILE", NULL),
        .ca_path = environment("LAKE_CA_FILE", NULL),
    };
    struct lake_error error = {0};
    hold_standard_descriptors();
    set_locale();
    signal(SIGPIPE, SIG_IGN); /* a write says so instead, and servers in this process end well */
    base_memory_tune();
    if (base_fault_configure(getenv("LAKE_FAULT"), &error) != LAKE_OK)
        return cli_fail(&options, &error);
    return finish(&options, run_command(&options, argc, argv));
}
