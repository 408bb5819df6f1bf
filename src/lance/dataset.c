/*
 * A dataset handle: one immutable version, and its files through the cache.
 */
#include "index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CACHE_KEY_BYTES (STORAGE_MAX_KEY_BYTES + 256)

struct lance_dataset *lance_dataset_ref(struct lance_dataset *dataset)
{
    atomic_fetch_add_explicit(&dataset->references, 1, memory_order_relaxed);
    return dataset;
}

void lance_dataset_unref(struct lance_dataset *dataset)
{
    if (dataset == NULL ||
        atomic_fetch_sub_explicit(&dataset->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    lance_manifest_unref(dataset->manifest);
    storage_store_unref(dataset->store);
    lance_bases_fini(&dataset->bases);
    base_free(dataset->fragment_rows);
    base_free(dataset->cache_key);
    base_free(dataset);
}

/* ---- files ---- */

static lake_status find_place(const struct lance_dataset *dataset, bool has_base_id,
                              uint32_t base_id, struct lance_place *out, struct lake_error *err)
{
    *out = (struct lance_place){.store = dataset->store};
    if (!has_base_id) {
        return LAKE_OK;
    }
    lake_status status = lance_bases_find(&dataset->bases, base_id, &out->base, err);
    if (status == LAKE_OK) {
        out->store = out->base->store;
    }
    return status;
}

lake_status lance_dataset_place_file(const struct lance_dataset *dataset,
                                     const LancePb__DataFile *file, struct lance_place *out,
                                     struct lake_error *err)
{
    struct lake_str path = lance_pb_str(file->path);
    lake_status status = find_place(dataset, file->has_base_id, file->base_id, out, err);
    if (status != LAKE_OK) {
        return status;
    }
    bool in_data = out->base == NULL || out->base->is_root;
    int length =
        snprintf(out->key, sizeof(out->key), "%s%.*s", in_data ? "data/" : "", LAKE_STR_FMT(path));
    if (length < 0 || (size_t)length >= sizeof(out->key) ||
        memchr(path.data == NULL ? "" : path.data, '\0', path.size) != NULL ||
        !storage_key_valid(base_str_of(out->key))) {
        return lake_fail(err, LAKE_DATA_LOSS, "the manifest names a data file by no valid path");
    }
    return LAKE_OK;
}

lake_status lance_dataset_place_deletions(const struct lance_dataset *dataset,
                                          const LancePb__DataFragment *fragment,
                                          struct lance_place *out, struct lake_error *err)
{
    const LancePb__DeletionFile *file = fragment->deletion_file;
    lake_status status = find_place(dataset, file->has_base_id, file->base_id, out, err);
    if (status == LAKE_OK && out->base != NULL && !out->base->is_root) {
        status = lake_fail(err, LAKE_UNIMPLEMENTED,
                           "the deletion file of fragment %" PRIu64
                           " lies at %s, which is no dataset's root",
                           fragment->id, out->base->path);
    }
    if (status == LAKE_OK) {
        lance_deletion_key(fragment->id, file, out->key);
    }
    return status;
}

/* Where the cache has what lies at a place. */
struct cached {
    enum lance_cached kind;
    char key[CACHE_KEY_BYTES]; /* empty: nothing is cached */
};

/* The object itself with a new reference, or NULL. */
static void *look_up(const struct lance_dataset *dataset, enum lance_cached kind,
                     const struct lance_place *place, struct cached *out)
{
    out->kind = kind;
    out->key[0] = '\0';
    if (dataset->cache == NULL || dataset->cache_key == NULL) {
        return NULL;
    }
    int length = snprintf(out->key, CACHE_KEY_BYTES, "%s\n%s%s%s", dataset->cache_key,
                          place->base == NULL ? "" : place->base->path,
                          place->base == NULL ? "" : "\n", place->key);
    if (length < 0 || length >= CACHE_KEY_BYTES) {
        out->key[0] = '\0';
        return NULL;
    }
    return lance_cache_get(dataset->cache, kind, out->key);
}

static void keep(const struct lance_dataset *dataset, const struct cached *cached, void *object,
                 size_t memory_bytes)
{
    if (cached->key[0] != '\0') {
        lance_cache_put(dataset->cache, cached->kind, cached->key, object, memory_bytes);
    }
}

lake_status lance_dataset_open_file(struct lance_dataset *dataset, const LancePb__DataFile *file,
                                    struct lance_file **out, struct lake_error *err)
{
    struct lance_tail none = {NULL, 0};
    return lance_dataset_open_file_by(dataset, file, &none, out, err);
}

bool lance_dataset_has_file(const struct lance_dataset *dataset, const struct lance_place *place)
{
    struct cached cached;
    struct lance_file *file = look_up(dataset, LANCE_CACHED_FILE, place, &cached);
    lance_file_unref(file);
    return file != NULL;
}

lake_status lance_dataset_open_file_by(struct lance_dataset *dataset, const LancePb__DataFile *file,
                                       struct lance_tail *tail, struct lance_file **out,
                                       struct lake_error *err)
{
    struct cached cached;
    struct lance_place place;
    lake_status status = lance_dataset_place_file(dataset, file, &place, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_file *opened = look_up(dataset, LANCE_CACHED_FILE, &place, &cached);
    if (opened != NULL) {
        *out = opened;
        return LAKE_OK;
    }
    status = lance_file_open_by(place.store, base_str_of(place.key), file->file_size_bytes, tail,
                                &opened, err);
    if (status == LAKE_NOT_FOUND) {
        return lake_fail_wrap(err, LAKE_DATA_LOSS,
                              "the data file %s, which version %" PRIu64 " refers to, is gone",
                              place.key, lance_dataset_version(dataset));
    }
    if (status != LAKE_OK) {
        return status;
    }
    keep(dataset, &cached, opened, lance_file_memory_bytes(opened));
    *out = opened;
    return LAKE_OK;
}

lake_status lance_dataset_open_deletions(struct lance_dataset *dataset, size_t index,
                                         struct lance_deletions **out, struct lake_error *err)
{
    const LancePb__DataFragment *fragment = dataset->manifest->pb->fragments[index];
    struct cached cached;
    struct lance_place place;
    if (fragment->deletion_file == NULL) {
        *out = NULL;
        return LAKE_OK;
    }
    lake_status status = lance_dataset_place_deletions(dataset, fragment, &place, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct lance_deletions *deletions = look_up(dataset, LANCE_CACHED_DELETIONS, &place, &cached);
    if (deletions != NULL) {
        *out = deletions;
        return LAKE_OK;
    }
    status = lance_deletions_read(place.store, fragment->id, fragment->deletion_file,
                                  dataset->fragment_rows[index], &deletions, err);
    if (status != LAKE_OK) {
        return status;
    }
    keep(dataset, &cached, deletions, sizeof(*deletions) + (size_t)deletions->row_count / 8);
    *out = deletions;
    return LAKE_OK;
}

lake_status lance_dataset_open_index(struct lance_dataset *dataset,
                                     const LancePb__IndexMetadata *entry,
                                     struct lance_read_counters *counters, struct lance_index **out,
                                     struct lake_error *err)
{
    struct cached cached;
    char key[LANCE_INDEX_KEY_BYTES];
    struct lance_place place;
    lake_status status = find_place(dataset, entry->has_base_id, entry->base_id, &place, err);
    if (status == LAKE_OK) {
        status = lance_index_key(entry, key, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    bool in_indices = place.base == NULL || place.base->is_root;
    (void)snprintf(place.key, sizeof(place.key), "%s",
                   in_indices ? key : key + strlen("_indices/"));
    struct lance_index *index = look_up(dataset, LANCE_CACHED_INDEX, &place, &cached);
    if (index != NULL) {
        *out = index;
        return LAKE_OK;
    }
    status = lance_index_open(place.store, place.key, entry, counters, &index, err);
    if (status != LAKE_OK) {
        return status;
    }
    keep(dataset, &cached, index, index->memory_bytes);
    *out = index;
    return LAKE_OK;
}

/* ---- opening ---- */

/* The rows of a fragment whose manifest does not say: as many as its first data file has. */
static lake_status ask_file_for_rows(struct lance_dataset *dataset,
                                     const LancePb__DataFragment *fragment, uint64_t *out,
                                     struct lake_error *err)
{
    struct lance_file *file = NULL;
    lake_status status = lance_dataset_open_file(dataset, fragment->files[0], &file, err);
    if (status != LAKE_OK) {
        return status;
    }
    uint64_t rows = lance_file_row_count(file);
    lance_file_unref(file);
    if (rows > UINT32_MAX) {
        return lake_fail(err, LAKE_DATA_LOSS, "fragment %" PRIu64 " has %" PRIu64 " rows",
                         fragment->id, rows);
    }
    *out = rows;
    return LAKE_OK;
}

lake_status lance_dataset_deleted_rows(struct lance_dataset *dataset, size_t index, uint64_t *out,
                                       struct lake_error *err)
{
    const LancePb__DataFragment *fragment = dataset->manifest->pb->fragments[index];
    struct lance_deletions *deletions = NULL;
    *out = fragment->deletion_file == NULL ? 0 : fragment->deletion_file->num_deleted_rows;
    if (fragment->deletion_file == NULL || *out != 0) {
        return LAKE_OK;
    }
    lake_status status = lance_dataset_open_deletions(dataset, index, &deletions, err);
    if (status == LAKE_OK) {
        *out = deletions->deleted_count;
        lance_deletions_unref(deletions);
    }
    return status;
}

static lake_status count_rows(struct lance_dataset *dataset, struct lake_error *err)
{
    const LancePb__Manifest *pb = dataset->manifest->pb;
    dataset->fragment_rows = base_calloc_array(pb->n_fragments + 1, sizeof(uint64_t));
    if (dataset->fragment_rows == NULL) {
        return base_fail_no_memory(err, (pb->n_fragments + 1) * sizeof(uint64_t));
    }
    for (size_t i = 0; i < pb->n_fragments; i++) {
        uint64_t deleted;
        uint64_t *rows = &dataset->fragment_rows[i];
        *rows = pb->fragments[i]->physical_rows;
        lake_status status = LAKE_OK;
        if (*rows == 0) {
            status = ask_file_for_rows(dataset, pb->fragments[i], rows, err);
        }
        if (status == LAKE_OK) {
            status = lance_dataset_deleted_rows(dataset, i, &deleted, err);
        }
        if (status != LAKE_OK) {
            return status;
        }
        if (deleted > *rows) {
            return lake_fail(err, LAKE_DATA_LOSS,
                             "fragment %" PRIu64 " has %" PRIu64 " rows, of which %" PRIu64
                             " are said to be deleted",
                             pb->fragments[i]->id, *rows, deleted);
        }
        dataset->row_count += *rows - deleted; /* at most 10^7 fragments of 2^32 rows */
    }
    return LAKE_OK;
}

lake_status lance_dataset_of_manifest(const struct lance_opening *opening,
                                      struct lance_manifest *manifest, struct lance_dataset **out,
                                      struct lake_error *err)
{
    struct lance_dataset *dataset = base_calloc_array(1, sizeof(*dataset));
    if (dataset == NULL) {
        lance_manifest_unref(manifest);
        return base_fail_no_memory(err, sizeof(*dataset));
    }
    atomic_init(&dataset->references, 1);
    dataset->store = storage_store_ref(opening->store);
    dataset->cache = opening->cache;
    dataset->manifest = manifest;
    lake_status status = LAKE_OK;
    if (opening->cache_key != NULL) {
        dataset->cache_key = base_strdup(opening->cache_key);
        if (dataset->cache_key == NULL) {
            status = base_fail_no_memory(err, strlen(opening->cache_key) + 1);
        }
    }
    if (status == LAKE_OK) {
        status = lance_bases_open(opening, manifest->pb, &dataset->bases, err);
    }
    if (status == LAKE_OK) {
        status = count_rows(dataset, err);
    }
    if (status != LAKE_OK) {
        lance_dataset_unref(dataset);
        return status;
    }
    *out = dataset;
    return LAKE_OK;
}

static bool manifest_key_of(struct lance_cache *cache, const char *cache_key, uint64_t version,
                            char out[CACHE_KEY_BYTES])
{
    return cache != NULL && cache_key != NULL &&
           snprintf(out, CACHE_KEY_BYTES, "%s\n%" PRIu64, cache_key, version) < CACHE_KEY_BYTES;
}

void lance_cache_forget_version(struct lance_cache *cache, const char *cache_key, uint64_t version)
{
    char key[CACHE_KEY_BYTES];
    if (manifest_key_of(cache, cache_key, version, key)) {
        lance_cache_remove(cache, LANCE_CACHED_MANIFEST, key);
    }
}

void lance_dataset_cache_manifest(const struct lance_dataset *dataset,
                                  struct lance_manifest *manifest)
{
    char key[CACHE_KEY_BYTES];
    if (manifest_key_of(dataset->cache, dataset->cache_key, manifest->pb->version, key)) {
        lance_cache_put(dataset->cache, LANCE_CACHED_MANIFEST, key, manifest,
                        manifest->memory_bytes);
    }
}

/* The naming scheme of a version asked for by number is found by asking for both names. */
static lake_status read_version(struct storage_store *store, uint64_t version,
                                struct lance_manifest **out, struct lake_error *err)
{
    lake_status status = lance_manifest_read(store, LANCE_NAMING_V2, version, out, err);
    if (status == LAKE_NOT_FOUND) {
        status = lance_manifest_read(store, LANCE_NAMING_V1, version, out, err);
    }
    if (status == LAKE_NOT_FOUND) {
        return lake_fail(err, LAKE_NOT_FOUND,
                         "there is no version %" PRIu64 " of the dataset at %s", version,
                         storage_store_uri(store));
    }
    return status;
}

static lake_status open_version(const struct lance_opening *opening, uint64_t version,
                                struct lance_dataset **out, struct lake_error *err)
{
    char key[CACHE_KEY_BYTES];
    struct lance_manifest *manifest = NULL;
    lake_status status = LAKE_OK;
    if (version == 0) {
        status = lance_latest_version(opening->store, 0, &version, NULL, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    bool cached = manifest_key_of(opening->cache, opening->cache_key, version, key);
    if (cached) {
        manifest = lance_cache_get(opening->cache, LANCE_CACHED_MANIFEST, key);
    }
    if (manifest == NULL) {
        status = read_version(opening->store, version, &manifest, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (cached) {
            lance_cache_put(opening->cache, LANCE_CACHED_MANIFEST, key, manifest,
                            manifest->memory_bytes);
        }
    }
    return lance_dataset_of_manifest(opening, manifest, out, err);
}

lake_status lance_dataset_open(struct storage_store *store, struct lance_cache *cache,
                               const char *cache_key, uint64_t version, struct lance_dataset **out,
                               struct lake_error *err)
{
    struct lance_open_options options;
    lance_open_options_init(&options);
    options.version = version;
    return lance_dataset_open_with(store, cache, cache_key, &options, out, err);
}

void lance_open_options_init(struct lance_open_options *options)
{
    *options = (struct lance_open_options){.version = 0};
}

/* A branch is a dataset of its own, also in the cache. */
static lake_status enter_branch(struct lance_opening *opening, const char *branch,
                                char cache_key[CACHE_KEY_BYTES], struct lake_error *err)
{
    if (opening->cache_key != NULL) {
        int length = snprintf(cache_key, CACHE_KEY_BYTES, "%s/tree/%s", opening->cache_key, branch);
        opening->cache_key = length > 0 && length < CACHE_KEY_BYTES ? cache_key : NULL;
    }
    return lance_branch_open(opening->root, branch, &opening->store, err);
}

lake_status lance_dataset_open_with(struct storage_store *store, struct lance_cache *cache,
                                    const char *cache_key, const struct lance_open_options *options,
                                    struct lance_dataset **out, struct lake_error *err)
{
    char branch_key[CACHE_KEY_BYTES];
    struct lance_ref ref = {.version = options->version};
    struct lance_opening opening = {.store = store,
                                    .root = store,
                                    .cache = cache,
                                    .cache_key = cache_key,
                                    .open_base = options->open_base,
                                    .context = options->context};
    const char *branch = options->branch;
    lake_status status = LAKE_OK;
    if (options->tag != NULL && (branch != NULL || options->version != 0)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a tag says the version and the branch; give it alone");
    }
    if (options->tag != NULL) {
        status = lance_tag_read(store, options->tag, &ref, err);
        branch = ref.branch[0] == '\0' ? NULL : ref.branch;
    }
    if (status == LAKE_OK && branch != NULL) {
        status = enter_branch(&opening, branch, branch_key, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    status = open_version(&opening, ref.version, out, err);
    if (branch != NULL) {
        storage_store_unref(opening.store);
    }
    return status;
}

/* ---- what it says about itself ---- */

uint64_t lance_dataset_version(const struct lance_dataset *dataset)
{
    return dataset->manifest->pb->version;
}

uint64_t lance_dataset_manifest_bytes(const struct lance_dataset *dataset)
{
    return dataset->manifest->file_bytes;
}

const struct ArrowSchema *lance_dataset_schema(const struct lance_dataset *dataset)
{
    return &dataset->manifest->schema.arrow;
}

uint64_t lance_dataset_row_count(const struct lance_dataset *dataset)
{
    return dataset->row_count;
}

uint64_t lance_dataset_row_bytes(const struct lance_dataset *dataset)
{
    const LancePb__Manifest *manifest = dataset->manifest->pb;
    uint64_t largest = 0;
    for (size_t i = 0; i < manifest->n_fragments; i++) {
        const LancePb__DataFragment *fragment = manifest->fragments[i];
        uint64_t bytes = 0;
        for (size_t j = 0; j < fragment->n_files; j++) {
            if (!base_u64_add(bytes, fragment->files[j]->file_size_bytes, &bytes)) {
                bytes = UINT64_MAX;
            }
        }
        if (fragment->physical_rows > 0) {
            largest = BASE_MAX(largest, bytes / fragment->physical_rows);
        }
    }
    return largest;
}

size_t lance_dataset_fragment_count(const struct lance_dataset *dataset)
{
    return dataset->manifest->pb->n_fragments;
}

int64_t lance_dataset_timestamp_unix_ms(const struct lance_dataset *dataset)
{
    const LancePb__TableTimestamp *timestamp = dataset->manifest->pb->timestamp;
    if (timestamp == NULL || timestamp->seconds > INT64_MAX / 1000 - 1 ||
        timestamp->seconds < INT64_MIN / 1000 + 1) {
        return 0;
    }
    return timestamp->seconds * 1000 + timestamp->nanos / 1000000;
}

struct storage_store *lance_dataset_store(const struct lance_dataset *dataset)
{
    return dataset->store;
}

const char *lance_dataset_storage_version(const struct lance_dataset *dataset)
{
    return dataset->manifest->storage_version;
}

const char *lance_dataset_config(const struct lance_dataset *dataset, const char *key)
{
    for (size_t i = 0; i < dataset->manifest->config_count; i++) {
        if (strcmp(dataset->manifest->config[i].key, key) == 0) {
            return dataset->manifest->config[i].value;
        }
    }
    return NULL;
}

lake_status lance_dataset_transaction_property(const struct lance_dataset *dataset, const char *key,
                                               struct base_buffer *out, struct lake_error *err)
{
    struct base_arena *arena = NULL;
    LancePb__Transaction *transaction = NULL;
    base_buffer_clear(out);
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = lance_transaction_read(dataset->store, dataset->manifest, arena, &transaction, err);
    if (status == LAKE_DATA_LOSS) {
        status = LAKE_NOT_FOUND; /* not readable: err says why */
    }
    if (status == LAKE_OK) {
        status = LAKE_NOT_FOUND;
        for (size_t i = 0; i < transaction->n_transaction_properties; i++) {
            const LancePb__BytesEntry *entry = transaction->transaction_properties[i];
            if (base_str_equal_c(lance_pb_str(entry->key), key)) {
                status = base_buffer_append(out, entry->value.data, entry->value.len, err);
                goto out;
            }
        }
        status = lake_fail(err, LAKE_NOT_FOUND,
                           "the transaction of version %" PRIu64 " has no property %s",
                           lance_dataset_version(dataset), key);
    }
out:
    base_arena_free(arena);
    return status;
}
