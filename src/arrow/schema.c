#include "arrow_internal.h"

#include <stdio.h>
#include <string.h>

/* An extension type without parameters: its metadata is empty, or not there at all. */
static bool is_no_parameters(struct ArrowStringView key, struct ArrowStringView value)
{
    return value.size_bytes == 0 &&
           base_str_equal_c((struct lake_str){key.data, (size_t)key.size_bytes},
                            "ARROW:extension:metadata");
}

/* Every pair of `a` is in `b`. */
static bool metadata_within(const char *a, const char *b)
{
    struct ArrowMetadataReader reader;
    if (ArrowMetadataReaderInit(&reader, a) != NANOARROW_OK) {
        return false;
    }
    while (reader.remaining_keys > 0) {
        struct ArrowStringView key;
        struct ArrowStringView value;
        struct ArrowStringView other = {NULL, 0};
        if (ArrowMetadataReaderRead(&reader, &key, &value) != NANOARROW_OK ||
            ArrowMetadataGetValue(b, key, &other) != NANOARROW_OK) {
            return false;
        }
        bool there = other.data != NULL || is_no_parameters(key, value);
        if (!there || other.size_bytes != value.size_bytes ||
            (value.size_bytes > 0 &&
             memcmp(other.data, value.data, (size_t)value.size_bytes) != 0)) {
            return false;
        }
    }
    return true;
}

static bool metadata_equal(const char *a, const char *b)
{
    return metadata_within(a, b) && metadata_within(b, a);
}

/* The place of a difference, put together from the inside out. */
static void prepend(const char *name, char *path, size_t path_bytes)
{
    if (path == NULL || path_bytes == 0 || name[0] == '\0') {
        return;
    }
    char inner[512];
    snprintf(inner, sizeof(inner), "%s", path);
    snprintf(path, path_bytes, "%s%s%s", name, inner[0] == '\0' ? "" : ".", inner);
}

static bool equal(const struct ArrowSchema *a, const struct ArrowSchema *b, uint32_t depth,
                  char *path, size_t path_bytes)
{
    const int64_t flags =
        ARROW_FLAG_NULLABLE | ARROW_FLAG_DICTIONARY_ORDERED | ARROW_FLAG_MAP_KEYS_SORTED;
    if (depth > ARROW_MAX_DEPTH || strcmp(a->format, b->format) != 0 ||
        strcmp(arrow_field_name(a), arrow_field_name(b)) != 0 ||
        (a->flags & flags) != (b->flags & flags) || a->n_children != b->n_children ||
        (a->dictionary == NULL) != (b->dictionary == NULL) ||
        !metadata_equal(a->metadata, b->metadata)) {
        prepend(arrow_field_name(a), path, path_bytes);
        return false;
    }
    bool same = true;
    for (int64_t i = 0; same && i < a->n_children; i++) {
        same = equal(a->children[i], b->children[i], depth + 1, path, path_bytes);
    }
    if (same && a->dictionary != NULL) {
        same = equal(a->dictionary, b->dictionary, depth + 1, path, path_bytes);
    }
    if (!same) {
        prepend(arrow_field_name(a), path, path_bytes);
    }
    return same;
}

bool arrow_schema_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, char *path,
                        size_t path_bytes)
{
    if (path != NULL && path_bytes > 0) {
        path[0] = '\0';
    }
    return equal(a, b, 0, path, path_bytes);
}
