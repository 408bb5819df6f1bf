#include "flight.h"

#include <errno.h>

/* The schemas of Flight SQL's metadata results, as FlightSql.proto words them. */
struct column {
    const char *name;
    enum ArrowType type; /* LIST: list<utf8> */
    bool nullable;
};

#define STRING NANOARROW_TYPE_STRING
#define INT32  NANOARROW_TYPE_INT32
#define BOOL   NANOARROW_TYPE_BOOL

static const struct column catalogs[] = {{"catalog_name", STRING, false}};
static const struct column db_schemas[] = {
    {"catalog_name", STRING, true},
    {"db_schema_name", STRING, false},
};
static const struct column tables[] = {
    {"catalog_name", STRING, true},
    {"db_schema_name", STRING, true},
    {"table_name", STRING, false},
    {"table_type", STRING, false},
    {"table_schema", NANOARROW_TYPE_BINARY, false}, /* with include_schema only */
};
static const struct column table_types[] = {{"table_type", STRING, false}};
static const struct column primary_keys[] = {
    {"catalog_name", STRING, true}, {"db_schema_name", STRING, true},
    {"table_name", STRING, false},  {"column_name", STRING, false},
    {"key_name", STRING, true},     {"key_sequence", INT32, false},
};
static const struct column foreign_keys[] = {
    {"pk_catalog_name", STRING, true},
    {"pk_db_schema_name", STRING, true},
    {"pk_table_name", STRING, false},
    {"pk_column_name", STRING, false},
    {"fk_catalog_name", STRING, true},
    {"fk_db_schema_name", STRING, true},
    {"fk_table_name", STRING, false},
    {"fk_column_name", STRING, false},
    {"key_sequence", INT32, false},
    {"fk_key_name", STRING, true},
    {"pk_key_name", STRING, true},
    {"update_rule", NANOARROW_TYPE_UINT8, false},
    {"delete_rule", NANOARROW_TYPE_UINT8, false},
};
static const struct column xdbc_type_info[] = {
    {"type_name", STRING, false},        {"data_type", INT32, false},
    {"column_size", INT32, true},        {"literal_prefix", STRING, true},
    {"literal_suffix", STRING, true},    {"create_params", NANOARROW_TYPE_LIST, true},
    {"nullable", INT32, false},          {"case_sensitive", BOOL, false},
    {"searchable", INT32, false},        {"unsigned_attribute", BOOL, true},
    {"fixed_prec_scale", BOOL, false},   {"auto_increment", BOOL, true},
    {"local_type_name", STRING, true},   {"minimum_scale", INT32, true},
    {"maximum_scale", INT32, true},      {"sql_data_type", INT32, false},
    {"datetime_subcode", INT32, true},   {"num_prec_radix", INT32, true},
    {"interval_precision", INT32, true},
};

static lake_status fail_code(int code, struct lake_error *err)
{
    return lake_fail(err, code == ENOMEM ? LAKE_RESOURCE_EXHAUSTED : LAKE_INTERNAL,
                     "building a Flight SQL result failed with code %d", code);
}

static int set_column(struct ArrowSchema *field, const char *name, enum ArrowType type,
                      bool nullable)
{
    int code = ArrowSchemaSetType(field, type);
    if (code == NANOARROW_OK && type == NANOARROW_TYPE_LIST) {
        code = ArrowSchemaSetType(field->children[0], STRING);
        if (code == NANOARROW_OK) {
            code = ArrowSchemaSetName(field->children[0], "item");
        }
        field->children[0]->flags = 0;
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetName(field, name);
    }
    field->flags = nullable ? ARROW_FLAG_NULLABLE : 0;
    return code;
}

static int set_columns(struct ArrowSchema *out, const struct column *columns, size_t count)
{
    int code = ArrowSchemaSetTypeStruct(out, (int64_t)count);
    out->flags = 0;
    for (size_t i = 0; code == NANOARROW_OK && i < count; i++) {
        code = set_column(out->children[i], columns[i].name, columns[i].type, columns[i].nullable);
    }
    return code;
}

/* ---- SqlInfo ---- */

enum {
    INFO_STRING,
    INFO_BOOL,
    INFO_BIGINT,
    INFO_BITMASK,
    INFO_STRINGS,
    INFO_MAP,
    INFO_KINDS
};

static int set_info_map(struct ArrowSchema *map)
{
    int code = ArrowSchemaSetType(map, NANOARROW_TYPE_MAP);
    if (code != NANOARROW_OK) {
        return code;
    }
    struct ArrowSchema *entries = map->children[0];
    code = ArrowSchemaSetType(entries->children[0], INT32);
    entries->children[0]->flags = 0;
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetType(entries->children[1], NANOARROW_TYPE_LIST);
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetType(entries->children[1]->children[0], INT32);
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetName(entries->children[1]->children[0], "item");
    }
    return code;
}

static int set_info_union(struct ArrowSchema *value)
{
    static const char *const names[] = {"string_value",  "bool_value",  "bigint_value",
                                        "int32_bitmask", "string_list", "int32_to_int32_list_map"};
    static const enum ArrowType types[] = {STRING, BOOL, NANOARROW_TYPE_INT64, INT32};
    int code = ArrowSchemaSetTypeUnion(value, NANOARROW_TYPE_DENSE_UNION, INFO_KINDS);
    for (int i = 0; code == NANOARROW_OK && i < INFO_KINDS; i++) {
        struct ArrowSchema *child = value->children[i];
        if (i < INFO_STRINGS) {
            code = ArrowSchemaSetType(child, types[i]);
        } else if (i == INFO_STRINGS) {
            code = ArrowSchemaSetType(child, NANOARROW_TYPE_LIST);
            if (code == NANOARROW_OK) {
                code = ArrowSchemaSetType(child->children[0], STRING);
            }
            if (code == NANOARROW_OK) {
                code = ArrowSchemaSetName(child->children[0], "item");
            }
        } else {
            code = set_info_map(child);
        }
        if (code == NANOARROW_OK) {
            code = ArrowSchemaSetName(child, names[i]);
        }
        child->flags = 0;
    }
    if (code == NANOARROW_OK) {
        code = ArrowSchemaSetName(value, "value");
    }
    value->flags = 0;
    return code;
}

static int set_sql_info(struct ArrowSchema *out)
{
    int code = ArrowSchemaSetTypeStruct(out, 2);
    out->flags = 0;
    if (code == NANOARROW_OK) {
        code = set_column(out->children[0], "info_name", NANOARROW_TYPE_UINT32, false);
    }
    return code == NANOARROW_OK ? set_info_union(out->children[1]) : code;
}

lake_status flight_sql_result_schema(enum flight_sql_command_kind kind, bool include_table_schema,
                                     struct ArrowSchema *out, struct lake_error *err)
{
    struct ArrowSchema schema;
    int code;
    ArrowSchemaInit(&schema);
    switch (kind) {
    case FLIGHT_SQL_GET_CATALOGS:
        code = set_columns(&schema, catalogs, BASE_ARRAY_LEN(catalogs));
        break;
    case FLIGHT_SQL_GET_DB_SCHEMAS:
        code = set_columns(&schema, db_schemas, BASE_ARRAY_LEN(db_schemas));
        break;
    case FLIGHT_SQL_GET_TABLES:
        code =
            set_columns(&schema, tables, BASE_ARRAY_LEN(tables) - (include_table_schema ? 0 : 1));
        break;
    case FLIGHT_SQL_GET_TABLE_TYPES:
        code = set_columns(&schema, table_types, BASE_ARRAY_LEN(table_types));
        break;
    case FLIGHT_SQL_GET_PRIMARY_KEYS:
        code = set_columns(&schema, primary_keys, BASE_ARRAY_LEN(primary_keys));
        break;
    case FLIGHT_SQL_GET_EXPORTED_KEYS:
    case FLIGHT_SQL_GET_IMPORTED_KEYS:
    case FLIGHT_SQL_GET_CROSS_REFERENCE:
        code = set_columns(&schema, foreign_keys, BASE_ARRAY_LEN(foreign_keys));
        break;
    case FLIGHT_SQL_GET_XDBC_TYPE_INFO:
        code = set_columns(&schema, xdbc_type_info, BASE_ARRAY_LEN(xdbc_type_info));
        break;
    case FLIGHT_SQL_GET_SQL_INFO:
        code = set_sql_info(&schema);
        break;
    default:
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "Flight SQL command %d has no metadata result",
                         (int)kind);
    }
    if (code != NANOARROW_OK) {
        ArrowSchemaRelease(&schema);
        return fail_code(code, err);
    }
    ArrowSchemaMove(&schema, out);
    return LAKE_OK;
}

struct flight_sql_info_builder {
    struct ArrowArray rows;
};

lake_status flight_sql_info_builder_new(struct flight_sql_info_builder **out,
                                        struct lake_error *err)
{
    struct ArrowSchema schema;
    struct flight_sql_info_builder *builder = base_calloc_array(1, sizeof(*builder));
    if (builder == NULL) {
        return base_fail_no_memory(err, sizeof(*builder));
    }
    lake_status status = flight_sql_result_schema(FLIGHT_SQL_GET_SQL_INFO, false, &schema, err);
    if (status == LAKE_OK) {
        int code = ArrowArrayInitFromSchema(&builder->rows, &schema, NULL);
        if (code == NANOARROW_OK) {
            code = ArrowArrayStartAppending(&builder->rows);
        } else {
            builder->rows.release = NULL;
        }
        status = code == NANOARROW_OK ? LAKE_OK : fail_code(code, err);
        ArrowSchemaRelease(&schema);
    }
    if (status != LAKE_OK) {
        flight_sql_info_builder_free(builder);
        return status;
    }
    *out = builder;
    return LAKE_OK;
}

void flight_sql_info_builder_free(struct flight_sql_info_builder *builder)
{
    if (builder != NULL) {
        if (builder->rows.release != NULL) {
            ArrowArrayRelease(&builder->rows);
        }
        base_free(builder);
    }
}

/* Ends a row whose value has been appended to the union's child `kind`. */
static lake_status finish_row(struct flight_sql_info_builder *builder, uint32_t code, int kind,
                              int result, struct lake_error *err)
{
    if (result == NANOARROW_OK) {
        result = ArrowArrayFinishUnionElement(builder->rows.children[1], (int8_t)kind);
    }
    if (result == NANOARROW_OK) {
        result = ArrowArrayAppendUInt(builder->rows.children[0], code);
    }
    if (result == NANOARROW_OK) {
        result = ArrowArrayFinishElement(&builder->rows);
    }
    return result == NANOARROW_OK ? LAKE_OK : fail_code(result, err);
}

static struct ArrowArray *value_child(struct flight_sql_info_builder *builder, int kind)
{
    return builder->rows.children[1]->children[kind];
}

static struct ArrowStringView string_view(struct lake_str value)
{
    return (struct ArrowStringView){value.data == NULL ? "" : value.data, (int64_t)value.size};
}

lake_status flight_sql_info_add_string(struct flight_sql_info_builder *builder, uint32_t code,
                                       struct lake_str value, struct lake_error *err)
{
    int result = ArrowArrayAppendString(value_child(builder, INFO_STRING), string_view(value));
    return finish_row(builder, code, INFO_STRING, result, err);
}

lake_status flight_sql_info_add_bool(struct flight_sql_info_builder *builder, uint32_t code,
                                     bool value, struct lake_error *err)
{
    int result = ArrowArrayAppendInt(value_child(builder, INFO_BOOL), value);
    return finish_row(builder, code, INFO_BOOL, result, err);
}

lake_status flight_sql_info_add_int64(struct flight_sql_info_builder *builder, uint32_t code,
                                      int64_t value, struct lake_error *err)
{
    int result = ArrowArrayAppendInt(value_child(builder, INFO_BIGINT), value);
    return finish_row(builder, code, INFO_BIGINT, result, err);
}

lake_status flight_sql_info_add_bitmask(struct flight_sql_info_builder *builder, uint32_t code,
                                        int32_t value, struct lake_error *err)
{
    int result = ArrowArrayAppendInt(value_child(builder, INFO_BITMASK), value);
    return finish_row(builder, code, INFO_BITMASK, result, err);
}

lake_status flight_sql_info_add_string_list(struct flight_sql_info_builder *builder, uint32_t code,
                                            const struct lake_str *values, size_t count,
                                            struct lake_error *err)
{
    struct ArrowArray *list = value_child(builder, INFO_STRINGS);
    int result = NANOARROW_OK;
    for (size_t i = 0; result == NANOARROW_OK && i < count; i++) {
        result = ArrowArrayAppendString(list->children[0], string_view(values[i]));
    }
    if (result == NANOARROW_OK) {
        result = ArrowArrayFinishElement(list);
    }
    return finish_row(builder, code, INFO_STRINGS, result, err);
}

lake_status flight_sql_info_add_empty_map(struct flight_sql_info_builder *builder, uint32_t code,
                                          struct lake_error *err)
{
    int result = ArrowArrayFinishElement(value_child(builder, INFO_MAP));
    return finish_row(builder, code, INFO_MAP, result, err);
}

lake_status flight_sql_info_builder_finish(struct flight_sql_info_builder *builder,
                                           struct ArrowArray *out, struct lake_error *err)
{
    struct ArrowError detail = {{0}};
    int result = ArrowArrayFinishBuildingDefault(&builder->rows, &detail);
    if (result != NANOARROW_OK) {
        return lake_fail(err, LAKE_INTERNAL, "building a SqlInfo result failed: %s",
                         detail.message);
    }
    ArrowArrayMove(&builder->rows, out);
    return LAKE_OK;
}
