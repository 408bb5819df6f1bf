/*
 * Tags made, moved, removed and listed. A tag keeps its version from clean-up (cleanup.c). Times
 * are RFC 3339, keys as the reference writes them.
 */
#include "table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_TAGS   100000
#define TIME_BYTES 40

static void format_now(char out[TIME_BYTES])
{
    struct timespec now = {0, 0};
    struct tm parts;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out + length, TIME_BYTES - length, ".%09ldZ", now.tv_nsec);
}

/* The size of the manifest that the tag names. */
static lake_status find_version(struct storage_store *root, const char *branch, uint64_t version,
                                uint64_t *manifest_bytes, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct storage_object_info info;
    char key[LANCE_KEY_BYTES];
    lake_status status = LAKE_OK;
    if (branch == NULL) {
        store = storage_store_ref(root);
    } else {
        status = lance_branch_open(root, branch, &store, err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    lance_manifest_key(LANCE_NAMING_V2, version, key);
    status = storage_stat(store, base_str_of(key), &info, err);
    if (status == LAKE_NOT_FOUND) {
        lance_manifest_key(LANCE_NAMING_V1, version, key);
        status = storage_stat(store, base_str_of(key), &info, err);
    }
    if (status == LAKE_NOT_FOUND) {
        status =
            lake_fail(err, LAKE_NOT_FOUND, "there is no version %" PRIu64 " of the dataset at %s",
                      version, storage_store_uri(store));
    }
    if (status == LAKE_OK) {
        *manifest_bytes = info.size_bytes;
    }
    storage_store_unref(store);
    return status;
}

/* `before` is the tag as it was, whose creation and metadata stay; NULL: a new one. */
static lake_status format_tag(const char *branch, uint64_t version, uint64_t manifest_bytes,
                              json_t *before, char **out, struct lake_error *err)
{
    char now[TIME_BYTES];
    format_now(now);
    json_t *created = before == NULL ? NULL : json_object_get(before, "createdAt");
    json_t *metadata = before == NULL ? NULL : json_object_get(before, "metadata");
    json_t *tag = json_object();
    int failed = tag == NULL;
    failed |=
        json_object_set_new(tag, "branch", branch == NULL ? json_null() : json_string(branch));
    failed |= json_object_set_new(tag, "version", json_integer((json_int_t)version));
    failed |= json_object_set_new(tag, "createdAt",
                                  created != NULL ? json_incref(created) : json_string(now));
    failed |= json_object_set_new(tag, "updatedAt", json_string(now));
    failed |= json_object_set_new(tag, "manifestSize", json_integer((json_int_t)manifest_bytes));
    failed |= json_object_set_new(tag, "metadata",
                                  metadata != NULL ? json_incref(metadata) : json_object());
    *out = failed ? NULL : json_dumps(tag, JSON_INDENT(2));
    json_decref(tag);
    return *out != NULL ? LAKE_OK : base_fail_no_memory(err, LANCE_MAX_TAG_BYTES);
}

static lake_status key_of(const char *tag, char key[STORAGE_MAX_KEY_BYTES + 1],
                          struct lake_error *err)
{
    if (!lance_ref_name_valid(tag)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "'%.100s' is no name of a tag: letters, digits and . - _ are", tag);
    }
    (void)snprintf(key, STORAGE_MAX_KEY_BYTES + 1, LANCE_TAGS_PREFIX "%s" LANCE_TAG_SUFFIX, tag);
    return LAKE_OK;
}

lake_status lance_tag_create(struct storage_store *root, const char *tag, const char *branch,
                             uint64_t version, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    uint64_t manifest_bytes = 0;
    char *text = NULL;
    lake_status status = key_of(tag, key, err);
    if (status == LAKE_OK) {
        status = find_version(root, branch, version, &manifest_bytes, err);
    }
    if (status == LAKE_OK) {
        status = format_tag(branch, version, manifest_bytes, NULL, &text, err);
    }
    if (status == LAKE_OK) {
        status = storage_put_if_absent(root, base_str_of(key), base_bytes_of_str(base_str_of(text)),
                                       err);
    }
    if (status == LAKE_ALREADY_EXISTS) {
        status = lake_fail(err, LAKE_ALREADY_EXISTS, "there is already a tag %s", tag);
    }
    free(text); /* jansson's */
    return status;
}

lake_status lance_tag_update(struct storage_store *root, const char *tag, const char *branch,
                             uint64_t version, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    uint64_t manifest_bytes = 0;
    struct base_buffer before;
    json_t *json = NULL;
    char *text = NULL;
    base_buffer_init(&before, LANCE_MAX_TAG_BYTES);
    lake_status status = key_of(tag, key, err);
    if (status == LAKE_OK) {
        status = storage_read_all(root, base_str_of(key), &before, err);
    }
    if (status == LAKE_NOT_FOUND) {
        status = lake_fail(err, LAKE_NOT_FOUND, "there is no tag %s", tag);
    }
    if (status == LAKE_OK) {
        status = base_json_parse(base_buffer_view(&before), LANCE_MAX_TAG_BYTES, &json, err);
    }
    if (status == LAKE_OK) {
        status = find_version(root, branch, version, &manifest_bytes, err);
    }
    if (status == LAKE_OK) {
        status = format_tag(branch, version, manifest_bytes, json, &text, err);
    }
    if (status == LAKE_OK) {
        status = storage_put(root, base_str_of(key), base_bytes_of_str(base_str_of(text)), err);
    }
    free(text); /* jansson's */
    json_decref(json);
    base_buffer_fini(&before);
    return status;
}

lake_status lance_tag_delete(struct storage_store *root, const char *tag, struct lake_error *err)
{
    char key[STORAGE_MAX_KEY_BYTES + 1];
    struct storage_object_info info;
    lake_status status = key_of(tag, key, err);
    if (status == LAKE_OK) {
        status = storage_stat(root, base_str_of(key), &info, err);
    }
    if (status == LAKE_NOT_FOUND) {
        return lake_fail(err, LAKE_NOT_FOUND, "there is no tag %s", tag);
    }
    return status == LAKE_OK ? storage_remove(root, base_str_of(key), err) : status;
}

/* ---- listing ---- */

struct tag_list {
    struct storage_store *root;
    struct lance_tag *items;
    size_t count;
    size_t capacity;
};

static lake_status add_tag(struct tag_list *list, struct lake_str name, struct lake_error *err)
{
    struct lance_ref ref;
    if (list->count == MAX_TAGS) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "there are more than %d tags", MAX_TAGS);
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        struct lance_tag *items = base_realloc_array(list->items, capacity, sizeof(*items));
        if (items == NULL) {
            return base_fail_no_memory(err, capacity * sizeof(*items));
        }
        list->items = items;
        list->capacity = capacity;
    }
    struct lance_tag *tag = &list->items[list->count];
    (void)snprintf(tag->name, sizeof(tag->name), "%.*s", LAKE_STR_FMT(name));
    lake_status status = lance_tag_read(list->root, tag->name, &ref, err);
    if (status == LAKE_NOT_FOUND) {
        return LAKE_OK; /* removed meanwhile */
    }
    if (status == LAKE_OK) {
        (void)snprintf(tag->branch, sizeof(tag->branch), "%s", ref.branch);
        tag->version = ref.version;
        list->count++;
    }
    return status;
}

static lake_status visit_tag(void *context, const struct storage_list_entry *entry,
                             struct lake_error *err)
{
    struct tag_list *list = context;
    struct lake_str name = base_str_of(entry->key);
    name.data += strlen(LANCE_TAGS_PREFIX);
    name.size -= strlen(LANCE_TAGS_PREFIX);
    if (!base_str_has_suffix(name, LANCE_TAG_SUFFIX) || memchr(name.data, '/', name.size) != NULL) {
        return lake_fail(err, LAKE_DATA_LOSS, "%s is no tag", entry->key);
    }
    name.size -= strlen(LANCE_TAG_SUFFIX);
    return add_tag(list, name, err);
}

lake_status lance_tags_list(struct storage_store *root, struct lance_tag **out, size_t *count,
                            struct lake_error *err)
{
    struct tag_list list = {.root = root};
    lake_status status = lance_list_all(root, LANCE_TAGS_PREFIX, visit_tag, &list, err);
    if (status != LAKE_OK) {
        base_free(list.items);
        return status;
    }
    *out = list.items;
    *count = list.count;
    return LAKE_OK;
}
