/* A field's extension type, in its metadata. */
#include "arrow_internal.h"

#define EXTENSION_NAME     "ARROW:extension:name"
#define EXTENSION_METADATA "ARROW:extension:metadata"

bool arrow_extension_is(const struct ArrowSchema *field, const char *name)
{
    struct ArrowStringView found = {NULL, 0};
    return field->metadata != NULL &&
           ArrowMetadataGetValue(field->metadata, ArrowCharView(EXTENSION_NAME), &found) ==
               NANOARROW_OK &&
           found.data != NULL &&
           base_str_equal_c((struct lake_str){found.data, (size_t)found.size_bytes}, name);
}

lake_status arrow_extension_set(struct ArrowSchema *field, const char *name, const char *metadata,
                                struct lake_error *err)
{
    struct ArrowBuffer all;
    struct ArrowStringView key = ArrowCharView(EXTENSION_NAME);
    int code = ArrowMetadataBuilderInit(&all, field->metadata);
    if (code == NANOARROW_OK && name == NULL) {
        code = ArrowMetadataBuilderRemove(&all, key);
    } else if (code == NANOARROW_OK) {
        code = ArrowMetadataBuilderSet(&all, key, ArrowCharView(name));
    }
    if (code == NANOARROW_OK && metadata != NULL) {
        code = ArrowMetadataBuilderSet(&all, ArrowCharView(EXTENSION_METADATA),
                                       ArrowCharView(metadata));
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetMetadata(field, (const char *)all.data);
    }
    ArrowBufferReset(&all);
    return code == NANOARROW_OK ? LAKE_OK : base_fail_no_memory(err, 64);
}
