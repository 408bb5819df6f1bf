/* libs: sql */
/*
 * The walk over a parsed statement: it neither crashes nor leaks, answers the same twice, and what
 * it accepts has sound references and names nothing that is refused when called directly.
 */
#include "sql_internal.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lake_str sql = {(const char *)data, size};
    struct lake_error err = {0};
    struct lake_error again_err = {0};
    struct sql_references references;
    struct sql_references again;
    lake_status status = sql_references_parse(NULL, sql, &references, &err);
    require(sql_references_parse(NULL, sql, &again, &again_err) == status);
    if (status != LAKE_OK) {
        require(status == LAKE_INVALID_ARGUMENT || status == LAKE_PERMISSION_DENIED ||
                status == LAKE_UNIMPLEMENTED);
        require(err.code == status && err.message[0] != '\0');
        require(strcmp(err.message, again_err.message) == 0);
        return 0;
    }
    require(references.count <= SQL_MAX_REFERENCES && references.count == again.count);
    for (size_t i = 0; i < references.count; i++) {
        const struct sql_table_ref *ref = &references.refs[i];
        require(ref->catalog != NULL && ref->schema != NULL && ref->table != NULL);
        require(strcmp(ref->table, again.refs[i].table) == 0);
    }
    sql_references_fini(&references);
    sql_references_fini(&again);
    return 0;
}
