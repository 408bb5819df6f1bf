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
    if (is_place(storage_store_uri(opening->root), path)) {
        out->store = storage_store_ref(opening->root);
        return LAKE_OK;
    }
    if (opening->open_base == NULL) {
        return LAKE_OK; /* refused when a file of it is asked for */
    }
    lake_status status = opening->open_base(opening->context, out->path, &out->store, err);
    if (status != LAKE_OK) {
        return lake_fail_wrap(err, status, "base path %s of the dataset cannot be opened",
                              out->path);
    }
    return LAKE_OK;
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
