/* Whether every file that a version refers to is there. */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>

/* `expected_bytes` 0: the manifest does not say. */
static lake_status check_file(struct lance_dataset *dataset, const char *key,
                              uint64_t expected_bytes, struct lance_file_check *check,
                              struct lake_error *err)
{
    struct storage_object_info info;
    lake_status status = storage_stat(dataset->store, base_str_of(key), &info, err);
    if (status == LAKE_NOT_FOUND) {
        return lake_fail_wrap(err, LAKE_DATA_LOSS,
                              "the file %s, which version %" PRIu64 " refers to, is gone", key,
                              lance_dataset_version(dataset));
    }
    if (status == LAKE_OK && expected_bytes != 0 && info.size_bytes != expected_bytes) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the file %s has %" PRIu64 " bytes, the manifest says %" PRIu64, key,
                         info.size_bytes, expected_bytes);
    }
    check->files++;
    check->bytes += info.size_bytes;
    return status;
}

static lake_status check_fragment(struct lance_dataset *dataset,
                                  const LancePb__DataFragment *fragment,
                                  struct lance_file_check *check, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 8];
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < fragment->n_files && status == LAKE_OK; i++) {
        const LancePb__DataFile *file = fragment->files[i];
        (void)snprintf(key, sizeof(key), "data/%.*s", LAKE_STR_FMT(lance_pb_str(file->path)));
        status = check_file(dataset, key, file->file_size_bytes, check, err);
    }
    if (status == LAKE_OK && fragment->deletion_file != NULL) {
        lance_deletion_key(fragment->id, fragment->deletion_file, key);
        status = check_file(dataset, key, 0, check, err);
    }
    return status;
}

lake_status lance_dataset_check_files(struct lance_dataset *dataset, struct lance_file_check *out,
                                      struct lake_error *err)
{
    const LancePb__Manifest *pb = dataset->manifest->pb;
    lake_status status = LAKE_OK;
    *out = (struct lance_file_check){0};
    for (size_t i = 0; i < pb->n_fragments && status == LAKE_OK; i++) {
        status = check_fragment(dataset, pb->fragments[i], out, err);
    }
    return status;
}
