/*
 * Conditions on the command line of the Lance tools: --where COLUMN OP VALUE, all of which must
 * hold. OP: = != < <= > >= null notnull (the last two with any VALUE).
 */
#ifndef LAKE_TESTS_LANCE_CONDITIONS_H
#define LAKE_TESTS_LANCE_CONDITIONS_H

#include <lance/lance.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONDITIONS 256

struct condition {
    const char *column;
    const char *op;
    const char *value;
};

struct conditions {
    struct condition items[MAX_CONDITIONS];
    size_t count;
    struct lance_filter filters[MAX_CONDITIONS]; /* of conditions_resolve */
    struct lance_value values[MAX_CONDITIONS];
};

/* Takes one from the words `--where COLUMN OP VALUE …`; false when there are too few or too many.
 */
static inline bool conditions_take(struct conditions *conditions, int argc, char **argv)
{
    if (argc < 4 || conditions->count == MAX_CONDITIONS)
        return false;
    conditions->items[conditions->count++] = (struct condition){argv[1], argv[2], argv[3]};
    return true;
}

static inline bool conditions_parse_op(const char *text, enum lance_filter_op *out)
{
    static const struct {
        const char *text;
        enum lance_filter_op op;
    } ops[] = {
        {"=", LANCE_EQ}, {"!=", LANCE_NE}, {"<", LANCE_LT},         {"<=", LANCE_LE},
        {">", LANCE_GT}, {">=", LANCE_GE}, {"null", LANCE_IS_NULL}, {"notnull", LANCE_IS_NOT_NULL}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(ops); i++) {
        if (strcmp(text, ops[i].text) == 0) {
            *out = ops[i].op;
            return true;
        }
    }
    return false;
}

static inline lake_status find_column(const struct ArrowSchema *schema, const char *name,
                                      uint32_t *out, struct lake_error *err)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(schema->children[i]->name, name) == 0) {
            *out = (uint32_t)i;
            return LAKE_OK;
        }
    }
    return lake_fail(err, LAKE_NOT_FOUND, "no column \"%s\"", name);
}

/* Makes the filters, with values of the kind that each column has. */
static inline lake_status conditions_resolve(struct conditions *conditions,
                                             const struct ArrowSchema *schema,
                                             struct lake_error *err)
{
    for (size_t i = 0; i < conditions->count; i++) {
        const struct condition *where = &conditions->items[i];
        struct lance_filter *filter = &conditions->filters[i];
        struct lance_value *value = &conditions->values[i];
        lake_status status = find_column(schema, where->column, &filter->column, err);
        if (status != LAKE_OK)
            return status;
        if (!conditions_parse_op(where->op, &filter->op))
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "no operator \"%s\"", where->op);
        char format = schema->children[filter->column]->format[0];
        *value =
            (struct lance_value){.kind = LANCE_VALUE_INT64, .i64 = strtoll(where->value, NULL, 10)};
        if (strchr("fge", format) != NULL)
            *value =
                (struct lance_value){.kind = LANCE_VALUE_DOUBLE, .f64 = strtod(where->value, NULL)};
        if (strchr("uUzZ", format) != NULL)
            *value = (struct lance_value){
                .kind = LANCE_VALUE_BYTES,
                .bytes = {(const uint8_t *)where->value, strlen(where->value)}};
        filter->values = value;
        filter->value_count =
            filter->op == LANCE_IS_NULL || filter->op == LANCE_IS_NOT_NULL ? 0 : 1;
    }
    return LAKE_OK;
}

#endif
