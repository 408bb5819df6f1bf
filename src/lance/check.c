/* Whether every file that a version refers to is there. */
#include "table.h"

#include <inttypes.h>

/* `expected_bytes` 0: the manifest does not say. */
static lake_status check_file(const struct lance_dataset *dataset, const struct lance_place *place,
                              uint64_t expected_bytes, struct lance_file_check *check,
                              struct lake_error *err)
{
    struct storage_object_info info;
    lake_status status = storage_stat(place->store, base_str_of(place->key), &info, err);
    if (status == LAKE_NOT_FOUND) {
        return lake_fail_wrap(err, LAKE_DATA_LOSS,
                              "the file %s, which version %" PRIu64 " refers to, is gone",
                              place->key, lance_dataset_version(dataset));
    }
    if (status == LAKE_OK && expected_bytes != 0 && info.size_bytes != expected_bytes) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the file %s has %" PRIu64 " bytes, the manifest says %" PRIu64,
                         place->key, info.size_bytes, expected_bytes);
    }
    if (status == LAKE_OK) {
        check->files++;
        check->bytes += info.size_bytes;
    }
    return status;
}

static lake_status check_fragment(struct lance_dataset *dataset,
                                  const LancePb__DataFragment *fragment,
                                  struct lance_file_check *check, struct lake_error *err)
{
    struct lance_place place;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < fragment->n_files && status == LAKE_OK; i++) {
        const LancePb__DataFile *file = fragment->files[i];
        status = lance_dataset_place_file(dataset, file, &place, err);
        if (status == LAKE_OK) {
            status = check_file(dataset, &place, file->file_size_bytes, check, err);
        }
    }
    if (status == LAKE_OK && fragment->deletion_file != NULL) {
        status = lance_dataset_place_deletions(dataset, fragment, &place, err);
        if (status == LAKE_OK) {
            status = check_file(dataset, &place, 0, check, err);
        }
    }
    return status;
}

lake_status lance_dataset_check_files(struct lance_dataset *dataset, struct lance_file_check *out,
                                      struct lake_error *err)
{
    const LancePb__Manifest *pb = dataset->manifest->pb;
    struct lance_file_check check = {0};
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < pb->n_fragments && status == LAKE_OK; i++) {
        status = check_fragment(dataset, pb->fragments[i], &check, err);
    }
    if (status == LAKE_OK) {
        *out = check;
    }
    return status;
}
