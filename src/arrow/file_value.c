#include "arrow_internal.h"

#include <string.h>

/* The children of a FILE, in order: the shape is part of the format (DESIGN 12). */
static const struct {
    const char *name;
    const char *format;
    enum ArrowType type;
} file_children[] = {
    {"uri", "u", NANOARROW_TYPE_STRING},
    {"media_type", "u", NANOARROW_TYPE_STRING},
    {"size_bytes", "l", NANOARROW_TYPE_INT64},
    {"sha256", "u", NANOARROW_TYPE_STRING},
};
enum {
    URI,
    MEDIA_TYPE,
    SIZE_BYTES,
    SHA256
};

lake_status arrow_file_schema_init(struct ArrowSchema *out, const char *name, bool nullable,
                                   struct lake_error *err)
{
    struct ArrowSchema schema;
    ArrowSchemaInit(&schema);
    int code = ArrowSchemaSetTypeStruct(&schema, BASE_ARRAY_LEN(file_children));
    for (size_t i = 0; code == NANOARROW_OK && i < BASE_ARRAY_LEN(file_children); i++) {
        code = ArrowSchemaSetType(schema.children[i], file_children[i].type);
        if (code == NANOARROW_OK) {
            code = ArrowSchemaSetName(schema.children[i], file_children[i].name);
        }
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetName(&schema, name);
    }
    lake_status status =
        code == NANOARROW_OK
            ? arrow_extension_set(&schema, ARROW_FILE_EXTENSION_NAME, ARROW_FILE_EXTENSION_METADATA,
                                  err)
            : arrow_fail_code(err, code, NULL, "making the schema of a FILE column");
    if (status != LAKE_OK) {
        ArrowSchemaRelease(&schema);
        return status;
    }
    schema.flags = nullable ? ARROW_FLAG_NULLABLE : 0;
    ArrowSchemaMove(&schema, out);
    return LAKE_OK;
}

bool arrow_file_schema_is(const struct ArrowSchema *field)
{
    if (strcmp(field->format, "+s") != 0 || field->dictionary != NULL ||
        field->n_children != (int64_t)BASE_ARRAY_LEN(file_children) ||
        !arrow_extension_is(field, ARROW_FILE_EXTENSION_NAME)) {
        return false;
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(file_children); i++) {
        const struct ArrowSchema *child = field->children[i];
        if (strcmp(child->format, file_children[i].format) != 0 || child->dictionary != NULL ||
            strcmp(arrow_field_name(child), file_children[i].name) != 0) {
            return false;
        }
    }
    return true;
}

static bool slot_is_null(const struct ArrowArray *array, int64_t slot)
{
    const uint8_t *validity = array->buffers[0];
    return array->null_count != 0 && validity != NULL && !ArrowBitGet(validity, slot);
}

/* False for a null child or offsets that go backwards. */
static bool child_string(const struct ArrowArray *child, int64_t row, struct lake_str *out)
{
    int64_t slot = child->offset + row;
    const int32_t *offsets = child->buffers[1];
    if (slot_is_null(child, slot) || offsets == NULL || offsets[slot] < 0 ||
        offsets[slot + 1] < offsets[slot]) {
        return false;
    }
    const char *data = child->buffers[2];
    *out = (struct lake_str){data == NULL ? "" : data + offsets[slot],
                             (size_t)(offsets[slot + 1] - offsets[slot])};
    return true;
}

lake_status arrow_file_value_get(const struct ArrowSchema *field, const struct ArrowArray *column,
                                 int64_t row, struct arrow_file_value *out, struct lake_error *err)
{
    const char *name = arrow_field_name(field);
    if (!arrow_file_schema_is(field) ||
        column->n_children != (int64_t)BASE_ARRAY_LEN(file_children)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "column \"%s\" is not a FILE column", name);
    }
    if (row < 0 || row >= column->length) {
        return lake_fail(err, LAKE_OUT_OF_RANGE,
                         "row %lld of column \"%s\" does not exist: it has %lld rows",
                         (long long)row, name, (long long)column->length);
    }
    int64_t slot = column->offset + row;
    if (slot_is_null(column, slot)) {
        return lake_fail(err, LAKE_NOT_FOUND, "row %lld of FILE column \"%s\" is null",
                         (long long)row, name);
    }
    struct arrow_file_value value = {0};
    const struct ArrowArray *size = column->children[SIZE_BYTES];
    if (!child_string(column->children[URI], slot, &value.uri) ||
        !child_string(column->children[MEDIA_TYPE], slot, &value.media_type) ||
        !child_string(column->children[SHA256], slot, &value.sha256_hex) ||
        slot_is_null(size, size->offset + slot)) {
        return lake_fail(
            err, LAKE_DATA_LOSS,
            "row %lld of FILE column \"%s\" has a null inside a value that is not null",
            (long long)row, name);
    }
    value.size_bytes = ((const int64_t *)size->buffers[1])[size->offset + slot];
    if (value.size_bytes < 0) {
        return lake_fail(err, LAKE_DATA_LOSS, "row %lld of FILE column \"%s\" has the size %lld",
                         (long long)row, name, (long long)value.size_bytes);
    }
    if (!base_sha256_hex_valid(value.sha256_hex)) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "row %lld of FILE column \"%s\" has a SHA-256 that is not 64 lower-case "
                         "hexadecimal digits",
                         (long long)row, name);
    }
    *out = value;
    return LAKE_OK;
}

static int append_string(struct ArrowArray *child, struct lake_str value)
{
    return ArrowArrayAppendString(
        child, (struct ArrowStringView){value.data == NULL ? "" : value.data, (int64_t)value.size});
}

lake_status arrow_file_value_append(struct ArrowArray *column, const struct arrow_file_value *value,
                                    struct lake_error *err)
{
    int code;
    if (value == NULL) {
        code = ArrowArrayAppendNull(column, 1);
        return code == NANOARROW_OK ? LAKE_OK
                                    : arrow_fail_code(err, code, NULL, "appending a null FILE");
    }
    if (value->size_bytes < 0 || !base_sha256_hex_valid(value->sha256_hex)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a FILE value needs a size of at least 0 and a SHA-256 of 64 lower-case "
                         "hexadecimal digits");
    }
    code = append_string(column->children[URI], value->uri);
    if (code == NANOARROW_OK) {
        code = append_string(column->children[MEDIA_TYPE], value->media_type);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayAppendInt(column->children[SIZE_BYTES], value->size_bytes);
    }
    if (code == NANOARROW_OK) {
        code = append_string(column->children[SHA256], value->sha256_hex);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayFinishElement(column);
    }
    return code == NANOARROW_OK ? LAKE_OK : arrow_fail_code(err, code, NULL, "appending a FILE");
}
