/*
 * What is on disk of an append that has not been answered (SDK-5): one file an operation ID, with
 * the messages of its DoPut exactly as they are sent, so that sending them again is the same
 * append. No object bytes and no credentials are in it.
 *
 *   "LAKEAPND", format u32, four texts (size u32, bytes): the lake, operation ID, namespace, table;
 *   the messages (size u32, bytes); SHA-256 of all before. Numbers are little-endian.
 *
 * The file is written and synced under another name, locked from its first byte on, then renamed;
 * the lock goes with it, so nobody else sends an append that is being sent.
 */
#ifndef CLIENT_PENDING_FILE_H
#define CLIENT_PENDING_FILE_H

#include "client_internal.h"

/* 64 MiB of messages, their sizes, the texts. */
#define PENDING_MAX_FILE_BYTES ((uint64_t)66 * 1024 * 1024)
#define PENDING_MAX_TEXT_BYTES 4096

struct pending_record { /* views */
    struct lake_str lake;
    struct lake_str operation_id;
    struct lake_str namespace_name, table;
    struct lake_bytes messages;
};
/* Checks the whole: bounds, checksum, every message. DATA_LOSS: damaged, or none of ours. */
lake_status pending_record_parse(struct lake_bytes file, struct pending_record *out,
                                 struct lake_error *err);
/* The next message of a parsed record; false at the end. */
bool pending_record_next(struct lake_bytes *rest, struct lake_bytes *message);

struct pending_file;

/* Begins the file of `record`, whose messages are added afterwards. `directory` is made when it is
 * absent. FAILED_PRECONDITION: another thread or process does the same. */
lake_status pending_file_create(const char *directory, const struct pending_record *record,
                                struct pending_file **out, struct lake_error *err);
/* Adds one message in parts; the parts stay the caller's. */
lake_status pending_file_add(struct pending_file *file, const struct rpc_part *parts,
                             size_t part_count, struct lake_error *err);
/*
 * Gives the file its name and makes it durable. When the same append is there already, that file is
 * used (pending_file_was_there); with other rows ALREADY_EXISTS. OUTCOME_UNKNOWN: the file has its
 * name, but a crash of the machine may still take it away.
 */
lake_status pending_file_publish(struct pending_file *file, struct lake_error *err);
bool pending_file_was_there(const struct pending_file *file);

/* Locks and reads the file of an operation. NOT_FOUND; FAILED_PRECONDITION: it is being sent just
 * now. `record` views what `out` holds. */
lake_status pending_file_open(const char *directory, const char *operation_id,
                              struct pending_file **out, struct pending_record *record,
                              struct lake_error *err);
/* The same without reading it: it may be damaged. */
lake_status pending_file_lock(const char *directory, const char *operation_id,
                              struct pending_file **out, struct lake_error *err);
lake_status pending_file_remove(struct pending_file *file, struct lake_error *err);
/* Unlocks; a file that was not published is gone. NULL is allowed. */
void pending_file_free(struct pending_file *file);

/* The first `capacity` operation IDs, oldest first; removes what killed processes left half
 * written. */
lake_status pending_file_list(const char *directory, char (*ids)[LAKE_OPERATION_ID_BYTES],
                              size_t capacity, size_t *count, struct lake_error *err);

#endif
