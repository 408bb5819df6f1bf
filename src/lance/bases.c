/*
 * Base paths: files of a version that lie outside its own directory, as those of a shallow clone or
 * of what a branch inherits do. The manifest names the places; a file says which one is its.
 *
 * A place that is the dataset's own root is known; of any other only the opener can say what store
 * it is, and whether it may be read at all.
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_BASES 1024

static struct lake_str without_slashes(struct lake_str path)
{
    while (path.size > 1 && path.data[path.size - 1] == '/') {
        path.size--;
    }
    return path;
}

static bool ends_with_path(struct lake_str whole, struct lake_str path)
{
    return whole.size > path.size && whole.data[whole.size - path.size - 1] == '/' &&
           memcmp(whole.data + whole.size - path.size, path.data, path.size) == 0;
}

/* Whether `path`, as a writer opened the dataset, names the place of `uri`. A relative path is
 * relative to where that writer stood; it is our root when our root's path ends with it, which
 * gives nothing away: the root is read anyway. */
static bool is_place(const char *uri, struct lake_str path)
{
    struct lake_str whole = without_slashes(base_str_of(uri));
    path = without_slashes(path);
    if (base_str_has_prefix(whole, "file://") && !base_str_has_prefix(path, "file://")) {
        whole = (struct lake_str){whole.data + 7, whole.size - 7};
        while (base_str_has_prefix(path, "./")) {
            path = (struct lake_str){path.data + 2, path.size - 2};
        }
        bool relative =
            path.size > 0 && path.data[0] != '/' && memchr(path.data, ':', path.size) == NULL;
        if (relative) {
            return ends_with_path(whole, path);
        }
    }
    return base_str_equal(whole, path);
}

/* Splits "place/tree/branch" at the first "/tree/" from `*at` on; false when there is none left. */
static bool split_branch(struct lake_str path, size_t *at, struct lake_str *place,
                         char branch[LANCE_REF_NAME_BYTES])
{
    static const struct lake_str tree = {"/tree/", 6};
    while (*at + tree.size < path.size) {
        size_t here = (*at)++;
        struct lake_str name = {path.data + here + tree.size, path.size - here - tree.size};
        if (memcmp(path.data + here, tree.data, tree.size) != 0 ||
            name.size >= LANCE_REF_NAME_BYTES) {
            continue;
        }
        (void)snprintf(branch, LANCE_REF_NAME_BYTES, "%.*s", LAKE_STR_FMT(name));
        if (lance_branch_name_valid(branch)) {
            *place = (struct lake_str){path.data, here};
            return true;
        }
    }
    return false;
}

/* The dataset's own root, or one of its branches. NOT_FOUND: the path names another place. */
static lake_status open_own(const struct lance_opening *opening, struct lake_str path,
                            struct storage_store **out, struct lake_error *err)
{
    const char *root = storage_store_uri(opening->root);
    char branch[LANCE_REF_NAME_BYTES];
    struct lake_str place;
    if (is_place(root, path)) {
        *out = storage_store_ref(opening->root);
        return LAKE_OK;
    }
    for (size_t at = 0; split_branch(path, &at, &place, branch);) {
        if (is_place(root, place)) {
            return lance_branch_open(opening->root, branch, out, err);
        }
    }
    return LAKE_NOT_FOUND;
}

/*
 * What a branch inherits lies in its own dataset, so a place that is not (any more) there is where
 * the dataset stood before it was moved. Files have names that no others have, and reading the
 * dataset's own directory gives nothing away.
 */
static lake_status open_moved(const struct lance_opening *opening, struct lake_str path,
                              struct storage_store **out, struct lake_error *err)
{
    char branch[LANCE_REF_NAME_BYTES];
    struct lance_branch read;
    struct lake_str place;
    for (size_t at = 0; split_branch(path, &at, &place, branch);) {
        lake_status status = lance_branch_read(opening->root, branch, &read, err);
        if (status != LAKE_NOT_FOUND) {
            return status == LAKE_OK ? lance_branch_open(opening->root, branch, out, err) : status;
        }
    }
    *out = storage_store_ref(opening->root);
    return LAKE_OK;
}

/* NOT_FOUND: nobody says what store it is. */
static lake_status open_place(const struct lance_opening *opening, const char *path,
                              struct storage_store **out, struct lake_error *err)
{
    struct lake_str place = without_slashes(base_str_of(path));
    lake_status status = open_own(opening, place, out, err);
    if (status == LAKE_NOT_FOUND && opening->open_base != NULL) {
        status = opening->open_base(opening->context, path, out, err);
    }
    bool of_branch = opening->store != opening->root;
    return status == LAKE_NOT_FOUND && of_branch ? open_moved(opening, place, out, err) : status;
}

static lake_status open_base(const struct lance_opening *opening, const LancePb__BasePath *pb,
                             struct lance_base *out, struct lake_error *err)
{
    struct lake_str path = lance_pb_str(pb->path);
    *out = (struct lance_base){.id = pb->has_id ? pb->id : 0,
                               .is_root = pb->has_is_dataset_root && pb->is_dataset_root};
    out->path = path.size == 0 || memchr(path.data, '\0', path.size) != NULL
                    ? NULL
                    : base_format("%.*s", LAKE_STR_FMT(path));
    if (out->path == NULL) {
        return lake_fail(err, LAKE_DATA_LOSS, "base path %u of the manifest is no path", out->id);
    }
    lake_status status = open_place(opening, out->path, &out->store, err);
    if (status == LAKE_NOT_FOUND && opening->open_base == NULL) {
        return LAKE_OK; /* refused when a file of it is asked for */
    }
    return status == LAKE_OK
               ? LAKE_OK
               : lake_fail_wrap(err, status, "base path %s of the dataset cannot be opened",
                                out->path);
}

lake_status lance_bases_open(const struct lance_opening *opening, const LancePb__Manifest *pb,
                             struct lance_bases *out, struct lake_error *err)
{
    struct lance_bases bases = {0};
    if (pb->n_base_paths > MAX_BASES) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "%zu base paths; at most %d are read",
                         pb->n_base_paths, MAX_BASES);
    }
    bases.items = base_calloc_array(pb->n_base_paths + 1, sizeof(*bases.items));
    if (bases.items == NULL) {
        return base_fail_no_memory(err, pb->n_base_paths * sizeof(*bases.items));
    }
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && bases.count < pb->n_base_paths) {
        status = open_base(opening, pb->base_paths[bases.count], &bases.items[bases.count], err);
        bases.count++;
    }
    if (status != LAKE_OK) {
        lance_bases_fini(&bases);
        return status;
    }
    *out = bases;
    return LAKE_OK;
}

void lance_bases_fini(struct lance_bases *bases)
{
    for (size_t i = 0; i < bases->count; i++) {
        storage_store_unref(bases->items[i].store);
        base_free(bases->items[i].path);
    }
    base_free(bases->items);
    *bases = (struct lance_bases){0};
}

lake_status lance_bases_find(const struct lance_bases *bases, uint32_t id,
                             const struct lance_base **out, struct lake_error *err)
{
    for (size_t i = 0; i < bases->count; i++) {
        if (bases->items[i].id != id) {
            continue;
        }
        if (bases->items[i].store == NULL) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "files of this version lie outside the dataset, at %s (it is a "
                             "shallow clone or a branch); here only the dataset's own directory "
                             "is read",
                             bases->items[i].path);
        }
        *out = &bases->items[i];
        return LAKE_OK;
    }
    return lake_fail(err, LAKE_DATA_LOSS, "a file lies at base path %u, which the manifest lacks",
                     id);
}
