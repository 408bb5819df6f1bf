/* The statement by which Query finds the rows that a delete or an update is about. */
#include "sql_internal.h"

#include <string.h>

#define TYPE_NAME_BYTES ((size_t)64 * 1024)

static lake_status append_name(struct base_buffer *out, const char *name, struct lake_error *err)
{
    lake_status status = base_buffer_append(out, "\"", 1, err);
    for (const char *at = name; *at != '\0' && status == LAKE_OK; at++) {
        status = base_buffer_append(out, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1, err);
    }
    return status == LAKE_OK ? base_buffer_append(out, "\"", 1, err) : status;
}

/* In brackets, so that a text which closes the parenthesis it is put into later cannot pass. */
lake_status sql_expression_check(struct sql_engine *engine, struct lake_str text,
                                 struct lake_error *err)
{
    struct sql_bridge_statement *statement = NULL;
    struct base_buffer sql;
    (void)engine; /* the parser needs no instance */
    if (base_str_trim(text).size == 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the expression is empty");
    }
    base_buffer_init(&sql, SQL_MAX_STATEMENT_BYTES);
    lake_status status = base_buffer_printf(&sql, err, "SELECT [\n%.*s\n]", LAKE_STR_FMT(text));
    if (status == LAKE_OK) {
        status = sql_statement_parse((struct lake_str){(const char *)sql.data, sql.size},
                                     &statement, err);
    }
    if (status == LAKE_INVALID_ARGUMENT) {
        status = lake_fail_wrap(err, status, "\"%.*s\" is no SQL expression",
                                (int)BASE_MIN(text.size, (size_t)200), text.data);
    }
    if (status == LAKE_OK) {
        struct lake_error why = {.code = LAKE_OK};
        status = sql_bridge_expression_check(statement, &why);
        if (status != LAKE_OK) {
            status = lake_fail(err, status, "\"%.*s\" is no expression for a row: %s",
                               (int)BASE_MIN(text.size, (size_t)200), text.data, why.message);
        }
    }
    sql_bridge_statement_free(statement);
    base_buffer_fini(&sql);
    return status;
}

static lake_status append_value(struct sql_engine *engine, const struct sql_assignment *assignment,
                                struct base_buffer *out, struct lake_error *err)
{
    struct ArrowSchema made = {.release = NULL};
    struct sql_instance *instance = NULL;
    char *type = base_alloc(TYPE_NAME_BYTES);
    lake_status status = type == NULL ? base_fail_no_memory(err, TYPE_NAME_BYTES) : LAKE_OK;
    if (status == LAKE_OK && ArrowSchemaDeepCopy(assignment->column, &made) != NANOARROW_OK) {
        status = base_fail_no_memory(err, sizeof(made));
    }
    if (status == LAKE_OK) {
        status = sql_half_widen_schema(&made, err);
    }
    if (status == LAKE_OK) {
        status = sql_engine_take(engine, &instance, err);
    }
    if (status == LAKE_OK) {
        status = sql_bridge_type_name(instance->database, &made, type, TYPE_NAME_BYTES, err);
    }
    sql_instance_unref(instance);
    if (status == LAKE_OK) {
        status = base_buffer_printf(out, err, ",\nCAST((\n%.*s\n) AS %s) AS ",
                                    LAKE_STR_FMT(assignment->expression), type);
    }
    if (status == LAKE_OK) {
        status = append_name(out, assignment->column->name, err);
    }
    if (made.release != NULL) {
        ArrowSchemaRelease(&made);
    }
    base_free(type);
    return status;
}

lake_status sql_change_statement(struct sql_engine *engine, const char *schema, const char *table,
                                 struct lake_str predicate,
                                 const struct sql_assignment *assignments, size_t count,
                                 struct base_buffer *out, struct lake_error *err)
{
    lake_status status = base_buffer_printf(out, err, "SELECT \"" SQL_ROW_ADDRESS "\"");
    for (size_t i = 0; i < count && status == LAKE_OK; i++) {
        status = append_value(engine, &assignments[i], out, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_printf(out, err, " FROM ");
    }
    if (status == LAKE_OK) {
        status = append_name(out, schema, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(out, ".", 1, err);
    }
    if (status == LAKE_OK) {
        status = append_name(out, table, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_printf(out, err, " WHERE (\n%.*s\n) ORDER BY \"" SQL_ROW_ADDRESS "\"",
                                    LAKE_STR_FMT(predicate));
    }
    return status;
}

/* The user has not written the lines between his expressions. */
lake_status sql_change_failed(lake_status status, struct lake_error *err)
{
    if (status != LAKE_INVALID_ARGUMENT) {
        return status;
    }
    if (strstr(err->message, "\"" SQL_ROW_ADDRESS "\" must appear in the GROUP BY") != NULL) {
        return lake_fail(err, status,
                         "an expression is asked for one row at a time: an aggregate belongs into "
                         "a subquery");
    }
    char *excerpt = strstr(err->message, "\n\nLINE ");
    if (excerpt != NULL && strstr(excerpt, ": CAST((\n") != NULL) {
        *excerpt = '\0';
    }
    return status;
}
