/* The encoder: what is borrowed, what is measured, which dictionaries travel. */
#include "arrow_testing.h"

static struct arrow_batch *finish(struct ArrowArray *array)
{
    struct arrow_batch *batch;
    struct lake_error err = {0};
    struct ArrowError detail = {{0}};
    if (ArrowArrayFinishBuildingDefault(array, &detail) != 0) {
        fail_msg("%s", detail.message);
    }
    check(arrow_batch_new(array, &batch, &err), &err);
    return batch;
}

static void start(struct ArrowArray *array, const struct ArrowSchema *schema)
{
    assert_int_equal(ArrowArrayInitFromSchema(array, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(array), 0);
}

static void free_messages(struct arrow_ipc_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        arrow_ipc_message_fini(&messages[i]);
    }
    base_free(messages);
}

static struct arrow_batch *numbers_and_text(const struct ArrowSchema *schema, int64_t rows)
{
    struct ArrowArray array;
    start(&array, schema);
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(ArrowArrayAppendInt(array.children[0], i), 0);
        if (i % 3 == 1) {
            assert_int_equal(ArrowArrayAppendNull(array.children[1], 1), 0);
        } else {
            assert_int_equal(ArrowArrayAppendString(array.children[1], ArrowCharView("abcdefg")),
                             0);
        }
        assert_int_equal(ArrowArrayFinishElement(&array), 0);
    }
    return finish(&array);
}

static bool has_part(const struct arrow_ipc_message *message, const void *data)
{
    for (size_t i = 0; i < message->part_count; i++) {
        if (message->parts[i].data == data) {
            return true;
        }
    }
    return false;
}

static void whole_buffers_and_byte_aligned_slices_are_borrowed(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct arrow_ipc_encoder *encoder;
    struct arrow_ipc_message *messages;
    size_t count;
    make_schema(&schema, "n", "int64", "text", "utf8", NULL);
    struct arrow_batch *batch = numbers_and_text(&schema, 100);
    const struct ArrowArray *array = arrow_batch_array(batch);
    check(arrow_ipc_encoder_new(&schema, &encoder, &err), &err);
    check(arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_true(has_part(&messages[0], array->children[0]->buffers[1]));
    for (int i = 0; i < 3; i++) {
        assert_true(has_part(&messages[0], array->children[1]->buffers[i]));
    }
    free_messages(messages, count);

    struct ArrowArray slice;
    struct arrow_batch *sliced;
    check(arrow_batch_slice(batch, 16, 50, &slice, &err), &err);
    check(arrow_batch_new(&slice, &sliced, &err), &err);
    check(arrow_ipc_encode_batch(encoder, sliced, &messages, &count, &err), &err);
    assert_true(has_part(&messages[0], (const int64_t *)array->children[0]->buffers[1] + 16));
    assert_true(has_part(&messages[0], (const uint8_t *)array->children[1]->buffers[0] + 2));
    int32_t first = ((const int32_t *)array->children[1]->buffers[1])[16];
    assert_true(has_part(&messages[0], (const uint8_t *)array->children[1]->buffers[2] + first));
    free_messages(messages, count);
    arrow_batch_unref(sliced);
    arrow_batch_unref(batch);
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&schema);
}

static void the_measured_size_is_the_size(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct arrow_ipc_encoder *encoder;
    make_schema(&schema, "n", "int64", "text", "utf8", NULL);
    check(arrow_ipc_encoder_new(&schema, &encoder, &err), &err);
    for (int64_t rows = 0; rows < 70; rows += 23) {
        struct arrow_ipc_message *messages;
        struct base_buffer out;
        uint64_t measured;
        size_t count;
        base_buffer_init(&out, 1 << 20);
        struct arrow_batch *batch = numbers_and_text(&schema, rows);
        check(arrow_ipc_batch_bytes(encoder, batch, &measured, &err), &err);
        check(arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err), &err);
        for (size_t i = 0; i < count; i++) {
            check(arrow_ipc_message_append(&messages[i], &out, &err), &err);
        }
        assert_int_equal(measured, out.size);
        assert_int_equal(out.size % 8, 0);
        free_messages(messages, count);
        arrow_batch_unref(batch);
        base_buffer_fini(&out);
    }
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&schema);
}

static struct arrow_batch *coded(const struct ArrowSchema *schema, const char *const *words,
                                 int64_t word_count)
{
    struct ArrowArray array;
    start(&array, schema);
    struct ArrowArray *column = array.children[0];
    for (int64_t i = 0; i < word_count; i++) {
        assert_int_equal(ArrowArrayAppendString(column->dictionary, ArrowCharView(words[i])), 0);
        assert_int_equal(ArrowArrayAppendInt(column, word_count - 1 - i), 0);
        assert_int_equal(ArrowArrayFinishElement(&array), 0);
    }
    return finish(&array);
}

/* The same values in other memory are the same dictionary. */
static void a_dictionary_travels_when_it_is_new_or_has_changed(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct arrow_ipc_encoder *encoder;
    const char *const one[] = {"a", "b", "c"};
    const char *const other[] = {"a", "b", "d"};
    const char *const *words[] = {one, one, other, other, one};
    const size_t expected[] = {2, 1, 2, 1, 2};
    make_schema(&schema, "word", "dictionary<int8, utf8>", NULL);
    check(arrow_ipc_encoder_new(&schema, &encoder, &err), &err);
    for (size_t i = 0; i < BASE_ARRAY_LEN(words); i++) {
        struct arrow_ipc_message *messages;
        uint64_t measured;
        size_t count;
        struct arrow_batch *batch = coded(&schema, words[i], 3);
        check(arrow_ipc_batch_bytes(encoder, batch, &measured, &err), &err);
        check(arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err), &err);
        assert_int_equal(count, expected[i]);
        free_messages(messages, count);
        check(arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err), &err);
        assert_int_equal(count, 1); /* the very same batch again */
        free_messages(messages, count);
        arrow_batch_unref(batch);
    }
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&schema);
}

static void a_batch_that_is_not_of_the_schema_is_refused(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct ArrowSchema other;
    struct lake_error err = {0};
    struct arrow_ipc_encoder *encoder;
    struct arrow_ipc_message *messages;
    size_t count;
    make_schema(&schema, "n", "int64", "text", "utf8", NULL);
    make_schema(&other, "n", "int64", "text", "list<utf8>", NULL);
    struct arrow_batch *batch = numbers_and_text(&schema, 5);
    check(arrow_ipc_encoder_new(&other, &encoder, &err), &err);
    assert_int_equal(arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err),
                     LAKE_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "text"));
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&other);
    make_schema(&other, "n", "int64", NULL);
    check(arrow_ipc_encoder_new(&other, &encoder, &err), &err);
    assert_int_equal(arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err),
                     LAKE_INVALID_ARGUMENT);
    arrow_ipc_encoder_free(encoder);
    ArrowSchemaRelease(&other);
    arrow_batch_unref(batch);
    ArrowSchemaRelease(&schema);
}

/* What a producer may leave out: NULL buffers of size 0, an unknown null count. */
static void absent_buffers_and_unknown_null_counts_are_fine(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct arrow_ipc_encoder *encoder;
    struct arrow_ipc_message *messages;
    size_t count;
    make_schema(&schema, "n", "int64", "text", "utf8", NULL);
    struct arrow_batch *batch = numbers_and_text(&schema, 4);
    struct ArrowArray slice;
    check(arrow_batch_slice(batch, 0, 0, &slice, &err), &err);
    for (int64_t i = 0; i < 2; i++) {
        for (int64_t b = 0; b < slice.children[i]->n_buffers; b++) {
            slice.children[i]->buffers[b] = NULL;
        }
        slice.children[i]->null_count = -1;
    }
    struct arrow_batch *bare;
    check(arrow_batch_new(&slice, &bare, &err), &err);
    check(arrow_ipc_encoder_new(&schema, &encoder, &err), &err);
    check(arrow_ipc_encode_batch(encoder, bare, &messages, &count, &err), &err);
    assert_int_equal(count, 1);
    free_messages(messages, count);
    arrow_ipc_encoder_free(encoder);
    arrow_batch_unref(bare);
    arrow_batch_unref(batch);
    ArrowSchemaRelease(&schema);
}

static void a_slice_outlives_its_batch_and_its_columns_can_be_moved(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    struct lake_error err = {0};
    struct ArrowArray slice;
    struct ArrowArray column;
    make_schema(&schema, "n", "int64", "text", "utf8", NULL);
    struct arrow_batch *batch = numbers_and_text(&schema, 30);
    assert_int_equal(arrow_batch_slice(batch, 25, 6, &slice, &err), LAKE_OUT_OF_RANGE);
    check(arrow_batch_slice(batch, 25, 5, &slice, &err), &err);
    arrow_batch_unref(batch);
    assert_int_equal(slice.offset, 0);
    assert_int_equal(slice.length, 5);
    ArrowArrayMove(slice.children[0], &column);
    ArrowArrayRelease(&slice);
    assert_int_equal(((const int64_t *)column.buffers[1])[column.offset], 25);
    ArrowArrayRelease(&column);
    ArrowSchemaRelease(&schema);
}

static void a_failing_allocation_is_an_error_and_nothing_leaks(void **state)
{
    (void)state;
    struct ArrowSchema schema;
    const char *const words[] = {"a", "b", "c"};
    make_schema(&schema, "word", "dictionary<int8, utf8>", NULL);
    struct arrow_batch *batch = coded(&schema, words, 3);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        struct lake_error err = {0};
        struct arrow_ipc_encoder *encoder = NULL;
        struct arrow_ipc_message *messages = NULL;
        size_t count = 0;
        base_fault_fail_nth_alloc(n);
        lake_status status = arrow_ipc_encoder_new(&schema, &encoder, &err);
        if (status == LAKE_OK) {
            status = arrow_ipc_encode_batch(encoder, batch, &messages, &count, &err);
        }
        done = base_fault_alloc_count() < n;
        base_fault_fail_nth_alloc(0);
        assert_int_equal(status, done ? LAKE_OK : LAKE_RESOURCE_EXHAUSTED);
        free_messages(messages, count);
        arrow_ipc_encoder_free(encoder);
        assert_true(n < 1000);
    }
    arrow_batch_unref(batch);
    ArrowSchemaRelease(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_buffers_and_byte_aligned_slices_are_borrowed),
        cmocka_unit_test(the_measured_size_is_the_size),
        cmocka_unit_test(a_dictionary_travels_when_it_is_new_or_has_changed),
        cmocka_unit_test(a_batch_that_is_not_of_the_schema_is_refused),
        cmocka_unit_test(absent_buffers_and_unknown_null_counts_are_fine),
        cmocka_unit_test(a_slice_outlives_its_batch_and_its_columns_can_be_moved),
        cmocka_unit_test(a_failing_allocation_is_an_error_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
