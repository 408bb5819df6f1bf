/*
 * What the server says of itself: every code that the JDBC driver reads must be there, since a
 * missing one is a null pointer in its getters (facts in docs/folders/query.md).
 */
#include "query_internal.h"

enum info_kind {
    TEXT,
    FLAG,
    NUMBER,
    BITS,
    TEXTS,
    MAP
};

struct info {
    uint32_t code;
    enum info_kind kind;
    const char *text;
    int64_t number;
};

/* Bit masks follow the enums of FlightSql.proto; 0: none. */
static const struct info infos[] = {
    {FLIGHT_SQL_INFO_SERVER_NAME, TEXT, "Lake", 0},
    {FLIGHT_SQL_INFO_SERVER_VERSION, TEXT, LAKE_VERSION, 0},
    {FLIGHT_SQL_INFO_ARROW_VERSION, TEXT, "1.5", 0},
    {FLIGHT_SQL_INFO_READ_ONLY, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_SQL, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_SUBSTRAIT, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_SUBSTRAIT_MIN_VERSION, TEXT, "", 0},
    {FLIGHT_SQL_INFO_SUBSTRAIT_MAX_VERSION, TEXT, "", 0},
    {FLIGHT_SQL_INFO_TRANSACTION, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_CANCEL, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_BULK_INGESTION, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_INGEST_TRANSACTIONS, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_STATEMENT_TIMEOUT, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_TRANSACTION_TIMEOUT, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_DDL_CATALOG, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_DDL_SCHEMA, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_DDL_TABLE, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_IDENTIFIER_CASE, NUMBER, NULL, 1}, /* case-insensitive */
    {FLIGHT_SQL_INFO_IDENTIFIER_QUOTE_CHAR, TEXT, "\"", 0},
    {FLIGHT_SQL_INFO_QUOTED_IDENTIFIER_CASE, NUMBER, NULL, 1},
    {FLIGHT_SQL_INFO_ALL_TABLES_SELECTABLE, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_NULL_ORDERING, NUMBER, NULL, 3}, /* nulls at the end */
    {FLIGHT_SQL_INFO_KEYWORDS, TEXTS, NULL, 0},
    {FLIGHT_SQL_INFO_NUMERIC_FUNCTIONS, TEXTS, NULL, 0},
    {FLIGHT_SQL_INFO_STRING_FUNCTIONS, TEXTS, NULL, 0},
    {FLIGHT_SQL_INFO_SYSTEM_FUNCTIONS, TEXTS, NULL, 0},
    {FLIGHT_SQL_INFO_DATETIME_FUNCTIONS, TEXTS, NULL, 0},
    {FLIGHT_SQL_INFO_SEARCH_STRING_ESCAPE, TEXT, "\\", 0},
    {FLIGHT_SQL_INFO_EXTRA_NAME_CHARACTERS, TEXT, "", 0},
    {FLIGHT_SQL_INFO_COLUMN_ALIASING, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_NULL_PLUS_NULL_IS_NULL, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_CONVERT, MAP, NULL, 0},
    {FLIGHT_SQL_INFO_TABLE_CORRELATION_NAMES, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_DIFFERENT_TABLE_CORRELATION_NAMES, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_EXPRESSIONS_IN_ORDER_BY, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_ORDER_BY_UNRELATED, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_GROUP_BY, BITS, NULL, 1}, /* unrelated columns */
    {FLIGHT_SQL_INFO_LIKE_ESCAPE_CLAUSE, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_NON_NULLABLE_COLUMNS, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_GRAMMAR, BITS, NULL, 7},      /* minimum, core, extended */
    {FLIGHT_SQL_INFO_ANSI92_LEVEL, BITS, NULL, 1}, /* entry */
    {FLIGHT_SQL_INFO_INTEGRITY_ENHANCEMENT, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_OUTER_JOINS_LEVEL, BITS, NULL, 2}, /* full */
    {FLIGHT_SQL_INFO_SCHEMA_TERM, TEXT, "namespace", 0},
    {FLIGHT_SQL_INFO_PROCEDURE_TERM, TEXT, "procedure", 0},
    {FLIGHT_SQL_INFO_CATALOG_TERM, TEXT, "catalog", 0},
    {FLIGHT_SQL_INFO_CATALOG_AT_START, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_SCHEMAS_SUPPORTED_ACTIONS, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_CATALOGS_SUPPORTED_ACTIONS, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_POSITIONED_COMMANDS, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_SELECT_FOR_UPDATE, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_STORED_PROCEDURES, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_SUBQUERIES, BITS, NULL, 15}, /* comparisons, exists, in, quantified */
    {FLIGHT_SQL_INFO_CORRELATED_SUBQUERIES, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_UNIONS, BITS, NULL, 3}, /* union, union all */
    {FLIGHT_SQL_INFO_MAX_BINARY_LITERAL_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_CHAR_LITERAL_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_COLUMN_NAME_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_COLUMNS_IN_GROUP_BY, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_COLUMNS_IN_INDEX, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_COLUMNS_IN_ORDER_BY, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_COLUMNS_IN_SELECT, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_COLUMNS_IN_TABLE, NUMBER, NULL, 10000},
    {FLIGHT_SQL_INFO_MAX_CONNECTIONS, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_CURSOR_NAME_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_INDEX_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_DB_SCHEMA_NAME_LENGTH, NUMBER, NULL, 128},
    {FLIGHT_SQL_INFO_MAX_PROCEDURE_NAME_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_CATALOG_NAME_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_ROW_SIZE, NUMBER, NULL, QUERY_MAX_ROW_BYTES},
    {FLIGHT_SQL_INFO_MAX_ROW_SIZE_INCLUDES_BLOBS, FLAG, NULL, true},
    {FLIGHT_SQL_INFO_MAX_STATEMENT_LENGTH, NUMBER, NULL, 1048576},
    {FLIGHT_SQL_INFO_MAX_STATEMENTS, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_MAX_TABLE_NAME_LENGTH, NUMBER, NULL, 128},
    {FLIGHT_SQL_INFO_MAX_TABLES_IN_SELECT, NUMBER, NULL, SQL_MAX_REFERENCES},
    {FLIGHT_SQL_INFO_MAX_USERNAME_LENGTH, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_DEFAULT_TRANSACTION_ISOLATION, NUMBER, NULL, 0},
    {FLIGHT_SQL_INFO_TRANSACTIONS, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_TRANSACTION_ISOLATION_LEVELS, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_DDL_CAUSES_COMMIT, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_DDL_IN_TRANSACTIONS_IGNORED, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_RESULT_SET_TYPES, BITS, NULL, 2}, /* forward only */
    {FLIGHT_SQL_INFO_CONCURRENCIES_UNSPECIFIED, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_CONCURRENCIES_FORWARD_ONLY, BITS, NULL, 2}, /* read only */
    {FLIGHT_SQL_INFO_CONCURRENCIES_SCROLL_SENSITIVE, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_CONCURRENCIES_SCROLL_INSENSITIVE, BITS, NULL, 0},
    {FLIGHT_SQL_INFO_BATCH_UPDATES, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_SAVEPOINTS, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_NAMED_PARAMETERS, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_LOCATORS_UPDATE_COPY, FLAG, NULL, false},
    {FLIGHT_SQL_INFO_STORED_FUNCTIONS_CALL_SYNTAX, FLAG, NULL, false},
};

static lake_status add_info(struct flight_sql_info_builder *builder, const struct info *info,
                            struct lake_error *err)
{
    switch (info->kind) {
    case TEXT:
        return flight_sql_info_add_string(builder, info->code, base_str_of(info->text), err);
    case FLAG:
        return flight_sql_info_add_bool(builder, info->code, info->number != 0, err);
    case NUMBER:
        return flight_sql_info_add_int64(builder, info->code, info->number, err);
    case BITS:
        return flight_sql_info_add_bitmask(builder, info->code, (int32_t)info->number, err);
    case TEXTS:
        return flight_sql_info_add_string_list(builder, info->code, NULL, 0, err);
    default:
        return flight_sql_info_add_empty_map(builder, info->code, err);
    }
}

static bool asked_for(const struct flight_sql_command *command, uint32_t code)
{
    if (command->as.sql_info.count == 0)
        return true;
    for (size_t i = 0; i < command->as.sql_info.count; i++) {
        if (command->as.sql_info.codes[i] == code)
            return true;
    }
    return false;
}

lake_status query_sql_info_rows(const struct flight_sql_command *command, struct ArrowArray *out,
                                struct lake_error *err)
{
    struct flight_sql_info_builder *builder = NULL;
    lake_status status = flight_sql_info_builder_new(&builder, err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(infos) && status == LAKE_OK; i++) {
        if (asked_for(command, infos[i].code))
            status = add_info(builder, &infos[i], err);
    }
    if (status == LAKE_OK)
        status = flight_sql_info_builder_finish(builder, out, err);
    flight_sql_info_builder_free(builder);
    return status;
}
