/*
 * Clean-up: old versions go, then the files that only they needed, then what nobody ever referred
 * to and is old enough to be no writer's work in progress.
 *
 * What stays is computed by one visitor (references.c) over the manifests of retained versions, of
 * those that tags and branches hold, and of every branch. Order, for whoever is killed in between:
 * the hint that carries readers over the gap, the manifests, the files. Files that outlive their
 * manifests are nobody's, and go with the next clean-up after the grace time.
 *
 * Only folders of the format are listed, and only names of the format removed (L05).
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS           (INT64_C(24) * 3600 * 1000)
#define DEFAULT_OLDER_MS (14 * DAY_MS)
#define DEFAULT_GRACE_MS (7 * DAY_MS)
#define REFS_PREFIX      "_refs/"

struct version {
    uint64_t number; /* bit 63: detached */
    int64_t modified_ms;
    bool retained;
};

struct versions {
    struct version *items;
    size_t count;
    size_t capacity;
    uint64_t latest;
    enum lance_naming naming;
};

struct numbers { /* ascending, once all are there */
    uint64_t *items;
    size_t count;
    size_t capacity;
};

struct cleanup {
    struct storage_store *root;
    struct storage_store *target; /* main's directory, or the branch's */
    const struct lance_cleanup_options *options;
    int64_t now_ms;
    struct versions versions;
    struct numbers pinned;
    struct lance_key_set kept;
    struct lance_key_set expired; /* of versions that go */
    struct lance_cleanup_stats stats;
};

void lance_cleanup_options_init(struct lance_cleanup_options *options)
{
    *options = (struct lance_cleanup_options){.older_than_ms = DEFAULT_OLDER_MS,
                                              .grace_ms = DEFAULT_GRACE_MS};
}

/* ---- listing ---- */

typedef lake_status (*list_visit)(struct cleanup *cleanup, const struct storage_list_entry *entry,
                                  void *context, struct lake_error *err);

struct visit {
    struct cleanup *cleanup;
    list_visit visit;
    void *context;
};

static lake_status visit_entry(void *context, const struct storage_list_entry *entry,
                               struct lake_error *err)
{
    const struct visit *visit = context;
    return visit->visit(visit->cleanup, entry, visit->context, err);
}

static lake_status list_all(struct cleanup *cleanup, struct storage_store *store,
                            const char *prefix, list_visit visit, void *context,
                            struct lake_error *err)
{
    struct visit each = {cleanup, visit, context};
    return lance_list_all(store, prefix, visit_entry, &each, err);
}

static lake_status grow(void **items, size_t *capacity, size_t item_bytes, struct lake_error *err)
{
    size_t larger = *capacity == 0 ? 64 : *capacity * 2;
    void *moved = base_realloc_array(*items, larger, item_bytes);
    if (moved == NULL) {
        return base_fail_no_memory(err, larger * item_bytes);
    }
    *items = moved;
    *capacity = larger;
    return LAKE_OK;
}

static lake_status pin(struct numbers *numbers, uint64_t version, struct lake_error *err)
{
    if (numbers->count == numbers->capacity) {
        void *items = numbers->items;
        lake_status status = grow(&items, &numbers->capacity, sizeof(uint64_t), err);
        if (status != LAKE_OK) {
            return status;
        }
        numbers->items = items;
    }
    numbers->items[numbers->count++] = version;
    return LAKE_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static bool is_pinned(const struct numbers *numbers, uint64_t version)
{
    return numbers->count > 0 && bsearch(&version, numbers->items, numbers->count, sizeof(version),
                                         compare_numbers) != NULL;
}

static lake_status note_version(struct cleanup *cleanup, const struct storage_list_entry *entry,
                                void *context, struct lake_error *err)
{
    struct versions *versions = context;
    struct lake_str name = base_str_of(entry->key);
    struct version found = {.modified_ms = entry->modified_unix_ms};
    enum lance_naming naming;
    (void)cleanup;
    name.data += strlen(LANCE_VERSIONS_PREFIX);
    name.size -= strlen(LANCE_VERSIONS_PREFIX);
    if (base_str_has_prefix(name, "d") && base_str_has_suffix(name, ".manifest")) {
        struct lake_str digits = {name.data + 1, name.size - 1 - strlen(".manifest")};
        if (!base_str_to_u64(digits, &found.number)) {
            return LAKE_OK;
        }
        found.retained = true; /* detached: whoever made it knows of it */
    } else if (!lance_manifest_name_parse(name, &found.number, &naming)) {
        return LAKE_OK;
    }
    if (versions->count == versions->capacity) {
        void *items = versions->items;
        lake_status status = grow(&items, &versions->capacity, sizeof(found), err);
        if (status != LAKE_OK) {
            return status;
        }
        versions->items = items;
    }
    versions->items[versions->count++] = found;
    return LAKE_OK;
}

static int compare_versions(const void *a, const void *b)
{
    const struct version *left = a;
    const struct version *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* Ascending; detached ones at the end. */
static lake_status list_versions(struct cleanup *cleanup, struct storage_store *store,
                                 struct versions *out, struct lake_error *err)
{
    lake_status status = lance_versions_latest(store, 0, &out->latest, &out->naming, NULL, err);
    if (status == LAKE_OK) {
        status = list_all(cleanup, store, LANCE_VERSIONS_PREFIX, note_version, out, err);
    }
    if (status == LAKE_OK && out->count > 0) {
        qsort(out->items, out->count, sizeof(*out->items), compare_versions);
    }
    return status;
}

/* ---- manifests ---- */

static lake_status read_manifest(struct storage_store *store, enum lance_naming naming,
                                 uint64_t version, struct lance_manifest **out,
                                 struct lake_error *err)
{
    char key[LANCE_KEY_BYTES];
    struct base_buffer bytes;
    if ((version >> 63) == 0) {
        return lance_manifest_read(store, naming, version, out, err);
    }
    (void)snprintf(key, sizeof(key), LANCE_VERSIONS_PREFIX "d%" PRIu64 ".manifest", version);
    base_buffer_init(&bytes, LANCE_MAX_MANIFEST_BYTES);
    lake_status status = storage_read_all(store, base_str_of(key), &bytes, err);
    if (status == LAKE_OK) {
        status = lance_manifest_parse(base_buffer_view(&bytes), version, out, err);
    }
    base_buffer_fini(&bytes);
    return status;
}

struct marking {
    struct lance_key_set *set;
    bool inherited_only; /* of another branch: its own files do not lie in the target */
};

static lake_status mark(void *context, const char *key, bool elsewhere, struct lake_error *err)
{
    struct marking *marking = context;
    return marking->inherited_only && !elsewhere
               ? LAKE_OK
               : lance_key_set_add(marking->set, base_str_of(key), err);
}

static lake_status visit_manifest(const struct lance_manifest *manifest, struct lance_key_set *set,
                                  bool inherited_only, struct lake_error *err)
{
    struct marking marking = {set, inherited_only};
    const struct lance_visitor visitor = {mark, &marking};
    return lance_references_visit(manifest, &visitor, err);
}

static int64_t age_ms(const struct cleanup *cleanup, const struct lance_manifest *manifest,
                      const struct version *version)
{
    const LancePb__TableTimestamp *time = manifest->pb->timestamp;
    bool usable = time != NULL && time->seconds > 0 && time->seconds < INT64_MAX / 1000;
    int64_t made = usable ? time->seconds * 1000 + time->nanos / 1000000 : version->modified_ms;
    return cleanup->now_ms - made;
}

/* A version above the latest was published after that was found out. */
static void decide(struct cleanup *cleanup, const struct lance_manifest *manifest, size_t index)
{
    struct version *version = &cleanup->versions.items[index];
    const struct lance_cleanup_options *options = cleanup->options;
    uint64_t latest = cleanup->versions.latest;
    version->retained = version->retained || version->number >= latest ||
                        latest - version->number < options->retain_versions ||
                        is_pinned(&cleanup->pinned, version->number) ||
                        age_ms(cleanup, manifest, version) < options->older_than_ms;
    for (size_t i = 0; i < options->version_count && !version->retained; i++) {
        version->retained = options->versions[i] == version->number;
    }
}

static lake_status tell_expired(struct cleanup *cleanup, const struct lance_manifest *manifest,
                                struct lake_error *err)
{
    const struct lance_cleanup_options *options = cleanup->options;
    struct base_arena *arena = NULL;
    LancePb__Transaction *transaction = NULL;
    struct lake_str value = {"", 0};
    if (options->expires == NULL || options->dry_run) {
        return LAKE_OK;
    }
    lake_status status = base_arena_new(LANCE_MAX_MANIFEST_BYTES, &arena, err);
    if (status == LAKE_OK) {
        status = lance_transaction_read(cleanup->target, manifest, arena, &transaction, err);
    }
    for (size_t i = 0; status == LAKE_OK && i < transaction->n_transaction_properties; i++) {
        const LancePb__BytesEntry *entry = transaction->transaction_properties[i];
        if (base_str_equal_c(lance_pb_str(entry->key), options->property)) {
            value = lance_pb_str(entry->value);
        }
    }
    if (status == LAKE_NOT_FOUND) {
        value = (struct lake_str){NULL, 0};
        status = LAKE_OK;
    }
    if (status == LAKE_OK) {
        status = options->expires(options->context, manifest->pb->version, value, err);
    }
    base_arena_free(arena);
    return status;
}

/* Which versions go, and what those that stay and those that go refer to. */
static lake_status visit_versions(struct cleanup *cleanup, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < cleanup->versions.count && status == LAKE_OK; i++) {
        struct version *version = &cleanup->versions.items[i];
        struct lance_manifest *manifest = NULL;
        status = read_manifest(cleanup->target, cleanup->versions.naming, version->number,
                               &manifest, err);
        if (status == LAKE_NOT_FOUND) { /* another clean-up was faster */
            version->retained = true;
            status = LAKE_OK;
            continue;
        }
        if (status == LAKE_OK && version->number == cleanup->versions.latest) {
            status = lance_manifest_check_changeable(manifest, err);
        }
        if (status == LAKE_OK) {
            decide(cleanup, manifest, i);
            status = visit_manifest(
                manifest, version->retained ? &cleanup->kept : &cleanup->expired, false, err);
        }
        if (status == LAKE_OK && !version->retained) {
            status = tell_expired(cleanup, manifest, err);
        }
        if (status != LAKE_OK) {
            status = lake_fail_wrap(err, status,
                                    "nothing is cleaned up: what version %" PRIu64
                                    " refers to cannot be learnt",
                                    version->number);
        }
        lance_manifest_unref(manifest);
    }
    return status;
}

/* ---- tags and branches ---- */

static bool is_target(const struct cleanup *cleanup, const char *branch)
{
    const char *target = cleanup->options->branch == NULL ? "" : cleanup->options->branch;
    return strcmp(target, branch == NULL ? "" : branch) == 0;
}

static lake_status pin_tags(struct cleanup *cleanup, struct numbers *out, struct lake_error *err)
{
    struct lance_tag *tags = NULL;
    size_t count = 0;
    lake_status status = lance_tags_list(cleanup->root, &tags, &count, err);
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        if (is_target(cleanup, tags[i].branch)) {
            status = pin(out, tags[i].version, err);
        }
    }
    base_free(tags);
    return status;
}

/* What other branches inherit from the target stays. */
static lake_status visit_branch(struct cleanup *cleanup, const char *branch, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct versions versions = {.items = NULL};
    lake_status status = lance_branch_open(cleanup->root, branch, &store, err);
    if (status == LAKE_OK) {
        status = list_versions(cleanup, store, &versions, err);
    }
    if (status == LAKE_NOT_FOUND) {
        status = lake_fail_wrap(err, LAKE_DATA_LOSS, "the branch %s has no version", branch);
    }
    for (size_t i = 0; i < versions.count && status == LAKE_OK; i++) {
        struct lance_manifest *manifest = NULL;
        status = read_manifest(store, versions.naming, versions.items[i].number, &manifest, err);
        if (status == LAKE_OK) {
            status = visit_manifest(manifest, &cleanup->kept, true, err);
        } else if (status == LAKE_NOT_FOUND) {
            status = LAKE_OK;
        }
        lance_manifest_unref(manifest);
    }
    base_free(versions.items);
    storage_store_unref(store);
    return status;
}

static lake_status note_ref(struct cleanup *cleanup, const struct storage_list_entry *entry,
                            void *context, struct lake_error *err)
{
    char branch[LANCE_REF_NAME_BYTES];
    struct lake_str key = base_str_of(entry->key);
    if (base_str_has_prefix(key, LANCE_TAGS_PREFIX)) {
        return LAKE_OK; /* pin_tags */
    }
    if (!base_str_has_prefix(key, LANCE_BRANCHES_PREFIX) ||
        !lance_branch_of_key(entry->key, branch)) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "nothing is cleaned up: %s is a reference of a kind that is not known",
                         entry->key);
    }
    struct lance_branch read;
    lake_status status = lance_branch_read(cleanup->root, branch, &read, err);
    if (status == LAKE_OK && is_target(cleanup, read.parent)) {
        status = pin(context, read.parent_version, err);
    }
    if (status == LAKE_OK && !is_target(cleanup, branch)) {
        status = visit_branch(cleanup, branch, err);
    }
    return status;
}

static lake_status read_refs(struct cleanup *cleanup, struct numbers *out, struct lake_error *err)
{
    lake_status status = pin_tags(cleanup, out, err);
    if (status == LAKE_OK) {
        status = list_all(cleanup, cleanup->root, REFS_PREFIX, note_ref, out, err);
    }
    if (out->count > 0) {
        qsort(out->items, out->count, sizeof(*out->items), compare_numbers);
    }
    return status;
}

/* ---- removing ---- */

/* A tag or a branch that came after the decision would lose its version. */
static lake_status check_refs_again(struct cleanup *cleanup, struct lake_error *err)
{
    struct numbers pinned = {NULL, 0, 0};
    lake_status status = read_refs(cleanup, &pinned, err);
    for (size_t i = 0; i < cleanup->versions.count && status == LAKE_OK; i++) {
        const struct version *version = &cleanup->versions.items[i];
        if (!version->retained && is_pinned(&pinned, version->number)) {
            status = lake_fail(err, LAKE_ABORTED,
                               "version %" PRIu64
                               " was tagged or branched while it was to be removed; clean up again",
                               version->number);
        }
    }
    base_free(pinned.items);
    return status;
}

static lake_status write_hint(struct cleanup *cleanup, struct lake_error *err)
{
    char text[64];
    int size = snprintf(text, sizeof(text), "{\"version\":%" PRIu64 "}", cleanup->versions.latest);
    lake_status status = storage_put(cleanup->target, LAKE_STR(LANCE_HINT_KEY),
                                     (struct lake_bytes){(const uint8_t *)text, (size_t)size}, err);
    return status == LAKE_OK ? BASE_FAULT("lance.cleanup.after_hint", err) : status;
}

static lake_status remove_versions(struct cleanup *cleanup, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    size_t count = 0;
    for (size_t i = 0; i < cleanup->versions.count; i++) {
        count += !cleanup->versions.items[i].retained;
    }
    cleanup->stats.versions_removed = count;
    cleanup->stats.versions_kept = cleanup->versions.count - count;
    if (count == 0 || cleanup->options->dry_run) {
        return LAKE_OK;
    }
    status = check_refs_again(cleanup, err);
    if (status == LAKE_OK) {
        status = write_hint(cleanup, err);
    }
    for (size_t i = 0; i < cleanup->versions.count && status == LAKE_OK; i++) {
        char key[LANCE_KEY_BYTES];
        if (cleanup->versions.items[i].retained) {
            continue;
        }
        lance_manifest_key(cleanup->versions.naming, cleanup->versions.items[i].number, key);
        status = storage_remove(cleanup->target, base_str_of(key), err);
        if (status == LAKE_OK) {
            status = BASE_FAULT("lance.cleanup.after_manifest", err);
        }
    }
    return status;
}

/* Versions that were committed meanwhile may refer to files of those that went: a restore does. */
static lake_status visit_new_versions(struct cleanup *cleanup, struct lake_error *err)
{
    struct versions versions = {.items = NULL};
    lake_status status = list_versions(cleanup, cleanup->target, &versions, err);
    for (size_t i = 0; i < versions.count && status == LAKE_OK; i++) {
        struct lance_manifest *manifest = NULL;
        if (versions.items[i].number <= cleanup->versions.latest) {
            continue;
        }
        status = read_manifest(cleanup->target, versions.naming, versions.items[i].number,
                               &manifest, err);
        if (status == LAKE_OK) {
            status = visit_manifest(manifest, &cleanup->kept, false, err);
        } else if (status == LAKE_NOT_FOUND) {
            status = LAKE_OK;
        }
        lance_manifest_unref(manifest);
    }
    base_free(versions.items);
    return status;
}

bool lance_referred_key(struct lake_str key, struct lake_str *out,
                        char buffer[LANCE_REFERRED_KEY_BYTES])
{
    *out = key;
    const char *name = memchr(key.data, '/', key.size);
    if (name == NULL) {
        return false;
    }
    name++;
    size_t left = key.size - (size_t)(name - key.data);
    const char *slash = memchr(name, '/', left);
    if (base_str_has_prefix(key, "_deletions/")) {
        return slash == NULL &&
               (base_str_has_suffix(key, ".arrow") || base_str_has_suffix(key, ".bin"));
    }
    if (base_str_has_prefix(key, "_transactions/")) {
        return slash == NULL && base_str_has_suffix(key, ".txn");
    }
    if (base_str_has_prefix(key, "_indices/")) {
        struct base_uuid uuid;
        out->size = slash == NULL ? 0 : (size_t)(slash - key.data);
        return slash != NULL &&
               base_uuid_parse((struct lake_str){name, (size_t)(slash - name)}, &uuid);
    }
    if (slash == NULL) {
        return base_str_has_suffix(key, ".lance");
    }
    /* data/<stem>/<32 digits>.blob belongs to data/<stem>.lance */
    size_t stem = (size_t)(slash - key.data);
    (void)snprintf(buffer, LANCE_REFERRED_KEY_BYTES, "%.*s.lance", (int)stem, key.data);
    *out = base_str_of(buffer);
    return base_str_has_suffix(key, ".blob") &&
           memchr(slash + 1, '/', left - (size_t)(slash + 1 - name)) == NULL;
}

static lake_status remove_file(struct cleanup *cleanup, const struct storage_list_entry *entry,
                               void *context, struct lake_error *err)
{
    char buffer[LANCE_REFERRED_KEY_BYTES];
    struct lake_str referred;
    (void)context;
    if (!lance_referred_key(base_str_of(entry->key), &referred, buffer) ||
        lance_key_set_has(&cleanup->kept, referred)) {
        return LAKE_OK;
    }
    bool expired = lance_key_set_has(&cleanup->expired, referred);
    bool abandoned =
        !expired && cleanup->now_ms - entry->modified_unix_ms >= cleanup->options->grace_ms;
    if (!expired && !abandoned) {
        cleanup->stats.files_in_grace++;
        return LAKE_OK;
    }
    cleanup->stats.files_removed++;
    cleanup->stats.abandoned_files_removed += abandoned;
    cleanup->stats.bytes_removed += entry->size_bytes;
    if (cleanup->options->dry_run) {
        return LAKE_OK;
    }
    lake_status status = storage_remove(cleanup->target, base_str_of(entry->key), err);
    return status == LAKE_OK ? BASE_FAULT("lance.cleanup.after_file", err) : status;
}

static lake_status remove_files(struct cleanup *cleanup, struct lake_error *err)
{
    static const char *const folders[] = {"data/", "_deletions/", "_indices/", "_transactions/"};
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < BASE_ARRAY_LEN(folders) && status == LAKE_OK; i++) {
        status = list_all(cleanup, cleanup->target, folders[i], remove_file, NULL, err);
    }
    return status;
}

/* Temporary files of killed writers, where the store has such. */
static lake_status sweep(struct cleanup *cleanup, struct lake_error *err)
{
    static const char *const folders[] = {"data", "_deletions", "_transactions", "_versions"};
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < BASE_ARRAY_LEN(folders) && status == LAKE_OK; i++) {
        struct storage_store *folder = NULL;
        uint64_t removed = 0;
        status = storage_child_open(cleanup->target, base_str_of(folders[i]), &folder, err);
        if (status == LAKE_OK) {
            status = storage_local_sweep(folder, cleanup->options->grace_ms, &removed, err);
        }
        if (status == LAKE_UNIMPLEMENTED || status == LAKE_NOT_FOUND) {
            status = LAKE_OK;
        }
        cleanup->stats.files_removed += removed;
        cleanup->stats.abandoned_files_removed += removed;
        storage_store_unref(folder);
    }
    return status;
}

static lake_status run(struct cleanup *cleanup, struct lake_error *err)
{
    lake_status status = read_refs(cleanup, &cleanup->pinned, err);
    if (status == LAKE_OK) {
        status = list_versions(cleanup, cleanup->target, &cleanup->versions, err);
    }
    if (status == LAKE_OK) {
        status = visit_versions(cleanup, err);
    }
    if (status == LAKE_OK) {
        status = remove_versions(cleanup, err);
    }
    if (status == LAKE_OK) {
        status = visit_new_versions(cleanup, err);
    }
    if (status == LAKE_OK) {
        status = remove_files(cleanup, err);
    }
    return status == LAKE_OK && !cleanup->options->dry_run ? sweep(cleanup, err) : status;
}

lake_status lance_cleanup(struct storage_store *root, const struct lance_cleanup_options *options,
                          struct lance_cleanup_stats *out, struct lake_error *err)
{
    struct lance_cleanup_options defaults;
    lance_cleanup_options_init(&defaults);
    struct cleanup cleanup = {.root = root,
                              .options = options == NULL ? &defaults : options,
                              .now_ms = base_clock_unix_ms()};
    lake_status status = LAKE_OK;
    if (cleanup.options->branch == NULL) {
        cleanup.target = storage_store_ref(root);
    } else {
        status = lance_branch_open(root, cleanup.options->branch, &cleanup.target, err);
    }
    if (status == LAKE_OK) {
        status = run(&cleanup, err);
    }
    if (status == LAKE_OK) {
        *out = cleanup.stats;
    }
    lance_key_set_fini(&cleanup.kept);
    lance_key_set_fini(&cleanup.expired);
    base_free(cleanup.versions.items);
    base_free(cleanup.pinned.items);
    storage_store_unref(cleanup.target);
    return status;
}
