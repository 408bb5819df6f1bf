/* Random arrays of any type, and their rows as text: the plain form that tests compare. */
#ifndef TABLE_DATA_H
#define TABLE_DATA_H

#include "table_fixture.h"

#include <stdlib.h>

/* ---- schemas ---- */

/* "int64, list<utf8!>, FILE": columns c0, c1… of a struct schema. */
static inline void schema_of(const char *types, struct ArrowSchema *out)
{
    struct lake_error err = {0};
    size_t count = 1;
    int depth = 0;
    for (const char *c = types; *c != '\0'; c++) {
        depth += strchr("<(", *c) != NULL ? 1 : strchr(">)", *c) != NULL ? -1 : 0;
        count += *c == ',' && depth == 0 ? 1 : 0;
    }
    ArrowSchemaInit(out);
    assert_int_equal(ArrowSchemaSetTypeStruct(out, (int64_t)count), NANOARROW_OK);
    out->flags = 0;
    const char *start = types;
    for (size_t i = 0; i < count; i++) {
        const char *end = start;
        depth = 0;
        while (*end != '\0' && (*end != ',' || depth > 0)) {
            depth += strchr("<(", *end) != NULL ? 1 : strchr(">)", *end) != NULL ? -1 : 0;
            end++;
        }
        while (*start == ' ') {
            start++;
        }
        char name[32];
        (void)snprintf(name, sizeof(name), "c%zu", i);
        out->children[i]->release(out->children[i]);
        if (arrow_type_parse((struct lake_str){start, (size_t)(end - start)}, name,
                             out->children[i], &err) != LAKE_OK) {
            fail_msg("%s: %s", start, err.message);
        }
        start = end + 1;
    }
}

/* ---- random values ---- */

static inline void append_random(const struct ArrowSchema *schema, struct ArrowArray *array,
                                 uint64_t *seed);

static inline void append_random_items(const struct ArrowSchema *schema, struct ArrowArray *array,
                                       uint64_t count, uint64_t *seed)
{
    for (uint64_t i = 0; i < count; i++) {
        append_random(schema->children[0], array->children[0], seed);
    }
    assert_int_equal(ArrowArrayFinishElement(array), NANOARROW_OK);
}

static inline void append_random_value(const struct ArrowSchema *schema,
                                       const struct ArrowSchemaView *view, struct ArrowArray *array,
                                       uint64_t *seed)
{
    uint64_t number = random_next(seed);
    char text[32];
    int length = snprintf(text, sizeof(text), "%.*s", (int)(number % 7), "abc\xc3\xa9yz");
    length -= length == 4 ? 1 : 0; /* not in the middle of a letter */
    struct ArrowDecimal decimal;
    switch (view->storage_type) {
    case NANOARROW_TYPE_BOOL:
        assert_int_equal(ArrowArrayAppendInt(array, (int64_t)(number % 2)), NANOARROW_OK);
        return;
    case NANOARROW_TYPE_HALF_FLOAT:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        assert_int_equal(ArrowArrayAppendDouble(array, (double)(number % 1000) / 8), NANOARROW_OK);
        return;
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_BINARY:
        assert_int_equal(
            ArrowArrayAppendBytes(array, (struct ArrowBufferView){{.data = text}, length}),
            NANOARROW_OK);
        return;
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        assert_true(view->fixed_size <= 32);
        memset(text, (int)('a' + number % 26), sizeof(text));
        assert_int_equal(ArrowArrayAppendBytes(
                             array, (struct ArrowBufferView){{.data = text}, view->fixed_size}),
                         NANOARROW_OK);
        return;
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        ArrowDecimalInit(&decimal, view->decimal_bitwidth, view->decimal_precision,
                         view->decimal_scale);
        ArrowDecimalSetInt(&decimal, (int64_t)(number % 20000) - 10000);
        assert_int_equal(ArrowArrayAppendDecimal(array, &decimal), NANOARROW_OK);
        return;
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_MAP:
        append_random_items(schema, array, number % 4, seed);
        return;
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        append_random_items(schema, array, (uint64_t)view->fixed_size, seed);
        return;
    case NANOARROW_TYPE_STRUCT:
        for (int64_t i = 0; i < schema->n_children; i++) {
            append_random(schema->children[i], array->children[i], seed);
        }
        assert_int_equal(ArrowArrayFinishElement(array), NANOARROW_OK);
        return;
    default:
        assert_int_equal(ArrowArrayAppendInt(array, (int64_t)(number % 100)), NANOARROW_OK);
    }
}

#define DICTIONARY_SIZE 5

static inline void append_random(const struct ArrowSchema *schema, struct ArrowArray *array,
                                 uint64_t *seed)
{
    struct ArrowSchemaView view;
    assert_int_equal(ArrowSchemaViewInit(&view, schema, NULL), NANOARROW_OK);
    bool nullable = (schema->flags & ARROW_FLAG_NULLABLE) != 0;
    if (view.type == NANOARROW_TYPE_NA || (nullable && random_next(seed) % 4 == 0)) {
        assert_int_equal(ArrowArrayAppendNull(array, 1), NANOARROW_OK);
    } else if (schema->dictionary != NULL) {
        int64_t index = (int64_t)(random_next(seed) % DICTIONARY_SIZE);
        assert_int_equal(ArrowArrayAppendInt(array, index), NANOARROW_OK);
    } else {
        append_random_value(schema, &view, array, seed);
    }
}

static inline void fill_dictionaries(const struct ArrowSchema *schema, struct ArrowArray *array,
                                     uint64_t *seed)
{
    if (schema->dictionary != NULL) {
        struct ArrowSchema values = *schema->dictionary;
        values.flags = 0;
        for (int i = 0; i < DICTIONARY_SIZE; i++) {
            append_random(&values, array->dictionary, seed);
        }
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        fill_dictionaries(schema->children[i], array->children[i], seed);
    }
}

static inline void random_batch(const struct ArrowSchema *schema, size_t rows, uint64_t *seed,
                                struct ArrowArray *out)
{
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    fill_dictionaries(schema, out, seed);
    for (size_t i = 0; i < rows; i++) {
        append_random(schema, out, seed);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
}

/* ---- rows as text ---- */

static inline void render(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                          int64_t row, struct base_buffer *out)
{
    struct ArrowBufferView bytes;
    struct ArrowDecimal decimal;
    if (view->storage_type == NANOARROW_TYPE_NA || ArrowArrayViewIsNull(view, row)) {
        (void)base_buffer_printf(out, NULL, "null");
        return;
    }
    if (schema->dictionary != NULL) {
        render(schema->dictionary, view->dictionary, ArrowArrayViewGetIntUnsafe(view, row), out);
        return;
    }
    int64_t first;
    int64_t last;
    switch (view->storage_type) {
    case NANOARROW_TYPE_STRUCT:
        for (int64_t i = 0; i < view->n_children; i++) {
            (void)base_buffer_printf(out, NULL, "%s%s:", i == 0 ? "{" : ",",
                                     schema->children[i]->name);
            render(schema->children[i], view->children[i], view->offset + row, out);
        }
        (void)base_buffer_printf(out, NULL, "}");
        return;
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_MAP:
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        if (view->storage_type == NANOARROW_TYPE_FIXED_SIZE_LIST) {
            first = (view->offset + row) * view->layout.child_size_elements;
            last = first + view->layout.child_size_elements;
        } else {
            first = ArrowArrayViewListChildOffset(view, view->offset + row);
            last = ArrowArrayViewListChildOffset(view, view->offset + row + 1);
        }
        for (int64_t i = first; i < last; i++) {
            (void)base_buffer_printf(out, NULL, i == first ? "[" : ",");
            render(schema->children[0], view->children[0], i, out);
        }
        (void)base_buffer_printf(out, NULL, first == last ? "[]" : "]");
        return;
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
    case NANOARROW_TYPE_HALF_FLOAT:
        (void)base_buffer_printf(out, NULL, "%.17g", ArrowArrayViewGetDoubleUnsafe(view, row));
        return;
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        bytes = ArrowArrayViewGetBytesUnsafe(view, row);
        (void)base_buffer_printf(out, NULL, "'%.*s'", (int)bytes.size_bytes, bytes.data.as_char);
        return;
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        ArrowDecimalInit(&decimal, view->storage_type == NANOARROW_TYPE_DECIMAL128 ? 128 : 256, 38,
                         0);
        ArrowArrayViewGetDecimalUnsafe(view, row, &decimal);
        for (int i = 0; i < decimal.n_words; i++) {
            (void)base_buffer_printf(out, NULL, "%016llx", (unsigned long long)decimal.words[i]);
        }
        return;
    default:
        (void)base_buffer_printf(out, NULL, "%lld",
                                 (long long)ArrowArrayViewGetIntUnsafe(view, row));
    }
}

/* One line for each row, appended. */
static inline void render_rows(const struct ArrowSchema *schema, const struct ArrowArray *array,
                               struct base_buffer *out)
{
    struct ArrowArrayView view;
    struct ArrowError error;
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, schema, &error), NANOARROW_OK);
    if (ArrowArrayViewSetArray(&view, array, &error) != NANOARROW_OK) {
        fail_msg("%s", error.message);
    }
    if (array->offset == 0 &&
        ArrowArrayViewValidate(&view, NANOARROW_VALIDATION_LEVEL_FULL, &error) != NANOARROW_OK) {
        fail_msg("%s", error.message);
    }
    for (int64_t i = 0; i < array->length; i++) {
        render(schema, &view, i, out);
        assert_int_equal(base_buffer_append(out, "\n", 1, NULL), LAKE_OK);
    }
    ArrowArrayViewReset(&view);
}

/* The lines of a rendering. */
struct lines {
    struct base_buffer text;
    const char **items;
    size_t count;
};

static inline void lines_split(struct lines *lines)
{
    assert_int_equal(base_buffer_append(&lines->text, "", 1, NULL), LAKE_OK);
    free(lines->items);
    lines->items = calloc(lines->text.size + 1, sizeof(*lines->items));
    lines->count = 0;
    char *at = (char *)lines->text.data;
    for (char *end = strchr(at, '\n'); end != NULL; end = strchr(at, '\n')) {
        *end = '\0';
        lines->items[lines->count++] = at;
        at = end + 1;
    }
}

static inline void lines_init(struct lines *lines)
{
    *lines = (struct lines){.items = NULL};
    base_buffer_init(&lines->text, (size_t)1 << 30);
}

static inline void lines_fini(struct lines *lines)
{
    base_buffer_fini(&lines->text);
    free(lines->items);
}

#endif
