#include "arrow_internal.h"
#include "flatbuffer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FORMAT_BYTES 1600 /* a union of 127 type IDs is the longest */

struct decoding {
    struct arrow_dictionaries *dictionaries;
    size_t field_count;
    struct lake_error *err;
};

static lake_status bad_field(struct decoding *d, FB(Field_table_t) field, const char *what)
{
    const char *name = FB(Field_name)(field);
    return lake_fail(d->err, LAKE_INVALID_ARGUMENT, "schema message: field \"%s\" has %s",
                     name == NULL ? "" : name, what);
}

/* "" for a width that does not exist. */
static const char *int_format(FB(Int_table_t) type)
{
    bool is_signed = FB(Int_is_signed)(type);
    switch (FB(Int_bitWidth)(type)) {
    case 8:
        return is_signed ? "c" : "C";
    case 16:
        return is_signed ? "s" : "S";
    case 32:
        return is_signed ? "i" : "I";
    case 64:
        return is_signed ? "l" : "L";
    default:
        return "";
    }
}

static const char *float_format(FB(FloatingPoint_table_t) type)
{
    switch (FB(FloatingPoint_precision)(type)) {
    case FB(Precision_HALF):
        return "e";
    case FB(Precision_SINGLE):
        return "f";
    case FB(Precision_DOUBLE):
        return "g";
    default:
        return "";
    }
}

static char unit_letter(int unit)
{
    static const char letters[] = "smun"; /* in the order of TimeUnit */
    return unit >= 0 && unit < 4 ? letters[unit] : '\0';
}

static void time_format(FB(Time_table_t) type, char *out)
{
    char unit = unit_letter(FB(Time_unit)(type));
    int bits = FB(Time_bitWidth)(type);
    if (((unit == 's' || unit == 'm') && bits == 32) ||
        ((unit == 'u' || unit == 'n') && bits == 64)) {
        snprintf(out, FORMAT_BYTES, "tt%c", unit);
    }
}

static void timestamp_format(FB(Timestamp_table_t) type, char *out)
{
    char unit = unit_letter(FB(Timestamp_unit)(type));
    const char *zone = FB(Timestamp_timezone)(type);
    if (unit != '\0' && (zone == NULL || strlen(zone) < FORMAT_BYTES - 8)) {
        snprintf(out, FORMAT_BYTES, "ts%c:%s", unit, zone == NULL ? "" : zone);
    }
}

static void interval_format(FB(Interval_table_t) type, char *out)
{
    static const char *const formats[] = {"tiM", "tiD", "tin"};
    int unit = FB(Interval_unit)(type);
    if (unit >= 0 && unit < 3) {
        snprintf(out, FORMAT_BYTES, "%s", formats[unit]);
    }
}

static void decimal_format(FB(Decimal_table_t) type, char *out)
{
    int bits = FB(Decimal_bitWidth)(type);
    if (bits == 128) {
        snprintf(out, FORMAT_BYTES, "d:%d,%d", FB(Decimal_precision)(type),
                 FB(Decimal_scale)(type));
    } else if (bits == 32 || bits == 64 || bits == 256) {
        snprintf(out, FORMAT_BYTES, "d:%d,%d,%d", FB(Decimal_precision)(type),
                 FB(Decimal_scale)(type), bits);
    }
}

static void union_format(FB(Union_table_t) type, size_t child_count, char *out)
{
    flatbuffers_int32_vec_t ids = FB(Union_typeIds)(type);
    int mode = FB(Union_mode)(type);
    if (child_count > 127 || (mode != FB(UnionMode_Sparse) && mode != FB(UnionMode_Dense)) ||
        (ids != NULL && flatbuffers_int32_vec_len(ids) != child_count)) {
        return;
    }
    size_t used =
        (size_t)snprintf(out, FORMAT_BYTES, "+u%c:", mode == FB(UnionMode_Dense) ? 'd' : 's');
    for (size_t i = 0; i < child_count; i++) {
        int32_t id = ids == NULL ? (int32_t)i : flatbuffers_int32_vec_at(ids, i);
        if (id < 0 || id > 127) {
            out[0] = '\0';
            return;
        }
        used += (size_t)snprintf(out + used, FORMAT_BYTES - used, "%s%d", i == 0 ? "" : ",", id);
    }
}

/* Types whose format has no parameter. */
static const char *plain_format(int type)
{
    switch (type) {
    case FB(Type_Null):
        return "n";
    case FB(Type_Bool):
        return "b";
    case FB(Type_Binary):
        return "z";
    case FB(Type_LargeBinary):
        return "Z";
    case FB(Type_BinaryView):
        return "vz";
    case FB(Type_Utf8):
        return "u";
    case FB(Type_LargeUtf8):
        return "U";
    case FB(Type_Utf8View):
        return "vu";
    case FB(Type_Struct_):
        return "+s";
    case FB(Type_List):
        return "+l";
    case FB(Type_LargeList):
        return "+L";
    case FB(Type_ListView):
        return "+vl";
    case FB(Type_LargeListView):
        return "+vL";
    case FB(Type_Map):
        return "+m";
    case FB(Type_RunEndEncoded):
        return "+r";
    default:
        return "";
    }
}

/* Leaves `out` empty for a type that is unknown or has wrong parameters. */
static void type_format(int type, flatbuffers_generic_t value, size_t child_count, char *out)
{
    out[0] = '\0';
    switch (type) {
    case FB(Type_Int):
        snprintf(out, FORMAT_BYTES, "%s", int_format((FB(Int_table_t))value));
        break;
    case FB(Type_FloatingPoint):
        snprintf(out, FORMAT_BYTES, "%s", float_format((FB(FloatingPoint_table_t))value));
        break;
    case FB(Type_Decimal):
        decimal_format((FB(Decimal_table_t))value, out);
        break;
    case FB(Type_FixedSizeBinary):
        snprintf(out, FORMAT_BYTES, "w:%d",
                 FB(FixedSizeBinary_byteWidth)((FB(FixedSizeBinary_table_t))value));
        break;
    case FB(Type_FixedSizeList):
        snprintf(out, FORMAT_BYTES, "+w:%d",
                 FB(FixedSizeList_listSize)((FB(FixedSizeList_table_t))value));
        break;
    case FB(Type_Date):
        snprintf(out, FORMAT_BYTES, "%s",
                 FB(Date_unit)((FB(Date_table_t))value) == FB(DateUnit_DAY) ? "tdD" : "tdm");
        break;
    case FB(Type_Time):
        time_format((FB(Time_table_t))value, out);
        break;
    case FB(Type_Timestamp):
        timestamp_format((FB(Timestamp_table_t))value, out);
        break;
    case FB(Type_Duration): {
        char unit = unit_letter(FB(Duration_unit)((FB(Duration_table_t))value));
        if (unit != '\0') {
            snprintf(out, FORMAT_BYTES, "tD%c", unit);
        }
        break;
    }
    case FB(Type_Interval):
        interval_format((FB(Interval_table_t))value, out);
        break;
    case FB(Type_Union):
        union_format((FB(Union_table_t))value, child_count, out);
        break;
    default:
        snprintf(out, FORMAT_BYTES, "%s", plain_format(type));
        break;
    }
}

static lake_status set_metadata(struct decoding *d, struct ArrowSchema *schema,
                                FB(KeyValue_vec_t) pairs)
{
    size_t count = FB(KeyValue_vec_len)(pairs);
    if (count == 0) {
        return LAKE_OK;
    }
    struct ArrowBuffer buffer;
    int code = ArrowMetadataBuilderInit(&buffer, NULL);
    for (size_t i = 0; code == NANOARROW_OK && i < count; i++) {
        FB(KeyValue_table_t) pair = FB(KeyValue_vec_at)(pairs, i);
        flatbuffers_string_t key = FB(KeyValue_key)(pair);
        flatbuffers_string_t value = FB(KeyValue_value)(pair);
        if (key == NULL) {
            ArrowBufferReset(&buffer);
            return lake_fail(d->err, LAKE_INVALID_ARGUMENT, "schema message: metadata has no key");
        }
        code = ArrowMetadataBuilderAppend(
            &buffer, (struct ArrowStringView){key, (int64_t)flatbuffers_string_len(key)},
            value == NULL
                ? (struct ArrowStringView){"", 0}
                : (struct ArrowStringView){value, (int64_t)flatbuffers_string_len(value)});
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetMetadata(schema, (const char *)buffer.data);
    }
    ArrowBufferReset(&buffer);
    return code == NANOARROW_OK
               ? LAKE_OK
               : arrow_fail_code(d->err, code, NULL, "reading a schema's metadata");
}

static lake_status decode_field(struct decoding *d, FB(Field_table_t) field, uint32_t depth,
                                struct ArrowSchema *out);

static lake_status decode_children(struct decoding *d, FB(Field_vec_t) children, uint32_t depth,
                                   struct ArrowSchema *out)
{
    size_t count = FB(Field_vec_len)(children);
    d->field_count += count;
    if (depth > ARROW_MAX_DEPTH || d->field_count > ARROW_MAX_FIELDS) {
        return lake_fail(d->err, LAKE_INVALID_ARGUMENT,
                         "schema message: more than %d levels or %d fields", ARROW_MAX_DEPTH,
                         ARROW_MAX_FIELDS);
    }
    int code = ArrowSchemaAllocateChildren(out, (int64_t)count);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(d->err, code, NULL, "reading a schema message");
    }
    /* All are initialised first: a failure releases the whole tree. */
    for (size_t i = 0; i < count; i++) {
        ArrowSchemaInit(out->children[i]);
    }
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        status = decode_field(d, FB(Field_vec_at)(children, i), depth + 1, out->children[i]);
    }
    return status;
}

/* Makes `out` the index field and gives back the place of the values' schema. */
static lake_status decode_dictionary(struct decoding *d, FB(Field_table_t) field,
                                     FB(DictionaryEncoding_table_t) encoding,
                                     struct ArrowSchema *out, struct ArrowSchema **values)
{
    struct arrow_dictionaries *dictionaries = d->dictionaries;
    FB(Int_table_t) index = FB(DictionaryEncoding_indexType)(encoding);
    const char *format = index == NULL ? "i" : int_format(index);
    if (format[0] == '\0' ||
        FB(DictionaryEncoding_dictionaryKind)(encoding) != FB(DictionaryKind_DenseArray)) {
        return bad_field(d, field, "a dictionary encoding that is not known");
    }
    if (dictionaries->count == ARROW_MAX_DICTIONARIES) {
        return bad_field(d, field, "a dictionary beyond the most that are read");
    }
    if (dictionaries->fields == NULL) {
        dictionaries->fields =
            base_calloc_array(ARROW_MAX_DICTIONARIES, sizeof(*dictionaries->fields));
        dictionaries->ids = base_calloc_array(ARROW_MAX_DICTIONARIES, sizeof(*dictionaries->ids));
        if (dictionaries->fields == NULL || dictionaries->ids == NULL) {
            return base_fail_no_memory(d->err, ARROW_MAX_DICTIONARIES * sizeof(void *));
        }
    }
    int code = ArrowSchemaSetFormat(out, format);
    if (code == NANOARROW_OK) {
        code = ArrowSchemaAllocateDictionary(out);
    }
    if (code != NANOARROW_OK) {
        return arrow_fail_code(d->err, code, NULL, "reading a schema message");
    }
    ArrowSchemaInit(out->dictionary);
    out->flags |= FB(DictionaryEncoding_isOrdered)(encoding) ? ARROW_FLAG_DICTIONARY_ORDERED : 0;
    dictionaries->fields[dictionaries->count] = out;
    dictionaries->ids[dictionaries->count] = FB(DictionaryEncoding_id)(encoding);
    dictionaries->count++;
    *values = out->dictionary;
    return LAKE_OK;
}

static lake_status decode_field(struct decoding *d, FB(Field_table_t) field, uint32_t depth,
                                struct ArrowSchema *out)
{
    FB(Field_vec_t) children = FB(Field_children)(field);
    const char *name = FB(Field_name)(field);
    int type = FB(Field_type_type)(field);
    flatbuffers_generic_t value = FB(Field_type)(field);
    char format[FORMAT_BYTES];
    if (value == NULL) {
        return bad_field(d, field, "no type");
    }
    type_format(type, value, FB(Field_vec_len)(children), format);
    if (format[0] == '\0') {
        return bad_field(d, field, "a type that is not known");
    }
    int code = ArrowSchemaSetName(out, name == NULL ? "" : name);
    if (code != NANOARROW_OK) {
        return arrow_fail_code(d->err, code, NULL, "reading a schema message");
    }
    out->flags = FB(Field_nullable)(field) ? ARROW_FLAG_NULLABLE : 0;
    struct ArrowSchema *values = out;
    FB(DictionaryEncoding_table_t) encoding = FB(Field_dictionary)(field);
    lake_status status = LAKE_OK;
    if (encoding != NULL) {
        status = decode_dictionary(d, field, encoding, out, &values);
    }
    if (status == LAKE_OK) {
        code = ArrowSchemaSetFormat(values, format);
        if (code != NANOARROW_OK) {
            status = arrow_fail_code(d->err, code, NULL, "reading a schema message");
        }
    }
    if (status == LAKE_OK && values != out) {
        values->flags = ARROW_FLAG_NULLABLE;
    }
    if (status == LAKE_OK && type == FB(Type_Map) && FB(Map_keysSorted)((FB(Map_table_t))value)) {
        values->flags |= ARROW_FLAG_MAP_KEYS_SORTED;
    }
    if (status == LAKE_OK) {
        status = decode_children(d, children, depth, values);
    }
    if (status == LAKE_OK) {
        status = set_metadata(d, out, FB(Field_custom_metadata)(field));
    }
    if (status == LAKE_OK) {
        struct arrow_type_layout layout; /* refuses formats with impossible parameters */
        status = arrow_layout_of(values, &layout, d->err);
    }
    return status;
}

lake_status arrow_schema_table_decode(const void *table, struct ArrowSchema *out,
                                      struct arrow_dictionaries *dictionaries,
                                      struct lake_error *err)
{
    FB(Schema_table_t) header = table;
    if (header == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the IPC message is not a schema");
    }
    if (FB(Schema_endianness)(header) != FB(Endianness_Little)) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "the IPC stream is big-endian; only little-endian is read");
    }
    struct arrow_dictionaries found = {0};
    struct decoding decoding = {.dictionaries = &found, .err = err};
    struct ArrowSchema schema;
    ArrowSchemaInit(&schema);
    lake_status status = LAKE_OK;
    int code = ArrowSchemaSetFormat(&schema, "+s");
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetName(&schema, "");
    }
    if (code != NANOARROW_OK) {
        status = arrow_fail_code(err, code, NULL, "reading a schema message");
    }
    schema.flags = 0;
    if (status == LAKE_OK) {
        status = decode_children(&decoding, FB(Schema_fields)(header), 0, &schema);
    }
    if (status == LAKE_OK) {
        status = set_metadata(&decoding, &schema, FB(Schema_custom_metadata)(header));
    }
    if (status != LAKE_OK) {
        arrow_dictionaries_fini(&found);
        ArrowSchemaRelease(&schema);
        return status;
    }
    /* Moving the root leaves the fields where they are. */
    ArrowSchemaMove(&schema, out);
    *dictionaries = found;
    return LAKE_OK;
}
