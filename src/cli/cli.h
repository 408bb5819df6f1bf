/*
 * cli: the `lake` command. One file a subcommand; a table in cli.c names them all.
 *
 * Commands that read or write tables speak to a Query server like any other client: to the one
 * given by --addr or LAKE_ADDR, else to the one that serves the data directory, else to one that
 * the command runs inside itself for as long as it lasts.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

/* Runs a command line. Returns the process's exit code: 0 done, 1 failed, 2 wrong usage. */
int cli_main(int argc, char **argv);

#endif
