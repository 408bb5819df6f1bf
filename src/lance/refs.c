/*
 * Tags and branches. A tag is a small JSON file that names a version, perhaps of a branch; a branch
 * is a whole dataset of its own below tree/. Both lie at the root of the main dataset.
 */
#include "table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static bool is_name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* One segment: letters, digits and . - _; no dot at either end, none doubled. */
static bool is_name(struct lake_str name)
{
    if (name.size == 0 || name.data[0] == '.' || name.data[name.size - 1] == '.' ||
        base_str_has_suffix(name, ".lock")) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        if (!is_name_character(name.data[i]) ||
            (i > 0 && name.data[i] == '.' && name.data[i - 1] == '.')) {
            return false;
        }
    }
    return true;
}

bool lance_ref_name_valid(const char *tag)
{
    return is_name(base_str_of(tag)) && strlen(tag) < LANCE_REF_NAME_BYTES;
}

bool lance_branch_name_valid(const char *branch)
{
    if (strlen(branch) >= LANCE_REF_NAME_BYTES || strcmp(branch, "main") == 0) {
        return false;
    }
    const char *at = branch;
    for (;;) {
        size_t size = strcspn(at, "/");
        if (!is_name((struct lake_str){at, size})) {
            return false;
        }
        if (at[size] == '\0') {
            return true;
        }
        at += size + 1;
    }
}

static lake_status parse_tag(const char *tag, struct lake_bytes text, struct lance_ref *out,
                             struct lake_error *err)
{
    json_t *json = NULL;
    lake_status status = base_json_parse(text, LANCE_MAX_TAG_BYTES, &json, err);
    if (status != LAKE_OK) {
        return lake_fail_wrap(err, LAKE_DATA_LOSS, "the tag %s is damaged", tag);
    }
    json_t *branch = json_object_get(json, "branch");
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    const char *name = json_string_value(branch);
    if (version <= 0 || (branch != NULL && !json_is_null(branch) && name == NULL) ||
        (name != NULL && !lance_branch_name_valid(name))) {
        status = lake_fail(err, LAKE_DATA_LOSS, "the tag %s names no version", tag);
    } else {
        out->version = (uint64_t)version;
        (void)snprintf(out->branch, sizeof(out->branch), "%s", name == NULL ? "" : name);
    }
    json_decref(json);
    return status;
}

lake_status lance_tag_read(struct storage_store *root, const char *tag, struct lance_ref *out,
                           struct lake_error *err)
{
    char key[LANCE_REF_NAME_BYTES + 32];
    struct base_buffer text;
    if (!lance_ref_name_valid(tag)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "'%.100s' is no name of a tag", tag);
    }
    (void)snprintf(key, sizeof(key), LANCE_TAGS_PREFIX "%s" LANCE_TAG_SUFFIX, tag);
    base_buffer_init(&text, LANCE_MAX_TAG_BYTES);
    lake_status status = storage_read_all(root, base_str_of(key), &text, err);
    if (status == LAKE_NOT_FOUND) {
        status = lake_fail(err, LAKE_NOT_FOUND, "there is no tag %s of the dataset at %s", tag,
                           storage_store_uri(root));
    } else if (status == LAKE_OK) {
        status = parse_tag(tag, base_buffer_view(&text), out, err);
    }
    base_buffer_fini(&text);
    return status;
}

lake_status lance_branch_open(struct storage_store *root, const char *branch,
                              struct storage_store **out, struct lake_error *err)
{
    char prefix[LANCE_REF_NAME_BYTES + 8];
    if (!lance_branch_name_valid(branch)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "'%.100s' is no name of a branch", branch);
    }
    (void)snprintf(prefix, sizeof(prefix), "tree/%s", branch);
    return storage_child_open(root, base_str_of(prefix), out, err);
}
