/*
 * Names of manifests, and which version is the newest. The directory is the authority; the hint
 * file only says where to look further.
 */
#include "table.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define SUFFIX         ".manifest"
#define MAX_HINT_BYTES 4096
#define V2_DIGITS      20
#define DETACHED_BIT   (UINT64_C(1) << 63)

void lance_manifest_key(enum lance_naming naming, uint64_t version, char out[LANCE_KEY_BYTES])
{
    if (naming == LANCE_NAMING_V2) {
        (void)snprintf(out, LANCE_KEY_BYTES, LANCE_VERSIONS_PREFIX "%020" PRIu64 SUFFIX,
                       UINT64_MAX - version);
    } else {
        (void)snprintf(out, LANCE_KEY_BYTES, LANCE_VERSIONS_PREFIX "%" PRIu64 SUFFIX, version);
    }
}

bool lance_manifest_name_parse(struct lake_str name, uint64_t *version, enum lance_naming *naming)
{
    uint64_t number;
    if (!base_str_has_suffix(name, SUFFIX)) {
        return false;
    }
    struct lake_str digits = {name.data, name.size - strlen(SUFFIX)};
    if (!base_str_to_u64(digits, &number)) {
        return false;
    }
    bool v2 = digits.size == V2_DIGITS;
    number = v2 ? UINT64_MAX - number : number;
    if (number == 0 || (number & DETACHED_BIT) != 0) {
        return false;
    }
    *version = number;
    *naming = v2 ? LANCE_NAMING_V2 : LANCE_NAMING_V1;
    return true;
}

/* `info` is untouched when the version does not exist. */
static lake_status exists(struct storage_store *store, enum lance_naming naming, uint64_t version,
                          bool *out, struct storage_object_info *info, struct lake_error *err)
{
    char key[LANCE_KEY_BYTES];
    lance_manifest_key(naming, version, key);
    lake_status status = storage_stat(store, base_str_of(key), info, err);
    if (status != LAKE_OK && status != LAKE_NOT_FOUND) {
        return status;
    }
    *out = status == LAKE_OK;
    return LAKE_OK;
}

struct newest {
    uint64_t version[2]; /* by naming; 0: none */
};

static void note_page(const struct storage_list_page *page, struct newest *newest)
{
    for (size_t i = 0; i < page->count; i++) {
        struct lake_str name = base_str_of(page->entries[i].key);
        uint64_t version;
        enum lance_naming naming;
        name.data += strlen(LANCE_VERSIONS_PREFIX);
        name.size -= strlen(LANCE_VERSIONS_PREFIX);
        if (lance_manifest_name_parse(name, &version, &naming)) {
            newest->version[naming] = BASE_MAX(newest->version[naming], version);
        }
    }
}

/* V2 names ascend as versions descend, so one page holds the newest; V1 needs every page. */
static lake_status list_latest(struct storage_store *store, uint64_t *version,
                               enum lance_naming *naming, struct storage_object_info *info,
                               struct lake_error *err)
{
    struct newest newest = {{0, 0}};
    char last[STORAGE_MAX_KEY_BYTES + 1] = "";
    bool more = true;
    while (more && newest.version[LANCE_NAMING_V2] == 0) {
        struct storage_list_page page = {0};
        lake_status status = storage_list(store, LAKE_STR(LANCE_VERSIONS_PREFIX), base_str_of(last),
                                          STORAGE_MAX_LIST, &page, err);
        if (status == LAKE_NOT_FOUND) {
            break;
        }
        if (status != LAKE_OK) {
            return status;
        }
        note_page(&page, &newest);
        more = page.more && page.count > 0;
        if (more) {
            (void)snprintf(last, sizeof(last), "%s", page.entries[page.count - 1].key);
        }
        storage_list_page_fini(&page);
    }
    if (newest.version[0] != 0 && newest.version[1] != 0) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "%s holds manifests of both naming schemes (version %" PRIu64
                         " in the new one, %" PRIu64 " in the old one), so its newest version is "
                         "not defined",
                         storage_store_uri(store), newest.version[0], newest.version[1]);
    }
    if (newest.version[0] == 0 && newest.version[1] == 0) {
        return lake_fail(err, LAKE_NOT_FOUND, "there is no Lance dataset at %s",
                         storage_store_uri(store));
    }
    *naming = newest.version[LANCE_NAMING_V2] != 0 ? LANCE_NAMING_V2 : LANCE_NAMING_V1;
    *version = newest.version[*naming];
    bool found;
    return exists(store, *naming, *version, &found, info, err);
}

/* Advances *version while the next one exists. */
static lake_status probe_up(struct storage_store *store, enum lance_naming naming,
                            uint64_t *version, struct storage_object_info *info,
                            struct lake_error *err)
{
    for (;;) {
        bool found;
        lake_status status = exists(store, naming, *version + 1, &found, info, err);
        if (status != LAKE_OK || !found) {
            return status;
        }
        (*version)++;
    }
}

/* 0 when there is no usable hint. Only a failure to reach the store is a failure. */
static lake_status read_hint(struct storage_store *store, uint64_t *version, struct lake_error *err)
{
    struct base_buffer text;
    json_t *hint = NULL;
    *version = 0;
    base_buffer_init(&text, MAX_HINT_BYTES);
    lake_status status = storage_read_all(store, LAKE_STR(LANCE_HINT_KEY), &text, err);
    if (status == LAKE_NOT_FOUND || status == LAKE_RESOURCE_EXHAUSTED ||
        status == LAKE_OUT_OF_RANGE) {
        status = LAKE_OK;
    } else if (status == LAKE_OK &&
               base_json_parse(base_buffer_view(&text), MAX_HINT_BYTES, &hint, NULL) == LAKE_OK) {
        json_int_t number = json_integer_value(json_object_get(hint, "version"));
        *version = number > 0 ? (uint64_t)number : 0;
    }
    json_decref(hint);
    base_buffer_fini(&text);
    return status;
}

/*
 * Probes above a version that is known to have existed. Versions are dense, but clean-up may have
 * removed those between a tagged version and the newest ones; a writer that cleans up leaves the
 * hint above the gap, so a hint that is ahead is followed.
 */
static lake_status probe_latest(struct storage_store *store, enum lance_naming naming,
                                uint64_t known, uint64_t *version, struct storage_object_info *info,
                                struct lake_error *err)
{
    uint64_t top = known;
    uint64_t hint;
    bool found;
    lake_status status = probe_up(store, naming, &top, info, err);
    if (status == LAKE_OK && top == known) {
        status = exists(store, naming, known, &found, info, err);
        if (status == LAKE_OK && !found) {
            *version = 0;
            return LAKE_OK;
        }
    }
    if (status == LAKE_OK) {
        status = read_hint(store, &hint, err);
    }
    if (status == LAKE_OK && hint > top) {
        status = exists(store, naming, hint, &found, info, err);
        if (status == LAKE_OK && found) {
            top = hint;
            status = probe_up(store, naming, &top, info, err);
        }
    }
    if (status == LAKE_OK) {
        *version = top;
    }
    return status;
}

lake_status lance_versions_latest(struct storage_store *store, uint64_t known_version,
                                  uint64_t *version, enum lance_naming *naming,
                                  struct storage_object_info *manifest, struct lake_error *err)
{
    struct storage_object_info unused;
    struct storage_object_info *info = manifest == NULL ? &unused : manifest;
    *info = (struct storage_object_info){0};
    static const enum lance_naming both[] = {LANCE_NAMING_V2, LANCE_NAMING_V1};
    if (known_version > 0 && (known_version & DETACHED_BIT) == 0) {
        for (size_t i = 0; i < BASE_ARRAY_LEN(both); i++) {
            uint64_t found = 0;
            lake_status status = probe_latest(store, both[i], known_version, &found, info, err);
            if (status != LAKE_OK) {
                return status;
            }
            if (found != 0) {
                *version = found;
                *naming = both[i];
                return LAKE_OK;
            }
        }
    }
    return list_latest(store, version, naming, info, err);
}

lake_status lance_latest_version(struct storage_store *store, uint64_t known_version, uint64_t *out,
                                 struct storage_object_info *manifest, struct lake_error *err)
{
    enum lance_naming naming;
    return lance_versions_latest(store, known_version, out, &naming, manifest, err);
}

lake_status lance_dataset_exists(const struct lance_dataset *dataset, bool *out,
                                 struct lake_error *err)
{
    struct storage_object_info info;
    return exists(dataset->store, dataset->manifest->naming, dataset->manifest->pb->version, out,
                  &info, err);
}
