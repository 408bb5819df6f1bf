/* Views of text and bytes as plain text and bytes: the same values, wherever the views lie. */
#include "arrow_testing.h"

#include "arrow_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NO_LIMIT ((uint64_t)1 << 40)

/* ---- views by hand: over two buffers of data, from an offset, with what a null may hold ---- */

static const char LONG_A[] = "a value that lies outside its view";
static const char LONG_B[] = "and one that lies in another buffer";

struct view {
    int32_t size;
    char bytes[12]; /* or the first four, the number of the buffer, the offset in it */
};

static struct view inline_view(const char *text)
{
    struct view view = {.size = (int32_t)strlen(text)};
    memcpy(view.bytes, text, strlen(text));
    return view;
}

static struct view far_view(int32_t size, int32_t buffer, int32_t offset)
{
    struct view view = {.size = size};
    memcpy(view.bytes + 4, &buffer, sizeof(buffer));
    memcpy(view.bytes + 8, &offset, sizeof(offset));
    return view;
}

/* struct<c: utf8_view> over six views, of which rows 1 to 5 count and row 3 is null. */
struct by_hand {
    struct view views[6];
    int64_t sizes[2];
    uint8_t validity;
    const void *buffers[5];
    const void *root_buffers[1];
    struct ArrowArray column;
    struct ArrowArray root;
    struct ArrowArray *children[1];
    struct ArrowSchema schema;
    int released;
};

static void count_release(struct ArrowArray *array)
{
    ((struct by_hand *)array->private_data)->released++;
    array->release = NULL;
}

static void set_up(struct by_hand *hand, const char *type)
{
    *hand = (struct by_hand){.sizes = {sizeof(LONG_A) - 1, sizeof(LONG_B) - 1}, .validity = 0x37};
    make_schema(&hand->schema, "c", type, NULL);
    hand->views[0] = far_view(1 << 30, 77, 1 << 30); /* before the first row */
    hand->views[1] = inline_view("twelve bytes");
    hand->views[2] = far_view(sizeof(LONG_B) - 1, 1, 0);
    hand->views[3] = far_view(-5, -1, -1); /* null */
    hand->views[4] = inline_view("");
    hand->views[5] = far_view(sizeof(LONG_A) - 3, 0, 2);
    hand->buffers[0] = &hand->validity;
    hand->buffers[1] = hand->views;
    hand->buffers[2] = LONG_A;
    hand->buffers[3] = LONG_B;
    hand->buffers[4] = hand->sizes;
    hand->column = (struct ArrowArray){.length = 5,
                                       .null_count = 1,
                                       .offset = 1,
                                       .n_buffers = 5,
                                       .buffers = hand->buffers,
                                       .private_data = hand,
                                       .release = count_release};
    hand->children[0] = &hand->column;
    hand->root = (struct ArrowArray){.length = 5,
                                     .n_buffers = 1,
                                     .buffers = hand->root_buffers,
                                     .n_children = 1,
                                     .children = hand->children,
                                     .private_data = hand,
                                     .release = count_release};
}

/* ---- what came out ---- */

/* Takes `array` over. */
static lake_status try_plain(const struct ArrowSchema *from, const struct ArrowSchema *like,
                             struct ArrowArray *array, uint64_t *left_bytes,
                             struct ArrowSchema *schema, struct lake_error *err)
{
    check(arrow_plain_schema(from, like, schema, err), err);
    assert_false(arrow_schema_has_views(schema));
    lake_status status = arrow_array_validate(from, array, err);
    if (status == LAKE_OK) {
        status = arrow_plain_array(from, schema, array, left_bytes, err);
    }
    if (status == LAKE_OK) {
        check(arrow_array_validate(schema, array, err), err);
    }
    return status;
}

static void plain(const struct ArrowSchema *from, const struct ArrowSchema *like,
                  struct ArrowArray *array, struct ArrowSchema *schema)
{
    struct lake_error err = {0};
    uint64_t left_bytes = NO_LIMIT;
    check(try_plain(from, like, array, &left_bytes, schema, &err), &err);
}

/* Row `row` of a column of text or bytes as nanoarrow reads it; NULL: null. */
static void expect_text(const struct ArrowSchema *field, const struct ArrowArray *column,
                        int64_t row, const char *expected)
{
    struct ArrowArrayView view;
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, field, NULL), 0);
    assert_int_equal(ArrowArrayViewSetArray(&view, column, NULL), 0);
    assert_int_equal(ArrowArrayViewIsNull(&view, row), expected == NULL);
    if (expected != NULL) {
        struct ArrowBufferView bytes = ArrowArrayViewGetBytesUnsafe(&view, row);
        assert_int_equal(bytes.size_bytes, strlen(expected));
        assert_memory_equal(bytes.data.data, expected, strlen(expected));
    }
    ArrowArrayViewReset(&view);
}

static void release_both(struct ArrowArray *array, struct ArrowSchema *schema)
{
    ArrowArrayRelease(array);
    ArrowSchemaRelease(schema);
}

/* ---- tests ---- */

static void views_become_what_they_refer_to(void **state)
{
    (void)state;
    static const char *const types[][3] = {
        {"utf8_view", NULL, "u"},           {"binary_view", NULL, "z"},
        {"utf8_view", "large_utf8", "U"},   {"binary_view", "large_binary", "Z"},
        {"utf8_view", "large_binary", "u"}, /* another type: it stays as it would be */
        {"utf8_view!", "int32", "u"},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(types); i++) {
        struct by_hand hand;
        struct ArrowSchema like = {.release = NULL};
        struct ArrowSchema schema;
        struct ArrowArray array;
        set_up(&hand, types[i][0]);
        if (i == 5) {
            hand.column.null_count = 0; /* then the bitmap says nothing */
            hand.views[3] = inline_view("no null");
        }
        if (types[i][1] != NULL) {
            make_schema(&like, "other", types[i][1], NULL);
        }
        array = hand.root;
        plain(&hand.schema, like.release == NULL ? NULL : &like, &array, &schema);
        const struct ArrowSchema *field = schema.children[0];
        const struct ArrowArray *column = array.children[0];
        assert_string_equal(field->format, types[i][2]);
        assert_string_equal(field->name, "c");
        assert_int_equal(field->flags, hand.schema.children[0]->flags);
        assert_int_equal(array.length, 5);
        assert_int_equal(column->null_count, i == 5 ? 0 : 1);
        expect_text(field, column, 0, "twelve bytes");
        expect_text(field, column, 1, LONG_B);
        expect_text(field, column, 2, i == 5 ? "no null" : NULL);
        expect_text(field, column, 3, "");
        expect_text(field, column, 4, LONG_A + 2);
        assert_int_equal(hand.released, 0);
        release_both(&array, &schema);
        assert_int_equal(hand.released, 1);
        ArrowSchemaRelease(&hand.schema);
        if (like.release != NULL) {
            ArrowSchemaRelease(&like);
        }
    }
}

static void views_that_point_elsewhere_are_refused(void **state)
{
    (void)state;
    const int32_t size = sizeof(LONG_A) - 1;
    const struct view wrong[] = {
        far_view(size + 1, 0, 0),   far_view(size, 0, 1),       far_view(size, 2, 0),
        far_view(size, -1, 0),      far_view(size, 0, -1),      far_view(INT32_MAX, 0, INT32_MAX),
        far_view(-1, 0, 0),         far_view(INT32_MIN, 0, 0),  far_view(13, INT32_MAX, 0),
        far_view(13, 0, INT32_MAX), far_view(13, 1, size - 10),
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        struct by_hand hand;
        struct ArrowSchema schema;
        struct lake_error err = {0};
        uint64_t left_bytes = NO_LIMIT;
        set_up(&hand, "binary_view");
        hand.views[2] = wrong[i];
        struct ArrowArray array = hand.root;
        assert_int_equal(try_plain(&hand.schema, NULL, &array, &left_bytes, &schema, &err),
                         LAKE_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "\"c\""));
        ArrowSchemaRelease(&schema);
        ArrowSchemaRelease(&hand.schema);
    }
}

static void no_more_is_copied_than_allowed(void **state)
{
    (void)state;
    struct by_hand hand;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    uint64_t all = strlen("twelve bytes") + strlen(LONG_B) + strlen(LONG_A + 2);
    for (uint64_t less = 0; less < 2; less++) {
        uint64_t left_bytes = all - less;
        set_up(&hand, "utf8_view");
        struct ArrowArray array = hand.root;
        assert_int_equal(try_plain(&hand.schema, NULL, &array, &left_bytes, &schema, &err),
                         less == 0 ? LAKE_OK : LAKE_RESOURCE_EXHAUSTED);
        if (less == 0) {
            assert_int_equal(left_bytes, 0);
            ArrowArrayRelease(&array);
        } else {
            assert_non_null(strstr(err.message, "\"c\""));
        }
        assert_null(array.release);
        assert_int_equal(hand.released, 1);
        ArrowSchemaRelease(&schema);
        ArrowSchemaRelease(&hand.schema);
    }
}

/* A few rows that all refer to the same MiB: more than 32-bit offsets reach. */
static void views_of_more_than_2_gib_are_refused(void **state)
{
    (void)state;
    enum {
        MIB = 1 << 20,
        ROWS = 2049
    };
    struct by_hand hand;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    uint64_t left_bytes = NO_LIMIT;
    char *data = calloc(1, MIB);
    struct view *views = calloc(ROWS, sizeof(*views));
    for (int i = 0; i < ROWS; i++) {
        views[i] = far_view(MIB, 0, 0);
    }
    set_up(&hand, "binary_view");
    hand.sizes[0] = MIB;
    hand.buffers[0] = NULL;
    hand.buffers[1] = views;
    hand.buffers[2] = data;
    hand.column.null_count = hand.column.offset = 0;
    hand.column.length = hand.root.length = ROWS;
    struct ArrowArray array = hand.root;
    assert_int_equal(try_plain(&hand.schema, NULL, &array, &left_bytes, &schema, &err),
                     LAKE_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.message, "2147483647 bytes"));
    ArrowSchemaRelease(&schema);
    ArrowSchemaRelease(&hand.schema);
    free(views);
    free(data);
}

static void batches_without_rows_stay_so(void **state)
{
    (void)state;
    struct by_hand hand;
    struct ArrowSchema schema;
    set_up(&hand, "utf8_view");
    hand.column.length = hand.root.length = hand.column.null_count = 0;
    hand.buffers[0] = hand.buffers[1] = NULL;
    struct ArrowArray array = hand.root;
    plain(&hand.schema, NULL, &array, &schema);
    assert_int_equal(array.length, 0);
    assert_int_equal(array.children[0]->length, 0);
    assert_int_equal(array.children[0]->n_buffers, 3);
    assert_int_equal(((const int32_t *)array.children[0]->buffers[1])[0], 0);
    release_both(&array, &schema);
    ArrowSchemaRelease(&hand.schema);
}

/* ---- nested ---- */

/* "row 7 of the views, item 1": not inline. */
static struct ArrowStringView text_of(char memory[64], int64_t row, int item)
{
    int size = snprintf(memory, 64, "row %lld of the views, item %d", (long long)row, item);
    return (struct ArrowStringView){memory, size};
}

static void append_text(struct ArrowArray *to, int64_t row, int item)
{
    char memory[64];
    assert_int_equal(ArrowArrayAppendString(to, text_of(memory, row, item)), 0);
}

static void nested_schema(struct ArrowSchema *out)
{
    make_schema(out, "n", "int64", "list", "list<utf8_view>", "large", "large_list<utf8_view>",
                "map", "map<utf8_view, binary_view>", "both", "struct<a: int32, b: utf8_view>",
                "two", "utf8_view[2]", "deep", "list<struct<t: list<binary_view>>>", NULL);
}

/* Row r has r % 3 items in its list and map; every fourth row is null in all columns but `n`. */
static void make_nested(const struct ArrowSchema *schema, int64_t rows, struct ArrowArray *out)
{
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(out), 0);
    for (int64_t r = 0; r < rows; r++) {
        struct ArrowArray **columns = out->children;
        assert_int_equal(ArrowArrayAppendInt(columns[0], r), 0);
        for (int c = 1; c < 7 && r % 4 == 3; c++) {
            assert_int_equal(ArrowArrayAppendNull(columns[c], 1), 0);
        }
        for (int item = 0; item < r % 3 && r % 4 != 3; item++) {
            struct ArrowArray *pair = columns[3]->children[0];
            struct ArrowArray *inner = columns[6]->children[0]->children[0];
            append_text(columns[1]->children[0], r, item);
            append_text(columns[2]->children[0], r, item);
            append_text(pair->children[0], r, item);
            append_text(pair->children[1], r, item + 10);
            assert_int_equal(ArrowArrayFinishElement(pair), 0);
            append_text(inner->children[0], r, item);
            assert_int_equal(ArrowArrayFinishElement(inner), 0);
            assert_int_equal(ArrowArrayFinishElement(columns[6]->children[0]), 0);
        }
        if (r % 4 != 3) {
            assert_int_equal(ArrowArrayAppendInt(columns[4]->children[0], r), 0);
            append_text(columns[4]->children[1], r, 0);
            append_text(columns[5]->children[0], r, 0);
            append_text(columns[5]->children[0], r, 1);
            for (int c = 1; c < 7; c++) {
                assert_int_equal(ArrowArrayFinishElement(columns[c]), 0);
            }
        }
        assert_int_equal(ArrowArrayFinishElement(out), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), 0);
}

static void expect_item(const struct ArrowSchema *field, const struct ArrowArrayView *view,
                        int64_t at, int64_t row, int item)
{
    char memory[64];
    struct ArrowStringView expected = text_of(memory, row, item);
    struct ArrowBufferView bytes = ArrowArrayViewGetBytesUnsafe(view, at);
    assert_true(strcmp(field->format, "u") == 0 || strcmp(field->format, "z") == 0);
    assert_false(ArrowArrayViewIsNull(view, at));
    assert_int_equal(bytes.size_bytes, expected.size_bytes);
    assert_memory_equal(bytes.data.data, expected.data, (size_t)expected.size_bytes);
}

/* Row `at` of the array is row `r` of make_nested. */
static void expect_nested(const struct ArrowSchema *schema, const struct ArrowArrayView *view,
                          int64_t at, int64_t r)
{
    struct ArrowSchema **fields = schema->children;
    struct ArrowArrayView **columns = view->children;
    assert_int_equal(ArrowArrayViewGetIntUnsafe(columns[0], at), r);
    for (int c = 1; c < 7; c++) {
        assert_int_equal(ArrowArrayViewIsNull(columns[c], at), r % 4 == 3);
    }
    if (r % 4 == 3) {
        return;
    }
    for (int c = 1; c < 4; c++) {
        int64_t slot = at + columns[c]->offset;
        int64_t first = ArrowArrayViewListChildOffset(columns[c], slot);
        assert_int_equal(ArrowArrayViewListChildOffset(columns[c], slot + 1) - first, r % 3);
        for (int item = 0; item < r % 3; item++) {
            const struct ArrowSchema *child = fields[c]->children[0];
            const struct ArrowArrayView *items = columns[c]->children[0];
            if (c < 3) {
                expect_item(child, items, first + item, r, item);
            } else {
                expect_item(child->children[0], items->children[0], first + item, r, item);
                expect_item(child->children[1], items->children[1], first + item, r, item + 10);
            }
        }
    }
    int64_t in_struct = at + columns[4]->offset;
    expect_item(fields[4]->children[1], columns[4]->children[1], in_struct, r, 0);
    int64_t in_vector = 2 * (at + columns[5]->offset);
    expect_item(fields[5]->children[0], columns[5]->children[0], in_vector, r, 0);
    expect_item(fields[5]->children[0], columns[5]->children[0], in_vector + 1, r, 1);
    int64_t first = ArrowArrayViewListChildOffset(columns[6], at + columns[6]->offset);
    const struct ArrowArrayView *lists = columns[6]->children[0]->children[0];
    for (int item = 0; item < r % 3; item++) {
        expect_item(fields[6]->children[0]->children[0]->children[0], lists->children[0],
                    ArrowArrayViewListChildOffset(lists, first + item), r, item);
    }
}

static uint64_t bytes_of_row(int64_t r)
{
    char memory[64];
    uint64_t bytes = 0;
    if (r % 4 == 3) {
        return 0;
    }
    for (int item = 0; item < r % 3; item++) {
        bytes += 4 * (uint64_t)text_of(memory, r, item).size_bytes +
                 (uint64_t)text_of(memory, r, item + 10).size_bytes;
    }
    return bytes + 2 * (uint64_t)text_of(memory, r, 0).size_bytes +
           (uint64_t)text_of(memory, r, 1).size_bytes;
}

static void slices_of_nested_views_hold_their_rows_and_copy_no_others(void **state)
{
    (void)state;
    enum {
        ROWS = 29
    };
    static const int64_t slices[][2] = {{0, ROWS}, {0, 1}, {5, 13}, {17, 12}, {28, 1}, {9, 0}};
    struct ArrowSchema given;
    struct ArrowArray whole;
    struct arrow_batch *batch;
    struct lake_error err = {0};
    nested_schema(&given);
    make_nested(&given, ROWS, &whole);
    check(arrow_batch_new(&whole, &batch, &err), &err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(slices); i++) {
        int64_t from = slices[i][0];
        int64_t count = slices[i][1];
        struct ArrowSchema schema;
        struct ArrowArray rows;
        struct ArrowArrayView view;
        uint64_t left_bytes = NO_LIMIT;
        uint64_t expected = 0;
        check(arrow_batch_slice(batch, from, count, &rows, &err), &err);
        check(try_plain(&given, NULL, &rows, &left_bytes, &schema, &err), &err);
        assert_int_equal(rows.length, count);
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, &schema, NULL), 0);
        assert_int_equal(ArrowArrayViewSetArray(&view, &rows, NULL), 0);
        for (int64_t at = 0; at < count; at++) {
            expect_nested(&schema, &view, at, from + at);
            expected += bytes_of_row(from + at);
        }
        assert_int_equal(NO_LIMIT - left_bytes, expected);
        ArrowArrayViewReset(&view);
        release_both(&rows, &schema);
    }
    arrow_batch_unref(batch);
    ArrowSchemaRelease(&given);
}

static void columns_without_views_are_not_copied(void **state)
{
    (void)state;
    struct ArrowSchema given;
    struct ArrowSchema schema;
    struct ArrowArray array;
    nested_schema(&given);
    make_nested(&given, 9, &array);
    const void *numbers = array.children[0]->buffers[1];
    const void *offsets = array.children[1]->buffers[1];
    plain(&given, NULL, &array, &schema);
    assert_ptr_equal(array.children[0]->buffers[1], numbers);
    assert_ptr_equal(array.children[1]->buffers[1], offsets);
    release_both(&array, &schema);
    ArrowSchemaRelease(&given);
}

static void the_values_of_a_dictionary_become_plain(void **state)
{
    (void)state;
    struct ArrowSchema given;
    struct ArrowSchema like;
    struct ArrowSchema schema;
    struct ArrowArray array;
    make_schema(&given, "d", "dictionary<int8, utf8_view>", "l",
                "list<dictionary<int16, binary_view>>", NULL);
    make_schema(&like, "d", "dictionary<int8, large_utf8>", "l",
                "list<dictionary<int16, large_binary>>", NULL);
    for (int large = 0; large < 2; large++) {
        assert_int_equal(ArrowArrayInitFromSchema(&array, &given, NULL), 0);
        assert_int_equal(ArrowArrayStartAppending(&array), 0);
        struct ArrowArray *words[] = {array.children[0], array.children[1]->children[0]};
        for (int64_t r = 0; r < 5; r++) {
            assert_int_equal(ArrowArrayAppendInt(words[0], r % 2), 0);
            assert_int_equal(ArrowArrayAppendInt(words[1], r % 2), 0);
            assert_int_equal(ArrowArrayFinishElement(array.children[1]), 0);
            assert_int_equal(ArrowArrayFinishElement(&array), 0);
        }
        for (int w = 0; w < 2; w++) {
            append_text(words[w]->dictionary, w, 0);
            append_text(words[w]->dictionary, w, 1);
        }
        assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), 0);
        plain(&given, large == 0 ? NULL : &like, &array, &schema);
        const struct ArrowSchema *fields[] = {schema.children[0], schema.children[1]->children[0]};
        const struct ArrowArray *columns[] = {array.children[0], array.children[1]->children[0]};
        for (int w = 0; w < 2; w++) {
            char memory[64];
            assert_string_equal(fields[w]->dictionary->format, w == 0       ? large == 0 ? "u" : "U"
                                                               : large == 0 ? "z"
                                                                            : "Z");
            expect_text(fields[w]->dictionary, columns[w]->dictionary, 0,
                        text_of(memory, w, 0).data);
            expect_text(fields[w]->dictionary, columns[w]->dictionary, 1,
                        text_of(memory, w, 1).data);
        }
        release_both(&array, &schema);
    }
    ArrowSchemaRelease(&like);
    ArrowSchemaRelease(&given);
}

/* ---- streams ---- */

/* Batches of make_nested: 20 rows, none, 20 rows, …; and then a failure. */
struct source {
    struct ArrowSchema schema;
    int batches;
    bool released;
};

static int source_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct source *source = self->private_data;
    return ArrowSchemaDeepCopy(&source->schema, out);
}

static int source_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct source *source = self->private_data;
    if (source->batches == 0) {
        return EIO;
    }
    source->batches--;
    make_nested(&source->schema, source->batches % 2 == 0 ? 20 : 0, out);
    return 0;
}

static const char *source_error(struct ArrowArrayStream *self)
{
    (void)self;
    return "the source has failed";
}

static void source_release(struct ArrowArrayStream *self)
{
    struct source *source = self->private_data;
    ArrowSchemaRelease(&source->schema);
    source->released = true;
    self->release = NULL;
}

static struct ArrowArrayStream stream_of(struct source *source, int batches)
{
    *source = (struct source){.batches = batches};
    nested_schema(&source->schema);
    return (struct ArrowArrayStream){.get_schema = source_schema,
                                     .get_next = source_next,
                                     .get_last_error = source_error,
                                     .release = source_release,
                                     .private_data = source};
}

static void a_stream_without_views_stays_as_it_is(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct source source;
    struct ArrowArrayStream stream = stream_of(&source, 1);
    ArrowSchemaRelease(&source.schema);
    make_schema(&source.schema, "n", "int64", "l", "list<utf8>", NULL);
    check(arrow_plain_stream(&stream, NO_LIMIT, &err), &err);
    assert_ptr_equal(stream.private_data, &source);
    assert_ptr_equal(stream.get_next, source_next);
    stream.release(&stream);
}

static void a_stream_cuts_what_is_too_much_at_once(void **state)
{
    (void)state;
    struct lake_error err = {0};
    for (uint64_t limit = 500; limit <= 32000; limit *= 4) {
        struct source source;
        struct ArrowArrayStream stream = stream_of(&source, 3);
        struct ArrowSchema schema;
        struct ArrowArray rows;
        int64_t next = 0;
        int64_t given = 0;
        int batches = 0;
        check(arrow_plain_stream(&stream, limit, &err), &err);
        assert_int_equal(stream.get_schema(&stream, &schema), 0);
        assert_false(arrow_schema_has_views(&schema));
        while (stream.get_next(&stream, &rows) == 0) {
            struct ArrowArrayView view;
            assert_int_equal(ArrowArrayViewInitFromSchema(&view, &schema, NULL), 0);
            assert_int_equal(ArrowArrayViewSetArray(&view, &rows, NULL), 0);
            uint64_t bytes = 0;
            for (int64_t at = 0; at < rows.length; at++, next = (next + 1) % 20) {
                expect_nested(&schema, &view, at, next);
                bytes += bytes_of_row(next);
            }
            assert_true(bytes <= limit);
            given += rows.length;
            batches++;
            ArrowArrayViewReset(&view);
            ArrowArrayRelease(&rows);
        }
        assert_int_equal(given, 40);
        assert_true(limit >= 8000 ? batches == 3 : batches > 3);
        assert_string_equal(stream.get_last_error(&stream), "the source has failed");
        ArrowSchemaRelease(&schema);
        stream.release(&stream);
        assert_true(source.released);
    }
}

static void a_row_that_is_too_much_fails_by_name(void **state)
{
    (void)state;
    struct lake_error err = {0};
    struct source source;
    struct ArrowArrayStream stream = stream_of(&source, 1);
    struct ArrowArray rows;
    check(arrow_plain_stream(&stream, 100, &err), &err);
    assert_int_equal(stream.get_next(&stream, &rows), 0); /* row 0: three short texts */
    ArrowArrayRelease(&rows);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stream.get_next(&stream, &rows), ENOMEM);
        assert_non_null(strstr(stream.get_last_error(&stream), "fewer rows"));
    }
    stream.release(&stream);
    assert_true(source.released);
}

/* The code with which it ends: EIO is the source's. */
static int read_all(struct ArrowArrayStream *stream, int64_t *rows)
{
    struct ArrowArray batch;
    struct lake_error err = {0};
    lake_status status = arrow_plain_stream(stream, 1 << 11, &err);
    int code = status == LAKE_OK ? 0 : arrow_errno_of(status);
    while (code == 0 && (code = stream->get_next(stream, &batch)) == 0) {
        *rows += batch.length;
        ArrowArrayRelease(&batch);
    }
    stream->release(stream);
    return code;
}

static void without_memory_nothing_is_left(void **state)
{
    (void)state;
    struct lake_error err = {0};
    uint64_t nth = 0;
    int failures = 0;
    for (nth = 1; nth <= 300; nth++) {
        struct source source;
        struct ArrowArrayStream stream = stream_of(&source, 3);
        int64_t rows = 0;
        base_fault_fail_nth_alloc(nth);
        int code = read_all(&stream, &rows);
        base_fault_fail_nth_alloc(0);
        assert_true(source.released);
        assert_true(code == ENOMEM || (code == EIO && rows == 40)); /* fewer rows may need less */
        failures += code == ENOMEM;
    }
    assert_in_range(failures, 3, 299);
    /* One array at a time, of which none may be left either. */
    lake_status status = LAKE_RESOURCE_EXHAUSTED;
    for (nth = 1; status != LAKE_OK; nth++) {
        struct by_hand hand;
        struct ArrowSchema schema;
        uint64_t left_bytes = NO_LIMIT;
        set_up(&hand, "utf8_view");
        struct ArrowArray array = hand.root;
        check(arrow_plain_schema(&hand.schema, NULL, &schema, &err), &err);
        base_fault_fail_nth_alloc(nth);
        status = arrow_plain_array(&hand.schema, &schema, &array, &left_bytes, &err);
        base_fault_fail_nth_alloc(0);
        if (status == LAKE_OK) {
            expect_text(schema.children[0], array.children[0], 1, LONG_B);
            ArrowArrayRelease(&array);
        } else {
            assert_int_equal(status, LAKE_RESOURCE_EXHAUSTED);
        }
        assert_null(array.release);
        assert_int_equal(hand.released, 1);
        ArrowSchemaRelease(&schema);
        ArrowSchemaRelease(&hand.schema);
    }
    assert_true(nth > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_become_what_they_refer_to),
        cmocka_unit_test(views_that_point_elsewhere_are_refused),
        cmocka_unit_test(no_more_is_copied_than_allowed),
        cmocka_unit_test(views_of_more_than_2_gib_are_refused),
        cmocka_unit_test(batches_without_rows_stay_so),
        cmocka_unit_test(slices_of_nested_views_hold_their_rows_and_copy_no_others),
        cmocka_unit_test(columns_without_views_are_not_copied),
        cmocka_unit_test(the_values_of_a_dictionary_become_plain),
        cmocka_unit_test(a_stream_without_views_stays_as_it_is),
        cmocka_unit_test(a_stream_cuts_what_is_too_much_at_once),
        cmocka_unit_test(a_row_that_is_too_much_fails_by_name),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
