/* Table references of a statement, before anything is planned (SQL-7). */
#include "sql_internal.h"

#include <string.h>

#define REFERENCES_MAX_BYTES (4 * 1024 * 1024)

static lake_status copy_references(const struct sql_bridge_statement *statement,
                                   struct sql_references *out, struct lake_error *err)
{
    out->count = sql_bridge_reference_count(statement);
    out->explain = sql_bridge_is_explain(statement);
    lake_status status = base_arena_new(REFERENCES_MAX_BYTES, &out->memory, err);
    if (status != LAKE_OK || out->count == 0) {
        return status;
    }
    out->refs = base_arena_calloc_array(out->memory, out->count, sizeof(*out->refs));
    if (out->refs == NULL) {
        return base_fail_no_memory(err, out->count * sizeof(*out->refs));
    }
    for (size_t i = 0; i < out->count; i++) {
        struct sql_bridge_reference found;
        struct sql_table_ref *ref = &out->refs[i];
        sql_bridge_reference_get(statement, i, &found);
        ref->catalog = base_arena_strndup(out->memory, found.catalog, strlen(found.catalog));
        ref->schema = base_arena_strndup(out->memory, found.schema, strlen(found.schema));
        ref->table = base_arena_strndup(out->memory, found.table, strlen(found.table));
        ref->at_version = found.at_version;
        if (ref->catalog == NULL || ref->schema == NULL || ref->table == NULL) {
            return base_fail_no_memory(err, REFERENCES_MAX_BYTES);
        }
    }
    return LAKE_OK;
}

lake_status sql_statement_parse(struct lake_str sql, struct sql_bridge_statement **out,
                                struct lake_error *err)
{
    if (sql.size > SQL_MAX_STATEMENT_BYTES) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the statement is %zu bytes; at most %d are accepted", sql.size,
                         SQL_MAX_STATEMENT_BYTES);
    }
    if (!base_utf8_valid(sql) || (sql.size > 0 && memchr(sql.data, '\0', sql.size) != NULL)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the statement is not UTF-8 text");
    }
    return sql_bridge_parse(sql.data == NULL ? "" : sql.data, sql.size, SQL_MAX_REFERENCES, out,
                            err);
}

lake_status sql_references_parse(struct sql_engine *engine, struct lake_str sql,
                                 struct sql_references *out, struct lake_error *err)
{
    (void)engine; /* the parser needs no instance */
    struct sql_bridge_statement *statement = NULL;
    lake_status status = sql_statement_parse(sql, &statement, err);
    if (status != LAKE_OK) {
        return status;
    }
    struct sql_references found = {0};
    status = copy_references(statement, &found, err);
    sql_bridge_statement_free(statement);
    if (status == LAKE_OK) {
        *out = found;
    } else {
        sql_references_fini(&found);
    }
    return status;
}

void sql_references_fini(struct sql_references *references)
{
    base_arena_free(references->memory);
    *references = (struct sql_references){0};
}
