#include "arrow_internal.h"
#include "flatbuffer.h"

#include <errno.h>
#include <string.h>

static lake_status collect(const struct ArrowSchema *field, uint32_t depth, size_t *fields,
                           struct arrow_dictionaries *out, struct lake_error *err)
{
    if (depth > ARROW_MAX_DEPTH) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the schema nests deeper than %d levels",
                         ARROW_MAX_DEPTH);
    }
    if (++*fields > ARROW_MAX_FIELDS) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the schema has more than %d fields",
                         ARROW_MAX_FIELDS);
    }
    const struct ArrowSchema *values = field;
    if (field->dictionary != NULL) {
        if (out->count == ARROW_MAX_DICTIONARIES) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the schema has more than %d dictionary-encoded fields",
                             ARROW_MAX_DICTIONARIES);
        }
        if (field->dictionary->dictionary != NULL) {
            return lake_fail(err, LAKE_UNIMPLEMENTED,
                             "column \"%s\" is a dictionary of a dictionary, which Arrow IPC "
                             "cannot express",
                             arrow_field_name(field));
        }
        out->fields[out->count] = field;
        out->ids[out->count] = (int64_t)out->count;
        out->count++;
        values = field->dictionary;
    }
    lake_status status = LAKE_OK;
    for (int64_t i = 0; status == LAKE_OK && i < values->n_children; i++) {
        status = collect(values->children[i], depth + 1, fields, out, err);
    }
    return status;
}

static size_t count_dictionaries(const struct ArrowSchema *field, uint32_t depth)
{
    size_t count = 0;
    while (field->dictionary != NULL && count < ARROW_MAX_DEPTH) {
        field = field->dictionary;
        count++;
    }
    for (int64_t i = 0; depth < ARROW_MAX_DEPTH && i < field->n_children; i++) {
        count += count_dictionaries(field->children[i], depth + 1);
    }
    return count;
}

lake_status arrow_dictionaries_collect(const struct ArrowSchema *schema,
                                       struct arrow_dictionaries *out, struct lake_error *err)
{
    struct arrow_dictionaries found = {0};
    size_t capacity = BASE_MIN(count_dictionaries(schema, 0), (size_t)ARROW_MAX_DICTIONARIES);
    found.fields = base_calloc_array(capacity + 1, sizeof(*found.fields));
    found.ids = base_calloc_array(capacity + 1, sizeof(*found.ids));
    size_t fields = 0;
    lake_status status = found.fields == NULL || found.ids == NULL
                             ? base_fail_no_memory(err, capacity * sizeof(void *))
                             : collect(schema, 0, &fields, &found, err);
    if (status != LAKE_OK) {
        arrow_dictionaries_fini(&found);
        return status;
    }
    *out = found;
    return LAKE_OK;
}

void arrow_dictionaries_fini(struct arrow_dictionaries *dictionaries)
{
    base_free(dictionaries->fields);
    base_free(dictionaries->ids);
    *dictionaries = (struct arrow_dictionaries){0};
}

/* Each of the following returns 0, ENOMEM or EINVAL; the caller turns it into a message. */

static int encode_int(flatcc_builder_t *b, int32_t bits, bool is_signed)
{
    return FB(Field_type_Int_create)(b, bits, is_signed) == 0 ? 0 : ENOMEM;
}

static int encode_union(flatcc_builder_t *b, const struct ArrowSchemaView *view)
{
    int8_t type_ids[128];
    int count = _ArrowParseUnionTypeIds(view->union_type_ids, type_ids);
    if (count < 0 || count > 127) {
        return EINVAL;
    }
    int32_t wide[128];
    for (int i = 0; i < count; i++) {
        wide[i] = type_ids[i];
    }
    FB(UnionMode_enum_t)
    mode = view->type == NANOARROW_TYPE_DENSE_UNION ? FB(UnionMode_Dense) : FB(UnionMode_Sparse);
    bool ok = FB(Field_type_Union_start)(b) == 0 && FB(Union_mode_add)(b, mode) == 0 &&
              FB(Union_typeIds_create)(b, wide, (size_t)count) == 0 &&
              FB(Field_type_Union_end)(b) == 0;
    return ok ? 0 : ENOMEM;
}

static int encode_timestamp(flatcc_builder_t *b, const struct ArrowSchemaView *view)
{
    bool ok = FB(Field_type_Timestamp_start)(b) == 0 &&
              FB(Timestamp_unit_add)(b, (FB(TimeUnit_enum_t))view->time_unit) == 0 &&
              (view->timezone == NULL || view->timezone[0] == '\0' ||
               FB(Timestamp_timezone_create_str)(b, view->timezone) == 0) &&
              FB(Field_type_Timestamp_end)(b) == 0;
    return ok ? 0 : ENOMEM;
}

static int encode_nested_type(flatcc_builder_t *b, const struct ArrowSchemaView *view)
{
    switch (view->type) {
    case NANOARROW_TYPE_LIST:
        return FB(Field_type_List_create)(b);
    case NANOARROW_TYPE_LARGE_LIST:
        return FB(Field_type_LargeList_create)(b);
    case NANOARROW_TYPE_LIST_VIEW:
        return FB(Field_type_ListView_create)(b);
    case NANOARROW_TYPE_LARGE_LIST_VIEW:
        return FB(Field_type_LargeListView_create)(b);
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        return FB(Field_type_FixedSizeList_create)(b, view->fixed_size);
    case NANOARROW_TYPE_STRUCT:
        return FB(Field_type_Struct__create)(b);
    case NANOARROW_TYPE_MAP:
        return FB(Field_type_Map_create)(b,
                                         (view->schema->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0);
    case NANOARROW_TYPE_SPARSE_UNION:
    case NANOARROW_TYPE_DENSE_UNION:
        return encode_union(b, view);
    case NANOARROW_TYPE_RUN_END_ENCODED:
        return FB(Field_type_RunEndEncoded_create)(b);
    default:
        return EINVAL;
    }
}

static int encode_temporal_type(flatcc_builder_t *b, const struct ArrowSchemaView *view)
{
    FB(TimeUnit_enum_t) unit = (FB(TimeUnit_enum_t))view->time_unit;
    switch (view->type) {
    case NANOARROW_TYPE_DATE32:
        return FB(Field_type_Date_create)(b, FB(DateUnit_DAY));
    case NANOARROW_TYPE_DATE64:
        return FB(Field_type_Date_create)(b, FB(DateUnit_MILLISECOND));
    case NANOARROW_TYPE_TIME32:
        return FB(Field_type_Time_create)(b, unit, 32);
    case NANOARROW_TYPE_TIME64:
        return FB(Field_type_Time_create)(b, unit, 64);
    case NANOARROW_TYPE_TIMESTAMP:
        return encode_timestamp(b, view);
    case NANOARROW_TYPE_DURATION:
        return FB(Field_type_Duration_create)(b, unit);
    case NANOARROW_TYPE_INTERVAL_MONTHS:
        return FB(Field_type_Interval_create)(b, FB(IntervalUnit_YEAR_MONTH));
    case NANOARROW_TYPE_INTERVAL_DAY_TIME:
        return FB(Field_type_Interval_create)(b, FB(IntervalUnit_DAY_TIME));
    case NANOARROW_TYPE_INTERVAL_MONTH_DAY_NANO:
        return FB(Field_type_Interval_create)(b, FB(IntervalUnit_MONTH_DAY_NANO));
    default:
        return encode_nested_type(b, view);
    }
}

static int encode_type(flatcc_builder_t *b, const struct ArrowSchemaView *view)
{
    switch (view->type) {
    case NANOARROW_TYPE_NA:
        return FB(Field_type_Null_create)(b);
    case NANOARROW_TYPE_BOOL:
        return FB(Field_type_Bool_create)(b);
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_UINT8:
        return encode_int(b, 8, view->type == NANOARROW_TYPE_INT8);
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_UINT16:
        return encode_int(b, 16, view->type == NANOARROW_TYPE_INT16);
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_UINT32:
        return encode_int(b, 32, view->type == NANOARROW_TYPE_INT32);
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_UINT64:
        return encode_int(b, 64, view->type == NANOARROW_TYPE_INT64);
    case NANOARROW_TYPE_HALF_FLOAT:
        return FB(Field_type_FloatingPoint_create)(b, FB(Precision_HALF));
    case NANOARROW_TYPE_FLOAT:
        return FB(Field_type_FloatingPoint_create)(b, FB(Precision_SINGLE));
    case NANOARROW_TYPE_DOUBLE:
        return FB(Field_type_FloatingPoint_create)(b, FB(Precision_DOUBLE));
    case NANOARROW_TYPE_DECIMAL32:
    case NANOARROW_TYPE_DECIMAL64:
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        return FB(Field_type_Decimal_create)(b, view->decimal_precision, view->decimal_scale,
                                             view->decimal_bitwidth);
    case NANOARROW_TYPE_STRING:
        return FB(Field_type_Utf8_create)(b);
    case NANOARROW_TYPE_LARGE_STRING:
        return FB(Field_type_LargeUtf8_create)(b);
    case NANOARROW_TYPE_STRING_VIEW:
        return FB(Field_type_Utf8View_create)(b);
    case NANOARROW_TYPE_BINARY:
        return FB(Field_type_Binary_create)(b);
    case NANOARROW_TYPE_LARGE_BINARY:
        return FB(Field_type_LargeBinary_create)(b);
    case NANOARROW_TYPE_BINARY_VIEW:
        return FB(Field_type_BinaryView_create)(b);
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        return FB(Field_type_FixedSizeBinary_create)(b, view->fixed_size);
    default:
        return encode_temporal_type(b, view);
    }
}

/* Pairs of key and value into the vector that is being built; values may hold any byte. */
static int encode_metadata(flatcc_builder_t *b, const char *metadata,
                           int (*push_start)(flatcc_builder_t *),
                           FB(KeyValue_ref_t) * (*push_end)(flatcc_builder_t *))
{
    struct ArrowMetadataReader reader;
    int code = ArrowMetadataReaderInit(&reader, metadata);
    while (code == NANOARROW_OK && reader.remaining_keys > 0) {
        struct ArrowStringView key;
        struct ArrowStringView value;
        code = ArrowMetadataReaderRead(&reader, &key, &value);
        if (code == NANOARROW_OK &&
            (push_start(b) != 0 ||
             FB(KeyValue_key_create_strn)(b, key.data, (size_t)key.size_bytes) != 0 ||
             FB(KeyValue_value_create_strn)(b, value.data, (size_t)value.size_bytes) != 0 ||
             push_end(b) == NULL)) {
            code = ENOMEM;
        }
    }
    return code;
}

static int encode_dictionary(flatcc_builder_t *b, const struct ArrowSchema *field,
                             enum ArrowType index_type, int64_t id)
{
    static const struct {
        enum ArrowType type;
        int32_t bits;
        bool is_signed;
    } indices[] = {
        {NANOARROW_TYPE_INT8, 8, true},   {NANOARROW_TYPE_UINT8, 8, false},
        {NANOARROW_TYPE_INT16, 16, true}, {NANOARROW_TYPE_UINT16, 16, false},
        {NANOARROW_TYPE_INT32, 32, true}, {NANOARROW_TYPE_UINT32, 32, false},
        {NANOARROW_TYPE_INT64, 64, true}, {NANOARROW_TYPE_UINT64, 64, false},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(indices); i++) {
        if (indices[i].type == index_type) {
            FB(Int_ref_t) index = FB(Int_create)(b, indices[i].bits, indices[i].is_signed);
            FB(DictionaryEncoding_ref_t)
            encoding = FB(DictionaryEncoding_create)(
                b, id, index, (field->flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0,
                FB(DictionaryKind_DenseArray));
            return encoding != 0 && FB(Field_dictionary_add)(b, encoding) == 0 ? 0 : ENOMEM;
        }
    }
    return EINVAL;
}

static int encode_field(flatcc_builder_t *b, const struct ArrowSchema *field,
                        const struct arrow_dictionaries *dictionaries, size_t *next_dictionary);

static int encode_children(flatcc_builder_t *b, const struct ArrowSchema *values,
                           const struct arrow_dictionaries *dictionaries, size_t *next_dictionary)
{
    if (FB(Field_children_start)(b) != 0) {
        return ENOMEM;
    }
    for (int64_t i = 0; i < values->n_children; i++) {
        if (FB(Field_children_push_start)(b) != 0) {
            return ENOMEM;
        }
        int code = encode_field(b, values->children[i], dictionaries, next_dictionary);
        if (code != 0) {
            return code;
        }
        if (FB(Field_children_push_end)(b) == NULL) {
            return ENOMEM;
        }
    }
    return FB(Field_children_end)(b) == 0 ? 0 : ENOMEM;
}

static int encode_field(flatcc_builder_t *b, const struct ArrowSchema *field,
                        const struct arrow_dictionaries *dictionaries, size_t *next_dictionary)
{
    struct ArrowSchemaView view;
    int code = ArrowSchemaViewInit(&view, field, NULL);
    if (code != NANOARROW_OK) {
        return code;
    }
    if (FB(Field_name_create_str)(b, arrow_field_name(field)) != 0 ||
        FB(Field_nullable_add)(b, (field->flags & ARROW_FLAG_NULLABLE) != 0) != 0) {
        return ENOMEM;
    }
    const struct ArrowSchema *values = field;
    if (field->dictionary != NULL) {
        code =
            encode_dictionary(b, field, view.storage_type, dictionaries->ids[(*next_dictionary)++]);
        values = field->dictionary;
        if (code == 0) {
            code = ArrowSchemaViewInit(&view, values, NULL);
        }
    }
    if (code == 0) {
        code = encode_type(b, &view);
        code = code < 0 ? ENOMEM : code; /* flatcc's failure is -1 */
    }
    if (code == 0) {
        code = encode_children(b, values, dictionaries, next_dictionary);
    }
    if (code == 0 && field->metadata != NULL) {
        if (FB(Field_custom_metadata_start)(b) != 0) {
            return ENOMEM;
        }
        code = encode_metadata(b, field->metadata, FB(Field_custom_metadata_push_start),
                               FB(Field_custom_metadata_push_end));
        if (code == 0 && FB(Field_custom_metadata_end)(b) != 0) {
            code = ENOMEM;
        }
    }
    return code;
}

/* The columns and metadata of a schema that was started. */
static int encode_schema(flatcc_builder_t *b, const struct ArrowSchema *schema,
                         const struct arrow_dictionaries *dictionaries)
{
    size_t next_dictionary = 0;
    if (FB(Schema_endianness_add)(b, FB(Endianness_Little)) != 0 ||
        FB(Schema_fields_start)(b) != 0) {
        return ENOMEM;
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (FB(Schema_fields_push_start)(b) != 0) {
            return ENOMEM;
        }
        int code = encode_field(b, schema->children[i], dictionaries, &next_dictionary);
        if (code != 0) {
            return code;
        }
        if (FB(Schema_fields_push_end)(b) == NULL) {
            return ENOMEM;
        }
    }
    if (FB(Schema_fields_end)(b) != 0) {
        return ENOMEM;
    }
    if (schema->metadata != NULL) {
        if (FB(Schema_custom_metadata_start)(b) != 0) {
            return ENOMEM;
        }
        int code = encode_metadata(b, schema->metadata, FB(Schema_custom_metadata_push_start),
                                   FB(Schema_custom_metadata_push_end));
        if (code != 0) {
            return code;
        }
        if (FB(Schema_custom_metadata_end)(b) != 0) {
            return ENOMEM;
        }
    }
    return 0;
}

static int encode_message(flatcc_builder_t *b, const struct ArrowSchema *schema,
                          const struct arrow_dictionaries *dictionaries)
{
    if (!fb_message_start(b) || FB(Message_header_Schema_start)(b) != 0) {
        return ENOMEM;
    }
    int code = encode_schema(b, schema, dictionaries);
    bool ok = code == 0 && FB(Message_header_Schema_end)(b) == 0 &&
              FB(Message_bodyLength_add)(b, 0) == 0 && FB(Message_end_as_root)(b) != 0;
    return ok ? 0 : code != 0 ? code : ENOMEM;
}

static int encode_footer(flatcc_builder_t *b, const struct ArrowSchema *schema,
                         const struct arrow_dictionaries *dictionaries,
                         const struct arrow_file_block *block)
{
    if (FB(Footer_start_as_root)(b) != 0 ||
        FB(Footer_version_add)(b, FB(MetadataVersion_V5)) != 0 || FB(Footer_schema_start)(b) != 0) {
        return ENOMEM;
    }
    int code = encode_schema(b, schema, dictionaries);
    bool ok = code == 0 && FB(Footer_schema_end)(b) == 0 &&
              FB(Footer_recordBatches_start)(b) == 0 &&
              FB(Footer_recordBatches_push_create)(b, block->offset, block->metadata_bytes,
                                                   block->body_bytes) != NULL &&
              FB(Footer_recordBatches_end)(b) == 0 && FB(Footer_end_as_root)(b) != 0;
    return ok ? 0 : code != 0 ? code : ENOMEM;
}

/* What was built, padded to 8 bytes. */
static lake_status take_buffer(flatcc_builder_t *builder, uint8_t **out, size_t *size,
                               struct lake_error *err)
{
    size_t used = flatcc_builder_get_buffer_size(builder);
    size_t padded = BASE_ALIGN_UP(used, (size_t)8);
    uint8_t *bytes = base_alloc(padded);
    if (bytes == NULL || flatcc_builder_copy_buffer(builder, bytes, used) == NULL) {
        base_free(bytes);
        return base_fail_no_memory(err, padded);
    }
    memset(bytes + used, 0, padded - used);
    *out = bytes;
    *size = padded;
    return LAKE_OK;
}

lake_status arrow_file_footer_encode(const struct ArrowSchema *schema,
                                     const struct arrow_file_block *block, uint8_t **out,
                                     size_t *size, struct lake_error *err)
{
    struct arrow_dictionaries dictionaries;
    flatcc_builder_t builder;
    lake_status status = arrow_dictionaries_collect(schema, &dictionaries, err);
    if (status != LAKE_OK) {
        return status;
    }
    if (flatcc_builder_init(&builder) != 0) {
        arrow_dictionaries_fini(&dictionaries);
        return base_fail_no_memory(err, sizeof(builder));
    }
    int code = encode_footer(&builder, schema, &dictionaries, block);
    status = code != 0 ? arrow_fail_code(err, code, NULL, "encoding the footer of a file")
                       : take_buffer(&builder, out, size, err);
    flatcc_builder_clear(&builder);
    arrow_dictionaries_fini(&dictionaries);
    return status;
}

lake_status arrow_schema_message_encode(const struct ArrowSchema *schema,
                                        const struct arrow_dictionaries *dictionaries,
                                        uint8_t **out, size_t *size, struct lake_error *err)
{
    if (schema->format == NULL || strcmp(schema->format, "+s") != 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a schema must be a struct of columns, this one is \"%s\"",
                         schema->format == NULL ? "" : schema->format);
    }
    flatcc_builder_t builder;
    if (flatcc_builder_init(&builder) != 0) {
        return base_fail_no_memory(err, sizeof(builder));
    }
    int code = encode_message(&builder, schema, dictionaries);
    lake_status status = code != 0 ? arrow_fail_code(err, code, NULL, "encoding the schema")
                                   : take_buffer(&builder, out, size, err);
    flatcc_builder_clear(&builder);
    return status;
}
