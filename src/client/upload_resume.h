/*
 * A path upload that may go on where another process stopped (OBJ-4): what its checkpoint says is
 * compared with what the stage holds, and the bytes that are there are hashed again.
 */
#ifndef CLIENT_UPLOAD_RESUME_H
#define CLIENT_UPLOAD_RESUME_H

#include "chunk_digests.h"
#include "client_internal.h"
#include "upload_checkpoint.h"
#include "upload_parts.h"

struct upload_resume {
    struct upload_checkpoint *checkpoint;
    char *key;     /* of the upload to go on with; NULL: a new one */
    bool complete; /* the object is there: only the checkpoint was left */
    size_t held;   /* parts to go on after: the first ones of the checkpoint */
    int64_t hashed_bytes;
};

/* For the open file `fd` in state `info`. Leaves the file's position behind what is held, which
 * goes into `chunks`. Release with upload_resume_fini. */
lake_status upload_resume_begin(lake_client *client, struct storage_store *stage, const char *path,
                                int fd, const struct stat *info, struct chunk_builder *chunks,
                                struct upload_resume *out, struct lake_error *err);
/* Fills in what goes on, and that parts are checkpointed. `resume` stays where it is. */
void upload_resume_options(struct upload_resume *resume, struct upload_parts_options *options);
/* Of an upload whose object is there: ABORTED unless the file still holds what was sent of it, as
 * `record`, of its chunks now, says beside the one that was stored. */
lake_status upload_resume_compare(const struct upload_resume *resume, struct storage_store *stage,
                                  struct lake_bytes record, struct lake_error *err);
/* After completion: looks at the object, then forgets the checkpoint. */
lake_status upload_resume_end(struct upload_resume *resume, struct storage_store *stage,
                              const char *key, int64_t size_bytes, struct lake_error *err);
/* Whether a later call could go on: then the parts are kept. */
bool upload_resume_possible(const struct upload_resume *resume);
void upload_resume_fini(struct upload_resume *resume);

#endif
