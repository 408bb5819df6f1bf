/*
 * What is on disk of an upload that may go on in another process (OBJ-4): one file a source and
 * stage, without credentials, replaced as a whole after each part, and locked while it is in use.
 */
#ifndef CLIENT_UPLOAD_CHECKPOINT_H
#define CLIENT_UPLOAD_CHECKPOINT_H

#include <storage/storage.h>

#include <sys/stat.h>

#define UPLOAD_CHECKPOINT_V1_PART_BYTES ((size_t)5 * 1024 * 1024)

struct upload_checkpoint {
    char *path;      /* of the file */
    char *lock_path; /* of the lock beside it, which goes when there is no checkpoint */
    int lock;        /* its descriptor */
    bool locked;
    char *stage_uri; /* what the upload is bound to */
    char *source;    /* absolute, as text */
    struct stat info;
    bool loaded; /* the file was there; what follows is its content */
    char *key;
    char *upload_id;
    size_t part_bytes;
    struct storage_part *parts; /* from the first on, without a gap */
    size_t part_count;
};

/* Finds and locks the checkpoint of `source`, whose present state is `info`, in `directory` (made
 * when absent), and reads it if it is there. FAILED_PRECONDITION: another upload of the same source
 * runs. DATA_LOSS: the file is none of ours. UNIMPLEMENTED: of a format that is not known. ABORTED:
 * the source is not what it was. */
lake_status upload_checkpoint_open(const char *directory, const char *stage_uri, const char *source,
                                   const struct stat *info, struct upload_checkpoint **out,
                                   struct lake_error *err);
/* Whether upload_checkpoint_open, which ended with `status`, found one, be it good or not: it is
 * handed out then, to be cancelled. What it does not say is NULL. */
bool upload_checkpoint_is_there(const struct upload_checkpoint *checkpoint, lake_status status);
/* Durable when it returns. */
lake_status upload_checkpoint_save(struct upload_checkpoint *checkpoint, const char *key,
                                   size_t part_bytes, const char *upload_id,
                                   const struct storage_part *parts, size_t count,
                                   struct lake_error *err);
lake_status upload_checkpoint_remove(struct upload_checkpoint *checkpoint, struct lake_error *err);
void upload_checkpoint_free(struct upload_checkpoint *checkpoint); /* NULL is allowed */

/* Reads `text` into a zeroed checkpoint, without looking at any file; for the fuzzer too. */
lake_status upload_checkpoint_parse(struct upload_checkpoint *checkpoint, struct lake_bytes text,
                                    struct lake_error *err);

#endif
