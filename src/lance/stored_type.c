/*
 * Columns whose data files hold another form of them: blobs, of which a table's schema shows the
 * bytes and a data file has rows that describe where the bytes lie; JSON, of which the schema shows
 * text.
 */
#include "schema.h"

#include <string.h>

#define BLOB_KEY      "lance-encoding:blob"
#define PACKED_KEY    "lance-encoding:packed"
#define EXTENSION_KEY "ARROW:extension:name"
#define BLOB_V2       "lance.blob.v2"

static bool metadata_is(const struct lance_field *field, const char *key, const char *value)
{
    const char *found = lance_field_metadata(field, key);
    return found != NULL && strcmp(found, value) == 0;
}

enum lance_stored lance_field_stored_as(const struct lance_field *field)
{
    if (strcmp(field->logical_type, "struct") == 0 && metadata_is(field, EXTENSION_KEY, BLOB_V2)) {
        return LANCE_STORED_BLOB_V2;
    }
    if (strcmp(field->logical_type, "large_binary") == 0 && metadata_is(field, BLOB_KEY, "true")) {
        return LANCE_STORED_BLOB_V1;
    }
    if (strcmp(field->logical_type, "json") == 0) {
        return LANCE_STORED_JSON;
    }
    return LANCE_STORED_PLAIN;
}

struct member {
    const char *name;
    const char *format;
};

static ArrowErrorCode set_members(struct ArrowSchema *out, const struct member *members,
                                  int64_t count, int64_t flags)
{
    ArrowSchemaInit(out);
    ArrowErrorCode code = ArrowSchemaSetFormat(out, "+s");
    if (code == NANOARROW_OK) {
        code = ArrowSchemaAllocateChildren(out, count);
    }
    for (int64_t i = 0; code == NANOARROW_OK && i < count; i++) {
        ArrowSchemaInit(out->children[i]);
        code = ArrowSchemaSetFormat(out->children[i], members[i].format);
        if (code == NANOARROW_OK) {
            code = ArrowSchemaSetName(out->children[i], members[i].name);
        }
        out->children[i]->flags = flags;
    }
    return code;
}

lake_status lance_stored_types(struct ArrowSchema *out, struct lake_error *err)
{
    static const struct member v1[] = {{"position", "L"}, {"size", "L"}};
    static const struct member v2[] = {
        {"kind", "C"}, {"position", "L"}, {"size", "L"}, {"blob_id", "I"}, {"blob_uri", "u"}};
    ArrowErrorCode code =
        set_members(&out[LANCE_STORED_BLOB_V1], v1, BASE_ARRAY_LEN(v1), ARROW_FLAG_NULLABLE);
    if (code == NANOARROW_OK) {
        code = set_members(&out[LANCE_STORED_BLOB_V2], v2, BASE_ARRAY_LEN(v2), 0);
    }
    if (code == NANOARROW_OK) {
        ArrowSchemaInit(&out[LANCE_STORED_JSON]);
        code = ArrowSchemaSetFormat(&out[LANCE_STORED_JSON], "Z");
    }
    return code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, 8 * sizeof(*out));
}

/* A blob's metadata as the reference shows it beside descriptions: v1 the field's own, v2 what the
 * column is stored by. */
static ArrowErrorCode set_description_metadata(const struct lance_field *field,
                                               struct ArrowSchema *out)
{
    struct ArrowBuffer metadata;
    if (field->stored == LANCE_STORED_BLOB_V1) {
        return ArrowSchemaSetMetadata(out, field->arrow->metadata);
    }
    ArrowErrorCode code = ArrowMetadataBuilderInit(&metadata, NULL);
    if (code == NANOARROW_OK) {
        code =
            ArrowMetadataBuilderAppend(&metadata, ArrowCharView(BLOB_KEY), ArrowCharView("true"));
    }
    if (code == NANOARROW_OK) {
        code =
            ArrowMetadataBuilderAppend(&metadata, ArrowCharView(PACKED_KEY), ArrowCharView("true"));
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetMetadata(out, (const char *)metadata.data);
    }
    ArrowBufferReset(&metadata);
    return code;
}

/* Puts descriptions in the place of the blobs at and below `field`. */
static ArrowErrorCode replace_blobs(const struct lance_field *field, struct ArrowSchema *at)
{
    if (field->stored != LANCE_STORED_BLOB_V1 && field->stored != LANCE_STORED_BLOB_V2) {
        ArrowErrorCode code = NANOARROW_OK;
        for (size_t i = 0;
             code == NANOARROW_OK && i < field->child_count && field->kind != LANCE_NODE_LEAF;
             i++) {
            code = replace_blobs(&field->children[i], at->children[i]);
        }
        return code;
    }
    struct ArrowSchema made = {.release = NULL};
    ArrowErrorCode code = ArrowSchemaDeepCopy(field->stored_arrow, &made);
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetName(&made, field->name);
    }
    if (code == NANOARROW_OK) {
        code = set_description_metadata(field, &made);
    }
    if (code != NANOARROW_OK) {
        if (made.release != NULL) {
            made.release(&made);
        }
        return code;
    }
    made.flags = field->arrow->flags;
    at->release(at);
    ArrowSchemaMove(&made, at);
    return NANOARROW_OK;
}

lake_status lance_field_description_type(const struct lance_field *field, struct ArrowSchema *out,
                                         struct lake_error *err)
{
    struct ArrowSchema copy = {.release = NULL};
    ArrowErrorCode code = ArrowSchemaDeepCopy(field->arrow, &copy);
    if (code == NANOARROW_OK) {
        code = replace_blobs(field, &copy);
    }
    if (code != NANOARROW_OK) {
        if (copy.release != NULL) {
            copy.release(&copy);
        }
        return base_fail_no_memory(err, sizeof(copy));
    }
    ArrowSchemaMove(&copy, out);
    return LAKE_OK;
}
