/* What the subcommands share. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include "cli.h"

#include <arrow/arrow.h>
#include <base/base.h>
#include <lake/lake.h>
#include <meta/meta.h>
#include <query/query.h>
#include <stdio.h>

#define CLI_DEFAULT_DATA_DIR   "lake-data"
#define CLI_DEFAULT_QUERY_ADDR "127.0.0.1:8815"
#define CLI_DEFAULT_META_ADDR  "127.0.0.1:8816"

#define CLI_EXIT_OK     0
#define CLI_EXIT_FAILED 1
#define CLI_EXIT_USAGE  2
#define CLI_EXIT_PIPE   141 /* as if SIGPIPE had ended it: who reads the output has enough */

struct cli_options { /* the options that every command takes */
    const char *data_dir;
    const char *address; /* NULL: not given */
    const char *token_path;
    const char *ca_path;
    const char *server_name;
    bool tls;
    bool json;
    bool only_arguments; /* "--" was seen */
};

struct cli_command {
    const char *name;
    const char *summary;
    const char *usage; /* the whole help text, examples at its end */
    int (*run)(struct cli_options *options, int argc, char **argv);
};

/* One list for help, dispatch and shell completion. */
extern const struct cli_command *const cli_commands[];
extern const struct cli_command cli_up, cli_meta, cli_query, cli_table, cli_client, cli_sql,
    cli_import, cli_put, cli_get, cli_cat, cli_lance, cli_inspect;

/* ---- arguments ---- */

/*
 * Takes the next option out of argv[*index…]. `names` is a list of "name" (a flag) and "name="
 * (with a value) ended by NULL; options common to all commands are handled inside. Returns the
 * option's place in `names` with *value set, CLI_ARGUMENT for a positional argument, CLI_END at the
 * end, or CLI_WRONG after having said what is wrong.
 */
enum {
    CLI_END = -1,
    CLI_ARGUMENT = -2,
    CLI_WRONG = -3,
    CLI_HELP = -4,
    CLI_VERSION = -5
};
int cli_next(struct cli_options *options, const char *const *names, int argc, char **argv,
             int *index, const char **value);
/* A message on stderr, with a hint at the usage. Returns CLI_EXIT_USAGE. */
int cli_usage_error(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* CLI_EXIT_OK, or what to end with after having said what is wrong: "namespace.table"; an operation
 * ID, which may be NULL. */
int cli_check_table(const struct cli_command *command, const char *table);
int cli_check_operation_id(const struct cli_command *command, const char *operation_id);
bool cli_is_address(const char *text); /* "host:port" */
/* Ends an option loop: help, the version, or a wrong option. */
int cli_stop(const struct cli_command *command, int code);
/* "lake: <message>", with the cause beneath it; as JSON with --json. Returns CLI_EXIT_FAILED. */
int cli_fail(const struct cli_options *options, const struct lake_error *err);

/* ---- verbs of a command ---- */

struct cli_verb {
    const char *name;
    int (*run)(struct cli_options *options, int argc, char **argv); /* what comes after the verb */
};
/* NULL: `name` is none of them. */
const struct cli_verb *cli_find_verb(const struct cli_verb *verbs, size_t count, const char *name);

/* table_change.c: `lake table delete` and `update`, after the verb. */
int cli_table_change(struct cli_options *options, bool update, int argc, char **argv);
/* table_cleanup.c: `lake table cleanup`, after the verb. */
int cli_table_cleanup(struct cli_options *options, int argc, char **argv);
/* table_versions.c: the verbs about a table's versions. NULL: `verb` is none of them. */
const struct cli_verb *cli_table_versions(const char *verb);
/* table_refs.c: `lake table tag` and `branch`, after the verb. */
int cli_table_tag(struct cli_options *options, int argc, char **argv);
int cli_table_branch(struct cli_options *options, int argc, char **argv);

/* table_versions.c: the arguments that most of these verbs take. */
#define CLI_TABLE_MAX_POSITIONAL 3
struct cli_table_arguments {
    const char *positional[CLI_TABLE_MAX_POSITIONAL];
    size_t count;
    const char *operation_id;
    const char *from;
    uint64_t version; /* --version or --before; 0: not given */
    uint64_t limit;   /* 0: not given */
};
/* CLI_EXIT_OK with exactly `wanted` positional arguments, or what to end with after `missing` or
 * another message. `names` are of version=, before=, limit=, from= and operation-id=. */
int cli_table_arguments(struct cli_options *options, const char *const *names, size_t wanted,
                        const char *missing, int argc, char **argv,
                        struct cli_table_arguments *out);

/* pending.c: `lake client pending …`, what comes after these words. */
int cli_run_pending(struct cli_options *options, int argc, char **argv);

/* ---- servers ---- */

/* Metasrv and Query in this process. */
struct cli_servers {
    struct rpc_authenticator *authenticator;
    struct meta_service *meta;
    struct query_server *query;
    char query_address[64];
    char meta_address[64];
};
lake_status cli_servers_start(const char *data_dir, const char *query_address,
                              const char *meta_address, struct cli_servers *out,
                              struct lake_error *err);
/* Query first, so that what it forwards still finds Metasrv. */
lake_status cli_servers_stop(struct cli_servers *servers, int64_t grace_ms, struct lake_error *err);
void cli_servers_fini(struct cli_servers *servers);

/* ---- sessions ---- */

struct cli_session {
    lake_client *client;
    struct cli_servers servers; /* when none was running */
    bool embedded;
};
lake_status cli_session_open(const struct cli_options *options, struct cli_session *out,
                             struct lake_error *err);
void cli_session_close(struct cli_session *session);
/* Where `lake up` says how it is reached; removed when it stops. */
lake_status cli_endpoint_write(const char *data_dir, const struct cli_servers *servers,
                               struct lake_error *err);
void cli_endpoint_remove(const char *data_dir);

/* ---- Arrow files into tables ---- */

/* From the columns of a file to those of a table, by name. INVALID_ARGUMENT names a column that is
 * missing and takes no nulls, one that the table lacks, or one whose type does not fit. */
struct cli_conversion;
lake_status cli_conversion_new(const struct ArrowSchema *from, const struct ArrowSchema *to,
                               struct cli_conversion **out, struct lake_error *err);
void cli_conversion_free(struct cli_conversion *conversion); /* NULL is allowed */
/* Takes `batch` over in every case. */
lake_status cli_convert(const struct cli_conversion *conversion, struct ArrowArray *batch,
                        struct ArrowArray *out, struct lake_error *err);

/* ---- printing ---- */

enum cli_format {
    CLI_FORMAT_TABLE,
    CLI_FORMAT_CSV,
    CLI_FORMAT_JSON,
    CLI_FORMAT_ARROW
};
bool cli_format_parse(const char *text, enum cli_format *out);
/* Prints a result; `rows` (may be NULL) receives how many. Releases the stream. */
lake_status cli_print_stream(struct ArrowArrayStream *stream, enum cli_format format, FILE *out,
                             uint64_t *rows, struct lake_error *err);
/* Appends one value: as text for people, or as JSON. */
lake_status cli_value_text(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                           int64_t row, struct base_buffer *out, struct lake_error *err);
lake_status cli_value_json(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                           int64_t row, struct base_buffer *out, struct lake_error *err);
void cli_print_json_string(FILE *out, const char *text);
/* "2026-11-30T13:00:00Z"; empty for a time that has no such form. */
#define CLI_TIME_BYTES 40
void cli_format_time(int64_t unix_ms, char out[CLI_TIME_BYTES]);

/* interrupt.c: from now on SIGINT, SIGTERM and SIGHUP make cli_progress_update cancel its transfer,
 * the second of them ends the process. Those that are ignored stay so. */
void cli_interrupt_watch(void);
bool cli_interrupt_seen(void);
/* Ends a command that failed by the signal that came; returns `code` if none did. */
int cli_interrupt_end(int code);

/* A progress bar on stderr while it is a terminal; otherwise nothing. */
struct cli_progress {
    const char *label; /* a path: its last part is shown */
    int64_t started_us;
    int64_t drawn_us;
    bool visible;
};
void cli_progress_init(struct cli_progress *progress, const char *label);
bool cli_progress_update(void *progress, int64_t done_bytes, int64_t total_bytes);
void cli_progress_rows(struct cli_progress *progress, uint64_t rows);
void cli_progress_end(struct cli_progress *progress);

/* ---- terminals and pipes ---- */

/* Appends text with what a terminal would obey instead of show (control characters) as blanks;
 * newlines stay when `lines`. */
lake_status cli_append_plain(struct base_buffer *out, struct lake_str text, bool lines,
                             struct lake_error *err);
/* True for a pipe whose reader has gone. */
bool cli_pipe_is_broken(FILE *out);
/* The failure of a write to `out`. */
lake_status cli_write_failed(FILE *out, struct lake_error *err);

#endif
