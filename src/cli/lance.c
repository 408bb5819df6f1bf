/* lake lance: its arguments, and how a dataset is found. */
#include "lance_cli.h"

#include <string.h>
#include <sys/stat.h>

enum lance_option {
    OPTION_VERSION,
    OPTION_BRANCH,
    OPTION_TAG,
    OPTION_COLUMNS,
    OPTION_FILTER,
    OPTION_ROWS,
    OPTION_ROW_IDS,
    OPTION_FORMAT,
    OPTION_OUTPUT,
    OPTION_O,
    OPTION_MODE,
    OPTION_DATA_FORMAT,
    OPTION_PROFILE,
    OPTION_FILE,
    OPTION_COUNT
};
static const char *const option_names[OPTION_COUNT + 1] = {
    "version=", "branch=", "tag=", "columns=", "filter=",      "rows=",    "row-ids=",
    "format=",  "output=", "o=",   "mode=",    "data-format=", "profile=", "file="};

#define BIT(option)   (1u << (option))
#define WHICH_VERSION (BIT(OPTION_VERSION) | BIT(OPTION_BRANCH) | BIT(OPTION_TAG))
#define READ_OPTIONS \
    (WHICH_VERSION | BIT(OPTION_COLUMNS) | BIT(OPTION_FORMAT) | BIT(OPTION_OUTPUT) | BIT(OPTION_O))

static const struct verb {
    const char *name;
    lake_status (*run)(const struct lance_arguments *arguments, struct lake_error *err);
    unsigned options;
    bool takes_input;
} verbs[] = {
    {"cat", lance_cat, READ_OPTIONS | BIT(OPTION_FILTER), false},
    {"take", lance_take_rows, READ_OPTIONS | BIT(OPTION_ROWS) | BIT(OPTION_ROW_IDS), false},
    {"write", lance_write, BIT(OPTION_MODE) | BIT(OPTION_DATA_FORMAT) | BIT(OPTION_PROFILE), true},
    {"verify", lance_verify, WHICH_VERSION, false},
    {"stat", lance_stat, WHICH_VERSION, false},
    {"inspect", lance_inspect_print, WHICH_VERSION | BIT(OPTION_FILE), false},
};

/* ---- where a dataset is ---- */

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* "namespace.table" that is no path: where the servers say that it is. */
static lake_status find_table(const struct lance_arguments *arguments, char **uri,
                              struct lake_error *err)
{
    struct cli_session session;
    struct lake_table_info info;
    lake_status status = cli_session_open(arguments->options, &session, err);
    if (status != LAKE_OK)
        return status;
    status = lake_describe_table(session.client, arguments->path, &info, err);
    cli_session_close(&session);
    if (status != LAKE_OK)
        return status;
    *uri = base_strdup(info.location);
    lake_table_info_fini(&info);
    return *uri != NULL ? LAKE_OK : base_fail_no_memory(err, strlen(arguments->path));
}

/* A directory, or a URI of one or of a prefix in a bucket. */
static lake_status open_place(const char *place, bool create, struct storage_store **out,
                              struct lake_error *err)
{
    if (strstr(place, "://") != NULL)
        return storage_open_uri(base_str_of(place), create, NULL, out, err);
    return create || is_directory(place)
               ? storage_local_open(place, create, out, err)
               : lake_fail(err, LAKE_NOT_FOUND, "there is no directory %s", place);
}

lake_status lance_store_open(const struct lance_arguments *arguments, bool created,
                             struct storage_store **out, struct lake_error *err)
{
    const char *path = arguments->path;
    char *found = NULL;
    lake_status status = LAKE_OK;
    const char *dot = strchr(path, '.');
    if (!created && strchr(path, '/') == NULL && dot != NULL && dot != path && dot[1] != '\0' &&
        strchr(dot + 1, '.') == NULL && !is_directory(path))
        status = find_table(arguments, &found, err);
    if (status == LAKE_OK)
        status = open_place(found != NULL ? found : path, created, out, err);
    base_free(found);
    return status;
}

/* Who has the machine's files may follow a shallow clone wherever on it that leads. */
static lake_status open_base(void *context, const char *path, struct storage_store **out,
                             struct lake_error *err)
{
    (void)context;
    return open_place(path, false, out, err);
}

lake_status lance_open(const struct lance_arguments *arguments, struct lance_dataset **out,
                       struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lance_open_options options;
    lance_open_options_init(&options);
    options.version = arguments->version;
    options.branch = arguments->branch;
    options.tag = arguments->tag;
    options.open_base = open_base;
    lake_status status = lance_store_open(arguments, false, &store, err);
    if (status == LAKE_OK)
        status = lance_dataset_open_with(store, NULL, NULL, &options, out, err);
    storage_store_unref(store);
    return status;
}

/* ---- arguments ---- */

/* "a,b": no name is empty. */
static bool are_names(const char *text)
{
    for (size_t size;; text += size + 1) {
        size = strcspn(text, ",");
        if (size == 0 || text[size] == '\0')
            return size > 0;
    }
}

/* What to write instead of a value that an option does not take. */
static const char *expected(enum lance_option option)
{
    static const char *const WANTED[OPTION_COUNT] = {[OPTION_VERSION] = "a number from 1",
                                                     [OPTION_COLUMNS] = "names like a,b",
                                                     [OPTION_FILTER] = "a predicate of SQL",
                                                     [OPTION_ROWS] = "numbers like 5,3,3,100",
                                                     [OPTION_ROW_IDS] = "numbers like 5,3,3,100",
                                                     [OPTION_FORMAT] = "table, csv, json or arrow",
                                                     [OPTION_MODE] = "create, append or overwrite",
                                                     [OPTION_DATA_FORMAT] = "2.1 or 2.2",
                                                     [OPTION_PROFILE] = "balanced, fast or small"};
    return WANTED[option] == NULL ? "another value" : WANTED[option];
}

static bool set_option(struct lance_arguments *arguments, enum lance_option option,
                       const char *value)
{
    switch (option) {
    case OPTION_VERSION:
        return base_str_to_u64(base_str_of(value), &arguments->version) && arguments->version > 0;
    case OPTION_BRANCH:
        arguments->branch = value;
        break;
    case OPTION_TAG:
        arguments->tag = value;
        break;
    case OPTION_FORMAT:
        return cli_format_parse(value, &arguments->format);
    case OPTION_COLUMNS:
        arguments->columns = value;
        return are_names(value);
    case OPTION_FILTER:
        arguments->filter = value;
        return base_str_trim(base_str_of(value)).size > 0;
    case OPTION_ROWS:
        arguments->rows = value;
        return lance_rows_are_numbers(value);
    case OPTION_ROW_IDS:
        arguments->row_ids = value;
        return lance_rows_are_numbers(value);
    case OPTION_MODE:
        return lance_mode_parse(value, &arguments->mode);
    case OPTION_DATA_FORMAT:
        arguments->data_format = value;
        return strcmp(value, "2.1") == 0 || strcmp(value, "2.2") == 0;
    case OPTION_PROFILE:
        return lance_profile_parse(value, &arguments->profile);
    case OPTION_FILE:
        arguments->file = value;
        break;
    default:
        arguments->output = value;
        break;
    }
    return true;
}

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < BASE_ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}

int lance_run_verb(struct cli_options *options, const struct cli_command *command, const char *name,
                   int argc, char **argv)
{
    const struct verb *verb = find_verb(name);
    struct lance_arguments arguments = {.options = options,
                                        .format = CLI_FORMAT_TABLE,
                                        .mode = LANCE_WRITE_CREATE,
                                        .profile = LANCE_PROFILE_BALANCED};
    struct lake_error error = {0};
    const char *value = NULL;
    int index = 0;
    if (verb == NULL)
        return cli_usage_error(command, "there is no lake lance %s", name);
    for (int which;
         (which = cli_next(options, option_names, argc, argv, &index, &value)) != CLI_END;) {
        if (which == CLI_ARGUMENT && arguments.path == NULL)
            arguments.path = value;
        else if (which == CLI_ARGUMENT && verb->takes_input && arguments.input == NULL)
            arguments.input = value;
        else if (which == CLI_ARGUMENT)
            return cli_usage_error(command, "unexpected argument %s", value);
        else if (which < 0)
            return cli_stop(command, which);
        else if ((verb->options & BIT(which)) == 0)
            return cli_usage_error(command, "%s has no --%.*s", verb->name,
                                   (int)strcspn(option_names[which], "="), option_names[which]);
        else if (!set_option(&arguments, (enum lance_option)which, value))
            return cli_usage_error(command, "--%.*s takes %s, not %s",
                                   (int)strcspn(option_names[which], "="), option_names[which],
                                   expected((enum lance_option)which), value);
    }
    if (arguments.path == NULL || arguments.path[0] == '\0')
        return cli_usage_error(command, "which dataset?");
    if (arguments.tag != NULL && (arguments.branch != NULL || arguments.version > 0))
        return cli_usage_error(command,
                               "a tag names a version: no --version or --branch beside it");
    if (verb->run == lance_take_rows && (arguments.rows == NULL) == (arguments.row_ids == NULL))
        return cli_usage_error(command, "take needs --rows or --row-ids, such as --rows 5,3,3,100");
    if (verb->takes_input && arguments.input == NULL)
        return cli_usage_error(command, "which Arrow IPC file is to be written?");
    lake_status status = verb->run(&arguments, &error);
    return status == LAKE_OK ? CLI_EXIT_OK : cli_fail(options, &error);
}

static int run(struct cli_options *options, int argc, char **argv)
{
    static const char *const names[] = {NULL};
    const char *name = NULL;
    int index = 0;
    int which = cli_next(options, names, argc, argv, &index, &name);
    if (which == CLI_END)
        return cli_usage_error(&cli_lance, "cat, take, write, verify or stat?");
    if (which != CLI_ARGUMENT)
        return cli_stop(&cli_lance, which);
    return lance_run_verb(options, &cli_lance, name, argc - index, argv + index);
}

const struct cli_command cli_lance = {
    "lance", "look into Lance datasets by their path, and write them",
    "Usage: lake lance cat PATH [--version N] [--branch NAME] [--tag NAME] [--columns a,b]\n"
    "                [--filter 'SQL PREDICATE'] [--format table|csv|json|arrow] [-o FILE]\n"
    "       lake lance take PATH --rows 5,3,3,100 | --row-ids 7,2 [--version N] [--branch NAME]\n"
    "                [--tag NAME] [--columns a,b] [--format table|csv|json|arrow] [-o FILE]\n"
    "       lake lance write PATH IN.arrow|- [--mode create|append|overwrite]\n"
    "                [--data-format 2.1|2.2] [--profile balanced|fast|small]\n"
    "       lake lance verify PATH [--version N] [--branch NAME] [--tag NAME]\n"
    "       lake lance stat PATH [--version N] [--branch NAME] [--tag NAME]\n"
    "\n"
    "PATH is a dataset's directory or s3://BUCKET/PREFIX; where it is only read also\n"
    "NAMESPACE.TABLE, which the servers find. cat prints rows in the order of a scan; take\n"
    "prints those at offsets among the live rows, from 0, or with the given values of _rowid,\n"
    "in the order given. write takes an Arrow file or stream; - is the standard input. verify\n"
    "decodes every page and looks for every file that the version refers to.\n"
    "\n"
    "Examples:\n"
    "  lake lance cat frames.lance --columns episode,step --filter 'step < 3'\n"
    "  lake lance take frames.lance --rows 100000,5,5 --format json\n"
    "  lake lance write copy.lance rows.arrow --profile small\n"
    "  lake lance verify frames.lance\n",
    run};
