/* Small helpers of arrow's tests. */
#ifndef TESTS_ARROW_TESTING_H
#define TESTS_ARROW_TESTING_H

#include <arrow/arrow.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static inline void check(lake_status status, const struct lake_error *err)
{
    if (status != LAKE_OK) {
        fail_msg("%s: %s", lake_status_name(status), err->message);
    }
}

/* struct<…> with columns in the words of arrow_type_parse, ending in NULL: name, type, name, … */
static inline void make_schema(struct ArrowSchema *out, ...)
{
    va_list arguments;
    struct lake_error err = {0};
    struct ArrowSchema columns[16];
    int64_t count = 0;
    va_start(arguments, out);
    for (const char *name = va_arg(arguments, const char *); name != NULL;
         name = va_arg(arguments, const char *)) {
        const char *type = va_arg(arguments, const char *);
        check(arrow_type_parse(base_str_of(type), name, &columns[count++], &err), &err);
    }
    va_end(arguments);
    ArrowSchemaInit(out);
    assert_int_equal(ArrowSchemaSetTypeStruct(out, count), 0);
    for (int64_t i = 0; i < count; i++) {
        ArrowSchemaRelease(out->children[i]);
        ArrowSchemaMove(&columns[i], out->children[i]);
    }
}

#endif
