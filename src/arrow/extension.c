/* The name of a field's extension type, in its metadata. */
#include "arrow_internal.h"

#define EXTENSION_NAME "ARROW:extension:name"

bool arrow_extension_is(const struct ArrowSchema *field, const char *name)
{
    struct ArrowStringView found = {NULL, 0};
    return field->metadata != NULL &&
           ArrowMetadataGetValue(field->metadata, ArrowCharView(EXTENSION_NAME), &found) ==
               NANOARROW_OK &&
           found.data != NULL &&
           base_str_equal_c((struct lake_str){found.data, (size_t)found.size_bytes}, name);
}

lake_status arrow_extension_set(struct ArrowSchema *field, const char *name, struct lake_error *err)
{
    struct ArrowBuffer metadata;
    struct ArrowStringView key = ArrowCharView(EXTENSION_NAME);
    int code = ArrowMetadataBuilderInit(&metadata, field->metadata);
    if (code == NANOARROW_OK && name == NULL) {
        code = ArrowMetadataBuilderRemove(&metadata, key);
    } else if (code == NANOARROW_OK) {
        code = ArrowMetadataBuilderSet(&metadata, key, ArrowCharView(name));
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetMetadata(field, (const char *)metadata.data);
    }
    ArrowBufferReset(&metadata);
    return code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, 64);
}
