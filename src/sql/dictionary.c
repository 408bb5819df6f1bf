/*
 * Dictionaries, of which the engine makes plain columns: back from these, at any depth. Each batch
 * has dictionaries of its own, with the values in the order in which they come.
 */
#include "sql_internal.h"

#include <errno.h>
#include <string.h>

#define NO_ROW (-1)

bool sql_dictionary_in(const struct ArrowSchema *schema)
{
    if (schema->dictionary != NULL) {
        return true;
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (sql_dictionary_in(schema->children[i])) {
            return true;
        }
    }
    return false;
}

int sql_dictionary_plain_schema(struct ArrowSchema *schema)
{
    struct ArrowSchema *values = schema->dictionary;
    int code = NANOARROW_OK;
    if (values != NULL) {
        code = ArrowSchemaSetFormat(schema, values->format);
        ArrowSchemaRelease(values);
        ArrowFree(values);
        schema->dictionary = NULL;
    }
    for (int64_t i = 0; code == NANOARROW_OK && i < schema->n_children; i++) {
        code = sql_dictionary_plain_schema(schema->children[i]);
    }
    return code;
}

/* ---- the distinct values of one array ---- */

struct distinct {
    const struct ArrowArrayView *view;
    int64_t *slots; /* places in `rows`, by hash; NO_ROW: free */
    size_t slot_count;
    int64_t *rows; /* where each value came first */
    int64_t count;
};

static struct ArrowBufferView value_at(const struct ArrowArrayView *view, int64_t row)
{
    if (view->layout.buffer_type[2] != NANOARROW_BUFFER_TYPE_NONE) {
        return ArrowArrayViewGetBytesUnsafe(view, row);
    }
    int64_t size = view->layout.element_size_bits[1] / 8;
    return (struct ArrowBufferView){.data.as_uint8 = view->buffer_views[1].data.as_uint8 +
                                                     (view->offset + row) * size,
                                    .size_bytes = size};
}

/* FNV-1a */
static size_t hash_of(struct ArrowBufferView value)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < value.size_bytes; i++) {
        hash = (hash ^ value.data.as_uint8[i]) * UINT64_C(0x100000001b3);
    }
    return (size_t)(hash ^ hash >> 32);
}

/* The number of the row's value; a new one is counted. */
static int64_t number_of(struct distinct *distinct, int64_t row)
{
    struct ArrowBufferView value = value_at(distinct->view, row);
    size_t slot = hash_of(value) & (distinct->slot_count - 1);
    for (; distinct->slots[slot] != NO_ROW; slot = (slot + 1) & (distinct->slot_count - 1)) {
        int64_t number = distinct->slots[slot];
        struct ArrowBufferView other = value_at(distinct->view, distinct->rows[number]);
        if (other.size_bytes == value.size_bytes &&
            (value.size_bytes == 0 ||
             memcmp(other.data.data, value.data.data, (size_t)value.size_bytes) == 0)) {
            return number;
        }
    }
    distinct->slots[slot] = distinct->count;
    distinct->rows[distinct->count] = row;
    return distinct->count++;
}

static int distinct_init(struct distinct *distinct, const struct ArrowArrayView *view)
{
    size_t rows = (size_t)view->length;
    size_t slots = 16;
    while (slots < 2 * rows) {
        slots *= 2;
    }
    *distinct = (struct distinct){.view = view, .slot_count = slots};
    distinct->slots = base_alloc_array(slots, sizeof(*distinct->slots));
    distinct->rows = base_alloc_array(rows + 1, sizeof(*distinct->rows));
    if (distinct->slots == NULL || distinct->rows == NULL) {
        return ENOMEM;
    }
    for (size_t i = 0; i < slots; i++) {
        distinct->slots[i] = NO_ROW;
    }
    return NANOARROW_OK;
}

static void distinct_fini(struct distinct *distinct)
{
    base_free(distinct->slots);
    base_free(distinct->rows);
}

/* ---- encoding ---- */

static int append_numbers(struct distinct *distinct, struct ArrowArray *out)
{
    int code = NANOARROW_OK;
    for (int64_t row = 0; code == NANOARROW_OK && row < distinct->view->length; row++) {
        if (ArrowArrayViewIsNull(distinct->view, row)) {
            code = ArrowArrayAppendNull(out, 1);
        } else {
            code = ArrowArrayAppendInt(out, number_of(distinct, row));
            code = code == EINVAL ? ERANGE : code;
        }
    }
    return code;
}

static int append_values(const struct distinct *distinct, struct ArrowArray *out)
{
    int code = NANOARROW_OK;
    bool sized = distinct->view->layout.buffer_type[2] != NANOARROW_BUFFER_TYPE_NONE;
    for (int64_t i = 0; code == NANOARROW_OK && i < distinct->count; i++) {
        struct ArrowBufferView value = value_at(distinct->view, distinct->rows[i]);
        if (sized) {
            code = ArrowArrayAppendBytes(out, value);
        } else {
            code = ArrowBufferAppendBufferView(ArrowArrayBuffer(out, 1), value);
            out->length++;
        }
    }
    return code;
}

static int encode_node(const struct ArrowSchema *wanted, struct ArrowArray *array)
{
    struct ArrowArrayView view;
    struct ArrowArray made = {.release = NULL};
    struct distinct distinct = {.slots = NULL};
    int code = ArrowArrayViewInitFromSchema(&view, wanted->dictionary, NULL);
    if (code == NANOARROW_OK) {
        code = ArrowArrayViewSetArray(&view, array, NULL);
    }
    if (code == NANOARROW_OK) {
        code = distinct_init(&distinct, &view);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayInitFromSchema(&made, wanted, NULL);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayStartAppending(&made);
    }
    if (code == NANOARROW_OK) {
        code = append_numbers(&distinct, &made);
    }
    if (code == NANOARROW_OK) {
        code = append_values(&distinct, made.dictionary);
    }
    if (code == NANOARROW_OK) {
        code = ArrowArrayFinishBuildingDefault(&made, NULL);
    }
    distinct_fini(&distinct);
    ArrowArrayViewReset(&view);
    if (code == NANOARROW_OK) {
        ArrowArrayRelease(array);
        ArrowArrayMove(&made, array);
    } else if (made.release != NULL) {
        ArrowArrayRelease(&made);
    }
    return code;
}

int sql_dictionary_encode(const struct ArrowSchema *wanted, struct ArrowArray *array)
{
    if (wanted->dictionary != NULL) {
        return encode_node(wanted, array);
    }
    int code = NANOARROW_OK;
    for (int64_t i = 0; code == NANOARROW_OK && i < wanted->n_children; i++) {
        code = sql_dictionary_encode(wanted->children[i], array->children[i]);
    }
    return code;
}
