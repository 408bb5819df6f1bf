/* GetXdbcTypeInfo: the types that a column can have, as JDBC and ODBC number them. */
#include "query_internal.h"

#define XDBC_NULLABLE   1
#define XDBC_SEARCHABLE 3

struct xdbc_type {
    const char *name;
    int32_t data_type; /* JDBC's number; also sql_data_type */
    int32_t column_size;
    const char *quote; /* around a literal, or NULL */
    bool numeric;
    bool is_unsigned;
};

static const struct xdbc_type types[] = {
    {"TINYINT", -6, 3, NULL, true, false},
    {"UTINYINT", -6, 3, NULL, true, true},
    {"BIGINT", -5, 19, NULL, true, false},
    {"UBIGINT", -5, 20, NULL, true, true},
    {"VARBINARY", -3, INT32_MAX, "'", false, false},
    {"NUMERIC", 2, 38, NULL, true, false},
    {"INTEGER", 4, 10, NULL, true, false},
    {"UINTEGER", 4, 10, NULL, true, true},
    {"SMALLINT", 5, 5, NULL, true, false},
    {"USMALLINT", 5, 5, NULL, true, true},
    {"FLOAT", 6, 24, NULL, true, false},
    {"DOUBLE", 8, 53, NULL, true, false},
    {"VARCHAR", 12, INT32_MAX, "'", false, false},
    {"BOOLEAN", 16, 1, NULL, false, false},
    {"DATE", 91, 10, "'", false, false},
    {"TIME", 92, 15, "'", false, false},
    {"TIMESTAMP", 93, 29, "'", false, false},
    {"STRUCT", 2002, 0, NULL, false, false},
    {"LIST", 2003, 0, NULL, false, false},
    {"TIMESTAMP WITH TIME ZONE", 2014, 35, "'", false, false},
};

static int append_text(struct ArrowArray *column, const char *text)
{
    return text == NULL ? ArrowArrayAppendNull(column, 1)
                        : ArrowArrayAppendString(column, ArrowCharView(text));
}

/* One row, column by column in the order of the specification. */
static int append_type(struct ArrowArray *rows, const struct xdbc_type *type)
{
    struct ArrowArray **column = rows->children;
    int failed =
        append_text(column[0], type->name) || ArrowArrayAppendInt(column[1], type->data_type) ||
        ArrowArrayAppendInt(column[2], type->column_size) || append_text(column[3], type->quote) ||
        append_text(column[4], type->quote) || ArrowArrayAppendNull(column[5], 1) ||
        ArrowArrayAppendInt(column[6], XDBC_NULLABLE) ||
        ArrowArrayAppendInt(column[7], type->data_type == 12) ||
        ArrowArrayAppendInt(column[8], XDBC_SEARCHABLE) ||
        (type->numeric ? ArrowArrayAppendInt(column[9], type->is_unsigned)
                       : ArrowArrayAppendNull(column[9], 1)) ||
        ArrowArrayAppendInt(column[10], 0) || ArrowArrayAppendInt(column[11], 0) ||
        append_text(column[12], type->name) || ArrowArrayAppendNull(column[13], 1) ||
        ArrowArrayAppendNull(column[14], 1) || ArrowArrayAppendInt(column[15], type->data_type) ||
        ArrowArrayAppendNull(column[16], 1) ||
        (type->numeric ? ArrowArrayAppendInt(column[17], 10)
                       : ArrowArrayAppendNull(column[17], 1)) ||
        ArrowArrayAppendNull(column[18], 1) || ArrowArrayFinishElement(rows);
    return failed;
}

lake_status query_xdbc_type_rows(const struct flight_sql_command *command,
                                 const struct ArrowSchema *schema, struct ArrowArray *out,
                                 struct lake_error *err)
{
    struct ArrowArray rows = {0};
    int failed = ArrowArrayInitFromSchema(&rows, schema, NULL) || ArrowArrayStartAppending(&rows);
    for (size_t i = 0; i < BASE_ARRAY_LEN(types) && !failed; i++) {
        if (!command->as.xdbc_type_info.has_data_type ||
            command->as.xdbc_type_info.data_type == types[i].data_type)
            failed = append_type(&rows, &types[i]);
    }
    if (failed || ArrowArrayFinishBuildingDefault(&rows, NULL)) {
        if (rows.release != NULL)
            rows.release(&rows);
        return lake_fail(err, LAKE_INTERNAL, "the type list could not be built");
    }
    *out = rows;
    return LAKE_OK;
}
