/* lake lance …: Lance datasets by their path, without a server (lance.c, lance_read.c and
 * lance_write.c), and lake inspect. */
#ifndef CLI_LANCE_CLI_H
#define CLI_LANCE_CLI_H

#include "cli_internal.h"

#include <lance/lance.h>
#include <storage/storage.h>

struct lance_arguments {
    struct cli_options *options;
    const char *path;  /* of a dataset, or "namespace.table" */
    const char *input; /* of write */
    uint64_t version;  /* 0: the newest */
    const char *branch;
    const char *tag;
    const char *columns;
    const char *filter;
    const char *rows;
    const char *row_ids;
    const char *output; /* NULL: stdout */
    enum lance_write_mode mode;
    const char *data_format; /* NULL: the default */
    enum lance_profile profile;
    const char *file; /* of inspect */
    enum cli_format format;
};

/* The store at the dataset's directory, made when it may be `created`. */
lake_status lance_store_open(const struct lance_arguments *arguments, bool created,
                             struct storage_store **out, struct lake_error *err);
lake_status lance_open(const struct lance_arguments *arguments, struct lance_dataset **out,
                       struct lake_error *err);

/* "5,3,3,100": false when it is something else. */
bool lance_rows_are_numbers(const char *text);
/* "create", "append", "overwrite" */
bool lance_mode_parse(const char *name, enum lance_write_mode *out);

lake_status lance_cat(const struct lance_arguments *arguments, struct lake_error *err);
lake_status lance_take_rows(const struct lance_arguments *arguments, struct lake_error *err);
lake_status lance_write(const struct lance_arguments *arguments, struct lake_error *err);
lake_status lance_verify(const struct lance_arguments *arguments, struct lake_error *err);
lake_status lance_stat(const struct lance_arguments *arguments, struct lake_error *err);
lake_status lance_inspect_print(const struct lance_arguments *arguments, struct lake_error *err);

/* Reads the arguments of a verb of `command` and does it; the exit code. */
int lance_run_verb(struct cli_options *options, const struct cli_command *command, const char *name,
                   int argc, char **argv);

#endif
