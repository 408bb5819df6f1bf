/*
 * Branches listed and deleted. What makes a branch is a JSON file at the root of the main dataset;
 * it goes first, so that a killed deletion leaves files that no branch owns, which deleting the
 * same name again removes.
 */
#include "table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BRANCH_SUFFIX    ".json"
#define MAX_BRANCH_REF   65536
#define MAX_BRANCHES     10000
#define INITIAL_BRANCHES 8

void lance_branch_key(const char *branch, char key[STORAGE_MAX_KEY_BYTES + 1])
{
    size_t size = (size_t)snprintf(key, STORAGE_MAX_KEY_BYTES + 1, LANCE_BRANCHES_PREFIX);
    for (const char *c = branch; *c != '\0' && size + 16 < STORAGE_MAX_KEY_BYTES; c++) {
        if (*c == '/') {
            memcpy(key + size, "%2F", 3);
            size += 3;
        } else {
            key[size++] = *c;
        }
    }
    (void)snprintf(key + size, STORAGE_MAX_KEY_BYTES + 1 - size, BRANCH_SUFFIX);
}

bool lance_branch_of_key(const char *key, char out[LANCE_REF_NAME_BYTES])
{
    const char *at = key + strlen(LANCE_BRANCHES_PREFIX);
    size_t size = 0;
    while (*at != '\0' && strcmp(at, BRANCH_SUFFIX) != 0 && size + 1 < LANCE_REF_NAME_BYTES) {
        bool slash = strncmp(at, "%2F", 3) == 0;
        out[size++] = slash ? '/' : *at;
        at += slash ? 3 : 1;
    }
    out[size] = '\0';
    return strcmp(at, BRANCH_SUFFIX) == 0 && lance_branch_name_valid(out);
}

/* ---- reading ---- */

static lake_status parse(const json_t *json, struct lance_branch *out, struct lake_error *err)
{
    const json_t *parent = json_object_get(json, "parentBranch");
    const char *name = json_string_value(parent);
    json_int_t version = json_integer_value(json_object_get(json, "parentVersion"));
    json_int_t created = json_integer_value(json_object_get(json, "createAt"));
    bool is_main = parent == NULL || json_is_null(parent);
    if (version <= 0 || created < 0 ||
        (!is_main &&
         (name == NULL || strlen(name) >= sizeof(out->parent) || !lance_branch_name_valid(name)))) {
        return lake_fail(err, LAKE_DATA_LOSS, "the branch %s names no parent", out->name);
    }
    (void)snprintf(out->parent, sizeof(out->parent), "%s", is_main ? "" : name);
    out->parent_version = (uint64_t)version;
    out->created_unix_s = created;
    return LAKE_OK;
}

lake_status lance_branch_read(struct storage_store *root, const char *branch,
                              struct lance_branch *out, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    struct base_buffer text;
    json_t *json = NULL;
    base_buffer_init(&text, MAX_BRANCH_REF);
    lance_branch_key(branch, key);
    (void)snprintf(out->name, sizeof(out->name), "%s", branch);
    lake_status status = storage_read_all(root, base_str_of(key), &text, err);
    if (status == LAKE_OK) {
        status = base_json_parse(base_buffer_view(&text), MAX_BRANCH_REF, &json, err);
        status = status == LAKE_OK
                     ? parse(json, out, err)
                     : lake_fail_wrap(err, LAKE_DATA_LOSS, "the branch %s is damaged", branch);
    }
    json_decref(json);
    base_buffer_fini(&text);
    return status;
}

struct branch_list {
    struct storage_store *root;
    struct lance_branch *items;
    size_t count;
    size_t capacity;
};

static lake_status add_branch(void *context, const struct storage_list_entry *entry,
                              struct lake_error *err)
{
    struct branch_list *list = context;
    char name[LANCE_REF_NAME_BYTES];
    if (!lance_branch_of_key(entry->key, name)) {
        return lake_fail(err, LAKE_DATA_LOSS, "%s is no branch", entry->key);
    }
    if (list->count == MAX_BRANCHES) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "there are more than %d branches",
                         MAX_BRANCHES);
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? INITIAL_BRANCHES : list->capacity * 2;
        struct lance_branch *items = base_realloc_array(list->items, capacity, sizeof(*items));
        if (items == NULL) {
            return base_fail_no_memory(err, capacity * sizeof(*items));
        }
        list->items = items;
        list->capacity = capacity;
    }
    lake_status status = lance_branch_read(list->root, name, &list->items[list->count], err);
    if (status == LAKE_NOT_FOUND) {
        return LAKE_OK; /* deleted meanwhile */
    }
    list->count += status == LAKE_OK;
    return status;
}

/* The order of keys is another: they spell a slash %2F. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct lance_branch *)a)->name, ((const struct lance_branch *)b)->name);
}

lake_status lance_branches_list(struct storage_store *root, struct lance_branch **out,
                                size_t *count, struct lake_error *err)
{
    struct branch_list list = {.root = root};
    lake_status status = lance_list_all(root, LANCE_BRANCHES_PREFIX, add_branch, &list, err);
    if (status != LAKE_OK) {
        base_free(list.items);
        return status;
    }
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof(*list.items), compare_names);
    }
    *out = list.items;
    *count = list.count;
    return LAKE_OK;
}

/* ---- deleting ---- */

/* What grew out of the branch, or names a version of it, would lose what it refers to. */
static lake_status check_unused(struct storage_store *root, const char *branch, bool *found,
                                struct lake_error *err)
{
    struct lance_branch *branches = NULL;
    struct lance_tag *tags = NULL;
    size_t branch_count = 0;
    size_t tag_count = 0;
    *found = false;
    lake_status status = lance_branches_list(root, &branches, &branch_count, err);
    if (status == LAKE_OK) {
        status = lance_tags_list(root, &tags, &tag_count, err);
    }
    for (size_t i = 0; i < branch_count && status == LAKE_OK; i++) {
        *found |= strcmp(branches[i].name, branch) == 0;
        if (strcmp(branches[i].parent, branch) == 0) {
            status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                               "the branch %s was made of %s: delete it first", branches[i].name,
                               branch);
        }
    }
    for (size_t i = 0; i < tag_count && status == LAKE_OK; i++) {
        if (strcmp(tags[i].branch, branch) == 0) {
            status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                               "the tag %s names a version of the branch %s: delete it first",
                               tags[i].name, branch);
        }
    }
    base_free(tags);
    base_free(branches);
    return status;
}

struct removal {
    struct storage_store *store;
    uint64_t removed;
};

/* Only names of the format: another branch's directory may lie below this one's. */
static lake_status remove_file(void *context, const struct storage_list_entry *entry,
                               struct lake_error *err)
{
    struct removal *removal = context;
    char buffer[LANCE_REFERRED_KEY_BYTES];
    struct lake_str key = base_str_of(entry->key);
    struct lake_str referred;
    bool of_versions = base_str_has_prefix(key, LANCE_VERSIONS_PREFIX) &&
                       memchr(key.data + strlen(LANCE_VERSIONS_PREFIX), '/',
                              key.size - strlen(LANCE_VERSIONS_PREFIX)) == NULL;
    if (!of_versions && !lance_referred_key(key, &referred, buffer)) {
        return LAKE_OK;
    }
    removal->removed++;
    lake_status status = storage_remove(removal->store, key, err);
    return status == LAKE_OK ? BASE_FAULT("lance.branch.after_removed_file", err) : status;
}

static lake_status remove_files(struct storage_store *root, const char *branch, uint64_t *removed,
                                struct lake_error *err)
{
    static const char *const folders[] = {LANCE_VERSIONS_PREFIX, "data/", "_deletions/",
                                          "_indices/", "_transactions/"};
    struct removal removal = {NULL, 0};
    lake_status status = lance_branch_open(root, branch, &removal.store, err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(folders) && status == LAKE_OK; i++) {
        status = lance_list_all(removal.store, folders[i], remove_file, &removal, err);
    }
    storage_store_unref(removal.store);
    *removed = removal.removed;
    return status;
}

lake_status lance_branch_delete(struct storage_store *root, const char *branch,
                                struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    bool found = false;
    uint64_t removed = 0;
    if (!lance_branch_name_valid(branch)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "'%.100s' is no name of a branch", branch);
    }
    lake_status status = check_unused(root, branch, &found, err);
    if (status == LAKE_OK && found) {
        lance_branch_key(branch, key);
        status = storage_remove(root, base_str_of(key), err);
        if (status == LAKE_OK) {
            status = BASE_FAULT("lance.branch.after_removed_ref", err);
        }
    }
    if (status == LAKE_OK) {
        status = remove_files(root, branch, &removed, err);
    }
    if (status == LAKE_OK && !found && removed == 0) {
        status = lake_fail(err, LAKE_NOT_FOUND, "there is no branch %s", branch);
    }
    return status;
}
