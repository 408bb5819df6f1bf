/*
 * Batches of an Arrow file as rows of a table: columns by name, what is missing as null, and values
 * converted where nothing can be lost on the way. Other files go through the engine, which casts.
 */
#include "cli_internal.h"

#include <string.h>
#include <strings.h>

enum method {
    MOVE, /* the same layout */
    NULLS,
    WHOLE,
    REAL,
    TEXT,
    BYTES
};

struct column {
    enum method method;
    int64_t source; /* place in the file's schema */
};

struct cli_conversion {
    struct ArrowSchema from;
    struct ArrowSchema to;
    struct column *columns; /* one for each of `to` */
};

/* ---- planning ---- */

static const char *name_of(const struct ArrowSchema *field)
{
    return field->name == NULL ? "" : field->name;
}

/* Names, nullability and metadata say nothing of how values are laid out; names of struct fields
 * say which is which. */
static bool same_layout(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool structure = strcmp(a->format, "+s") == 0;
    if (strcmp(a->format, b->format) != 0 || a->n_children != b->n_children ||
        (a->dictionary == NULL) != (b->dictionary == NULL))
        return false;
    for (int64_t i = 0; i < a->n_children; i++) {
        if (!same_layout(a->children[i], b->children[i]) ||
            (structure && strcmp(name_of(a->children[i]), name_of(b->children[i])) != 0))
            return false;
    }
    return a->dictionary == NULL || same_layout(a->dictionary, b->dictionary);
}

static bool is_whole(enum ArrowType type)
{
    return type >= NANOARROW_TYPE_UINT8 && type <= NANOARROW_TYPE_INT64;
}

static bool is_real(enum ArrowType type)
{
    return type == NANOARROW_TYPE_HALF_FLOAT || type == NANOARROW_TYPE_FLOAT ||
           type == NANOARROW_TYPE_DOUBLE;
}

static bool is_text(enum ArrowType type)
{
    return type == NANOARROW_TYPE_STRING || type == NANOARROW_TYPE_LARGE_STRING;
}

static bool is_bytes(enum ArrowType type)
{
    return type == NANOARROW_TYPE_BINARY || type == NANOARROW_TYPE_LARGE_BINARY ||
           type == NANOARROW_TYPE_FIXED_SIZE_BINARY;
}

/* Half, single and double precision in this order; a narrower one cannot hold all of a wider. */
static bool holds_reals(enum ArrowType to, enum ArrowType from)
{
    return to == NANOARROW_TYPE_DOUBLE ||
           (to == NANOARROW_TYPE_FLOAT && from != NANOARROW_TYPE_DOUBLE);
}

/* A dictionary's values count as the column's. */
static bool find_method(const struct ArrowSchema *from, const struct ArrowSchema *to,
                        enum method *out)
{
    struct ArrowSchemaView source;
    struct ArrowSchemaView target;
    const struct ArrowSchema *values = from->dictionary != NULL ? from->dictionary : from;
    if (same_layout(from, to)) {
        *out = MOVE;
        return true;
    }
    if (ArrowSchemaViewInit(&source, values, NULL) != NANOARROW_OK ||
        ArrowSchemaViewInit(&target, to, NULL) != NANOARROW_OK || to->dictionary != NULL)
        return false;
    if (is_whole(source.type) && is_whole(target.type))
        *out = WHOLE;
    else if (is_real(source.type) && is_real(target.type) && holds_reals(target.type, source.type))
        *out = REAL;
    else if (is_text(source.type) &&
             (target.type == NANOARROW_TYPE_STRING || target.type == NANOARROW_TYPE_LARGE_STRING))
        *out = TEXT;
    else if (is_bytes(source.type) &&
             (target.type == NANOARROW_TYPE_BINARY || target.type == NANOARROW_TYPE_LARGE_BINARY))
        *out = BYTES;
    else
        return false;
    return true;
}

/* The column of this name, else the only one that differs in case; -1 for none. */
static int64_t find_column(const struct ArrowSchema *schema, const char *name)
{
    int64_t found = -1;
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(name_of(schema->children[i]), name) == 0)
            return i;
        if (strcasecmp(name_of(schema->children[i]), name) == 0)
            found = i;
    }
    return found;
}

static lake_status cannot_convert(const struct ArrowSchema *from, const struct ArrowSchema *to,
                                  struct lake_error *err)
{
    struct base_buffer have;
    struct base_buffer want;
    base_buffer_init(&have, 4096);
    base_buffer_init(&want, 4096);
    (void)arrow_type_format(from, &have, NULL);
    (void)arrow_type_format(to, &want, NULL);
    lake_status status =
        lake_fail(err, LAKE_INVALID_ARGUMENT,
                  "column %s is %.*s in the file and %.*s in the table, and not every value of the "
                  "one fits the other: cast it before",
                  name_of(to), (int)have.size, (const char *)have.data, (int)want.size,
                  (const char *)want.data);
    base_buffer_fini(&have);
    base_buffer_fini(&want);
    return status;
}

static lake_status plan(struct cli_conversion *conversion, struct lake_error *err)
{
    const struct ArrowSchema *from = &conversion->from;
    const struct ArrowSchema *to = &conversion->to;
    for (int64_t i = 0; i < to->n_children; i++) {
        const struct ArrowSchema *field = to->children[i];
        struct column *column = &conversion->columns[i];
        column->source = find_column(from, name_of(field));
        if (column->source < 0 && (field->flags & ARROW_FLAG_NULLABLE) == 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column %s is missing from the file and takes no nulls",
                             name_of(field));
        if (column->source < 0)
            column->method = NULLS;
        else if (!find_method(from->children[column->source], field, &column->method))
            return cannot_convert(from->children[column->source], field, err);
    }
    for (int64_t i = 0; i < from->n_children; i++) {
        int64_t used = 0;
        for (int64_t k = 0; k < to->n_children; k++)
            used += conversion->columns[k].source == i;
        if (used != 1)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             used == 0 ? "the file's column %s is not a column of the table"
                                       : "the file's column %s means several of the table",
                             name_of(from->children[i]));
    }
    return LAKE_OK;
}

void cli_conversion_free(struct cli_conversion *conversion)
{
    if (conversion == NULL)
        return;
    if (conversion->from.release != NULL)
        conversion->from.release(&conversion->from);
    if (conversion->to.release != NULL)
        conversion->to.release(&conversion->to);
    base_free(conversion->columns);
    base_free(conversion);
}

lake_status cli_conversion_new(const struct ArrowSchema *from, const struct ArrowSchema *to,
                               struct cli_conversion **out, struct lake_error *err)
{
    struct cli_conversion *conversion = base_calloc_array(1, sizeof(*conversion));
    if (conversion == NULL)
        return base_fail_no_memory(err, sizeof(*conversion));
    conversion->columns =
        base_calloc_array((size_t)to->n_children + 1, sizeof(*conversion->columns));
    lake_status status = LAKE_OK;
    if (conversion->columns == NULL || ArrowSchemaDeepCopy(from, &conversion->from) != 0 ||
        ArrowSchemaDeepCopy(to, &conversion->to) != 0)
        status = base_fail_no_memory(err, sizeof(*conversion));
    if (status == LAKE_OK)
        status = plan(conversion, err);
    if (status != LAKE_OK) {
        cli_conversion_free(conversion);
        return status;
    }
    *out = conversion;
    return LAKE_OK;
}

/* ---- converting ---- */

/* Value `row` of a view over the values of a column. */
static int append_value(enum method method, const struct ArrowArrayView *values, int64_t row,
                        struct ArrowArray *out)
{
    switch (method) {
    case WHOLE:
        return values->storage_type == NANOARROW_TYPE_UINT64
                   ? ArrowArrayAppendUInt(out, ArrowArrayViewGetUIntUnsafe(values, row))
                   : ArrowArrayAppendInt(out, ArrowArrayViewGetIntUnsafe(values, row));
    case REAL:
        return ArrowArrayAppendDouble(out, ArrowArrayViewGetDoubleUnsafe(values, row));
    case TEXT:
        return ArrowArrayAppendString(out, ArrowArrayViewGetStringUnsafe(values, row));
    default:
        return ArrowArrayAppendBytes(out, ArrowArrayViewGetBytesUnsafe(values, row));
    }
}

static lake_status convert_rows(const struct column *column, const struct ArrowSchema *field,
                                const struct ArrowArrayView *view, int64_t from, int64_t count,
                                struct ArrowArray *out, struct lake_error *err)
{
    const struct ArrowArrayView *values = view->dictionary != NULL ? view->dictionary : view;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = from + i;
        bool null = ArrowArrayViewIsNull(view, row);
        if (!null && view->dictionary != NULL) {
            row = ArrowArrayViewGetIntUnsafe(view, row);
            null = ArrowArrayViewIsNull(values, row);
        }
        int code =
            null ? ArrowArrayAppendNull(out, 1) : append_value(column->method, values, row, out);
        if (code == EINVAL || code == EOVERFLOW)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "column %s: a value does not fit the table's type (row %lld of a "
                             "batch)",
                             name_of(field), (long long)i + 1);
        if (code != NANOARROW_OK)
            return base_fail_no_memory(err, 64);
    }
    return LAKE_OK;
}

static lake_status convert_column(const struct cli_conversion *conversion, int64_t at,
                                  struct ArrowArray *batch, struct ArrowArray *out,
                                  struct lake_error *err)
{
    const struct column *column = &conversion->columns[at];
    struct ArrowArray *source = column->source < 0 ? NULL : batch->children[column->source];
    struct ArrowArrayView view;
    if (column->method == NULLS)
        return ArrowArrayAppendNull(out, batch->length) == NANOARROW_OK
                   ? LAKE_OK
                   : base_fail_no_memory(err, (size_t)batch->length);
    if (column->method == MOVE) {
        out->release(out);
        ArrowArrayMove(source, out);
        out->offset += batch->offset;
        if (out->length != batch->length && out->null_count != 0)
            out->null_count = -1;
        out->length = batch->length;
        return LAKE_OK;
    }
    ArrowArrayViewInitFromType(&view, NANOARROW_TYPE_UNINITIALIZED);
    lake_status status = LAKE_OK;
    if (ArrowArrayViewInitFromSchema(&view, conversion->from.children[column->source], NULL) != 0 ||
        ArrowArrayViewSetArray(&view, source, NULL) != 0)
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "column %s of the file cannot be read",
                           name_of(conversion->to.children[at]));
    if (status == LAKE_OK)
        status = convert_rows(column, conversion->to.children[at], &view, batch->offset,
                              batch->length, out, err);
    ArrowArrayViewReset(&view);
    return status;
}

/* Only what is built here is finished; what was moved in is whole. */
static lake_status finish(const struct cli_conversion *conversion, struct ArrowArray *rows,
                          struct lake_error *err)
{
    for (int64_t i = 0; i < rows->n_children; i++) {
        if (conversion->columns[i].method != MOVE &&
            ArrowArrayFinishBuildingDefault(rows->children[i], NULL) != NANOARROW_OK)
            return base_fail_no_memory(err, sizeof(*rows));
    }
    return LAKE_OK;
}

lake_status cli_convert(const struct cli_conversion *conversion, struct ArrowArray *batch,
                        struct ArrowArray *out, struct lake_error *err)
{
    struct ArrowArray rows = {0};
    lake_status status = arrow_array_validate(&conversion->from, batch, err);
    if (status == LAKE_OK &&
        (ArrowArrayInitFromSchema(&rows, &conversion->to, NULL) != NANOARROW_OK ||
         ArrowArrayStartAppending(&rows) != NANOARROW_OK))
        status = base_fail_no_memory(err, sizeof(rows));
    for (int64_t i = 0; i < conversion->to.n_children && status == LAKE_OK; i++)
        status = convert_column(conversion, i, batch, rows.children[i], err);
    if (status == LAKE_OK)
        status = finish(conversion, &rows, err);
    rows.length = batch->length;
    batch->release(batch);
    if (status == LAKE_OK)
        *out = rows;
    else if (rows.release != NULL)
        rows.release(&rows);
    return status;
}
