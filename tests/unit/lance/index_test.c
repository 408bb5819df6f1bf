/* Indices: sets of rows, bounds and bitmaps against plain loops; a BTree that a scan asks. */
#include "table_dataset.h"

#include "index.h"

#include <math.h>

/* ---- sets of rows ---- */

#define ROWS 2000u

static void add_random(struct lance_row_set *set, bool *rows, uint64_t *seed)
{
    lance_row_set_init(set, UINT64_MAX);
    memset(rows, 0, ROWS);
    for (int i = 0; i < 60; i++) {
        uint64_t start = random_next(seed) % ROWS;
        uint64_t most = random_next(seed) % 20;
        uint64_t count = BASE_MIN(most, ROWS - start);
        assert_int_equal(lance_row_set_add(set, start, count, NULL), LAKE_OK);
        memset(rows + start, 1, (size_t)count);
    }
    lance_row_set_sort(set);
}

static void assert_set(const struct lance_row_set *set, const bool *rows)
{
    uint64_t row = 0, count = 0;
    for (size_t i = 0; i < set->count; i++) {
        for (; row < set->runs[i].start; row++)
            assert_false(rows[row]);
        for (; row < set->runs[i].start + set->runs[i].count; row++, count++)
            assert_true(rows[row]);
        assert_true(row == ROWS || !rows[row]); /* runs are apart */
    }
    for (; row < ROWS; row++)
        assert_false(rows[row]);
    assert_int_equal(count, set->row_count);
}

static void sets_hold_the_rows_that_were_added_and_that_both_have(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (int round = 0; round < 200; round++) {
        bool left_rows[ROWS], right_rows[ROWS];
        struct lance_row_set left, right, both;
        add_random(&left, left_rows, &seed);
        add_random(&right, right_rows, &seed);
        assert_set(&left, left_rows);
        uint64_t row = random_next(&seed) % ROWS;
        size_t from = lance_runs_from(left.runs, left.count, row);
        assert_true(from == left.count || left.runs[from].start + left.runs[from].count > row);
        assert_true(from == 0 || left.runs[from - 1].start + left.runs[from - 1].count <= row);
        lance_row_set_init(&both, UINT64_MAX);
        assert_int_equal(
            lance_runs_intersect(left.runs, left.count, right.runs, right.count, &both, NULL),
            LAKE_OK);
        for (size_t i = 0; i < ROWS; i++)
            left_rows[i] = left_rows[i] && right_rows[i];
        assert_set(&both, left_rows);
        lance_row_set_fini(&left);
        lance_row_set_fini(&right);
        lance_row_set_fini(&both);
    }
}

static void a_set_that_grows_too_large_says_so(void **state)
{
    struct lance_row_set set;
    (void)state;
    lance_row_set_init(&set, 10);
    assert_int_equal(lance_row_set_add(&set, 5, 10, NULL), LAKE_OK);
    assert_false(set.too_many);
    assert_int_equal(lance_row_set_add(&set, 100, 1, NULL), LAKE_OK);
    assert_true(set.too_many);
    assert_int_equal(set.count, 0);
    assert_int_equal(lance_row_set_add(&set, 5, 1, NULL), LAKE_OK);
    assert_int_equal(set.count, 0);
    lance_row_set_fini(&set);
    lance_row_set_init(&set, UINT64_MAX);
    assert_int_equal(lance_row_set_add(&set, UINT64_MAX, 2, NULL), LAKE_DATA_LOSS);
    lance_row_set_fini(&set);
}

/* ---- bounds ---- */

#define VALUES     120
#define TEXT_BYTES 16

/* Nulls first, then ascending; doubles end with NaN. */
static void sorted_values(const char *format, struct ArrowSchema *type, struct ArrowArray *out)
{
    ArrowSchemaInit(type);
    assert_int_equal(ArrowSchemaSetFormat(type, format), NANOARROW_OK);
    assert_int_equal(ArrowArrayInitFromSchema(out, type, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendNull(out, 15), NANOARROW_OK);
    for (int i = 15; i < VALUES; i++) {
        char text[TEXT_BYTES];
        int code;
        (void)snprintf(text, sizeof(text), "k%03d", i / 3);
        if (format[0] == 'u')
            code = ArrowArrayAppendString(out, ArrowCharView(text));
        else if (format[0] == 'g')
            code = ArrowArrayAppendDouble(out, i < 20    ? -INFINITY
                                               : i < 110 ? (double)(i - 60) / 3 - 0.0
                                                         : (double)NAN);
        else
            code = ArrowArrayAppendInt(out, i / 3 - 20);
        assert_int_equal(code, NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
}

static struct lance_value value_for(const char *format, int number, char text[TEXT_BYTES])
{
    (void)snprintf(text, TEXT_BYTES, "k%03d%s", number, number % 2 == 0 ? "" : "a");
    if (format[0] == 'u')
        return (struct lance_value){.kind = LANCE_VALUE_BYTES,
                                    .bytes = {(const uint8_t *)text, strlen(text)}};
    if (format[0] == 'g')
        return (struct lance_value){.kind = LANCE_VALUE_DOUBLE,
                                    .f64 = number == 41 ? (double)NAN : (double)(number - 20) / 3};
    return (struct lance_value){.kind = LANCE_VALUE_INT64, .i64 = number - 20};
}

/* Asks every page of the values; returns how many were ruled out. */
static size_t ask_pages(const struct lance_predicate *predicate, const struct ArrowArray *values,
                        const uint8_t *keep)
{
    size_t ruled_out = 0;
    for (uint64_t start = 0; start < VALUES; start += 5) {
        for (uint64_t end = start + 1; end <= VALUES; end += 7) {
            struct ArrowArray low = *values, high = *values;
            low.offset = (int64_t)start;
            high.offset = (int64_t)end - 1;
            const struct lance_bounds bounds = {.low = &low,
                                                .high = &high,
                                                .null_count =
                                                    BASE_MIN(end, 15) - BASE_MIN(start, 15),
                                                .row_count = end - start};
            bool may_pass = lance_predicate_may_pass_bounds(predicate, &bounds);
            bool passes = memchr(keep + start, 1, (size_t)(end - start)) != NULL;
            assert_true(may_pass || !passes);
            ruled_out += !may_pass;
        }
    }
    return ruled_out;
}

static void bounds_never_rule_out_a_value_that_passes(void **state)
{
    static const char *const formats[] = {"l", "i", "c", "g", "u", "tsu:", "tdD"};
    struct fixture *f = *state;
    for (size_t t = 0; t < BASE_ARRAY_LEN(formats); t++) {
        struct ArrowSchema type;
        struct ArrowArray values;
        size_t ruled_out[LANCE_IS_NOT_NULL + 1] = {0};
        sorted_values(formats[t], &type, &values);
        for (int number = 0; number < 44; number++) {
            for (int op = LANCE_EQ; op <= LANCE_IS_NOT_NULL; op++) {
                char texts[2][TEXT_BYTES];
                uint8_t keep[VALUES];
                struct lance_predicate *predicate = NULL;
                const struct lance_value wanted[] = {value_for(formats[t], number, texts[0]),
                                                     value_for(formats[t], number + 9, texts[1])};
                const struct lance_filter filter = {.op = (enum lance_filter_op)op,
                                                    .values = wanted,
                                                    .value_count = op == LANCE_IN ? 2 : 1};
                OK(lance_predicate_new(&filter, &type, &predicate, &f->err));
                memset(keep, 1, sizeof(keep));
                OK(lance_predicate_apply(predicate, &values, keep, &f->err));
                ruled_out[op] += ask_pages(predicate, &values, keep);
                lance_predicate_free(predicate);
            }
        }
        for (int op = LANCE_EQ; op <= LANCE_IS_NOT_NULL; op++)
            assert_true(ruled_out[op] > 0);
        ArrowArrayRelease(&values);
        ArrowSchemaRelease(&type);
    }
}

/* ---- bitmaps ---- */

static void a_bitmap_says_which_rows_of_which_fragments(void **state)
{
    struct fixture *f = *state;
    struct base_buffer bytes, roaring;
    struct lance_row_set set;
    bool rows[ROWS];
    uint64_t words[(ROWS + 63) / 64] = {0}, seed = 8;
    base_buffer_init(&bytes, 1 << 20);
    base_buffer_init(&roaring, 1 << 20);
    add_random(&set, rows, &seed);
    lance_row_set_fini(&set);
    for (size_t i = 0; i < ROWS; i++)
        words[i / 64] |= (uint64_t)rows[i] << (i % 64);
    OK(lance_roaring_encode(words, ROWS, &roaring, &f->err));
    const uint32_t header[] = {1, 7, (uint32_t)roaring.size};
    OK(base_buffer_append(&bytes, header, sizeof(header), &f->err));
    OK(base_buffer_append(&bytes, roaring.data, roaring.size, &f->err));
    lance_row_set_init(&set, UINT64_MAX);
    OK(lance_index_bitmap_parse(base_buffer_view(&bytes), &set, &f->err));
    for (size_t i = 0; i < set.count; i++) {
        assert_int_equal(set.runs[i].start >> 32, 7);
        set.runs[i].start &= UINT32_MAX;
    }
    assert_set(&set, rows);
    lance_row_set_fini(&set);
    for (size_t size = 0; size < bytes.size; size++) {
        lance_row_set_init(&set, UINT64_MAX);
        assert_int_equal(
            lance_index_bitmap_parse((struct lake_bytes){bytes.data, size}, &set, NULL),
            LAKE_DATA_LOSS);
        lance_row_set_fini(&set);
    }
    base_buffer_fini(&bytes);
    base_buffer_fini(&roaring);
}

/* ---- a BTree, made here ---- */

#define TABLE_ROWS 6000
#define PAGE_ROWS  500
#define INDEX_PATH "_indices/00000000-0000-0000-0000-000000000000/"

static int64_t value_at(uint64_t row)
{
    return (int64_t)(row * 7919 % TABLE_ROWS); /* a permutation */
}

static uint64_t row_of(int64_t value)
{
    for (uint64_t row = 0; row < TABLE_ROWS; row++)
        if (value_at(row) == value)
            return row;
    return UINT64_MAX;
}

struct index_column {
    const char *name;
    enum ArrowType type;
    int64_t (*at)(uint64_t row);
};

static int64_t same(uint64_t row)
{
    return (int64_t)row;
}
static int64_t id_of(uint64_t row)
{
    return (int64_t)row_of((int64_t)row);
}
static int64_t page_low(uint64_t page)
{
    return (int64_t)(page * PAGE_ROWS);
}
static int64_t page_high(uint64_t page)
{
    return (int64_t)(page * PAGE_ROWS + PAGE_ROWS - 1);
}
static int64_t no_nulls(uint64_t page)
{
    (void)page;
    return 0;
}

static void make_batch(const struct index_column *columns, size_t count, uint64_t rows,
                       struct ArrowSchema *schema, struct ArrowArray *batch)
{
    struct ArrowBuffer metadata;
    ArrowSchemaInit(schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(schema, (int64_t)count), NANOARROW_OK);
    assert_int_equal(ArrowMetadataBuilderInit(&metadata, NULL), NANOARROW_OK);
    assert_int_equal(
        ArrowMetadataBuilderAppend(&metadata, ArrowCharView("batch_size"), ArrowCharView("500")),
        NANOARROW_OK);
    assert_int_equal(ArrowSchemaSetMetadata(schema, (const char *)metadata.data), NANOARROW_OK);
    ArrowBufferReset(&metadata);
    for (size_t c = 0; c < count; c++) {
        assert_int_equal(ArrowSchemaSetType(schema->children[c], columns[c].type), NANOARROW_OK);
        assert_int_equal(ArrowSchemaSetName(schema->children[c], columns[c].name), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayInitFromSchema(batch, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(batch), NANOARROW_OK);
    for (uint64_t row = 0; row < rows; row++) {
        for (size_t c = 0; c < count; c++)
            assert_int_equal(ArrowArrayAppendInt(batch->children[c], columns[c].at(row)),
                             NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), NANOARROW_OK);
}

static void write_index_file(struct fixture *f, const char *key, const struct index_column *columns,
                             size_t count, uint64_t rows)
{
    const struct lance_file_options options = {.minor = 2, .profile = LANCE_PROFILE_FAST};
    struct ArrowSchema arrow;
    struct ArrowArray batch;
    struct lance_schema schema;
    struct lance_file_writer *writer = NULL;
    struct lance_file_result result;
    make_batch(columns, count, rows, &arrow, &batch);
    OK(lance_schema_from_arrow(&arrow, "2.2", &schema, &f->err));
    OK(lance_file_writer_new(f->store, base_str_of(key), &schema, &options, &writer, &f->err));
    OK(lance_file_writer_write(writer, &batch, &f->err));
    OK(lance_file_writer_finish(writer, &result, &f->err));
    lance_file_result_fini(&result);
    lance_schema_fini(&schema);
    ArrowArrayRelease(&batch);
    ArrowSchemaRelease(&arrow);
}

/* The table and the files of its index. */
static void make_indexed(struct fixture *f)
{
    static const struct index_column column = {"c0", NANOARROW_TYPE_INT64, value_at};
    static const struct index_column pages[] = {{"values", NANOARROW_TYPE_INT64, same},
                                                {"ids", NANOARROW_TYPE_UINT64, id_of}};
    static const struct index_column table[] = {{"min", NANOARROW_TYPE_INT64, page_low},
                                                {"max", NANOARROW_TYPE_INT64, page_high},
                                                {"null_count", NANOARROW_TYPE_UINT32, no_nulls},
                                                {"page_idx", NANOARROW_TYPE_UINT32, same}};
    struct ArrowSchema schema;
    struct ArrowArray batch;
    create_dataset(f, "int64");
    make_batch(&column, 1, TABLE_ROWS, &schema, &batch);
    (void)append_batch(f, &batch, NULL);
    ArrowArrayRelease(&batch);
    ArrowSchemaRelease(&schema);
    write_index_file(f, INDEX_PATH "page_data.lance", pages, 2, TABLE_ROWS);
    write_index_file(f, INDEX_PATH "page_lookup.lance", table, 4, TABLE_ROWS / PAGE_ROWS);
}

/* What a manifest would say of it. */
static size_t index_section(const char *details, int32_t version, uint8_t out[256])
{
    static uint8_t uuid_bytes[16];
    static uint8_t first_fragment[] = {0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0};
    int32_t fields[] = {0};
    LancePb__IndexSection section;
    LancePb__IndexMetadata index;
    LancePb__IndexMetadata *indices[] = {&index};
    LancePb__Uuid uuid;
    LancePb__Any any;
    lance_pb__index_section__init(&section);
    lance_pb__index_metadata__init(&index);
    lance_pb__uuid__init(&uuid);
    lance_pb__any__init(&any);
    uuid.has_bytes = true;
    uuid.bytes = (ProtobufCBinaryData){.len = sizeof(uuid_bytes), .data = uuid_bytes};
    any.has_type_url = true;
    any.type_url = lance_pb_text(details);
    index.uuid = &uuid;
    index.fields = fields;
    index.n_fields = 1;
    index.has_name = index.has_fragment_bitmap = index.has_index_version = true;
    index.name = lance_pb_text("c0_idx");
    index.fragment_bitmap =
        (ProtobufCBinaryData){.len = sizeof(first_fragment), .data = first_fragment};
    index.index_details = &any;
    index.index_version = version;
    section.indices = indices;
    section.n_indices = 1;
    assert_true(lance_pb__index_section__get_packed_size(&section) <= 256);
    return lance_pb__index_section__pack(&section, out);
}

/* The sum of the rows' values that pass, or of none when a status is not OK. */
static lake_status sum_rows(struct fixture *f, const struct lake_bytes section,
                            const struct lance_filter *filter, int64_t *sum,
                            struct lance_scan_stats *stats, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lance_task *task = NULL;
    uint32_t columns[1];
    bool end = false;
    *sum = 0;
    lake_status status = lance_dataset_open(f->store, NULL, NULL, 0, &dataset, err);
    if (status == LAKE_OK) {
        dataset->manifest->index_section = section;
        all_columns(dataset, columns, &options);
        options.filters = filter;
        options.filter_count = 1;
        status = lance_scan_new(dataset, &options, &scan, err);
    }
    if (status == LAKE_OK)
        status = lance_scan_next_task(scan, &task, err);
    while (status == LAKE_OK && task != NULL && !end) {
        struct ArrowArray batch = {.release = NULL};
        status = lance_task_next(task, &batch, &end, err);
        for (int64_t i = 0; status == LAKE_OK && !end && i < batch.length; i++)
            *sum += ((const int64_t *)batch.children[0]->buffers[1])[batch.children[0]->offset + i];
        if (batch.release != NULL)
            ArrowArrayRelease(&batch);
    }
    lance_task_free(task);
    if (status == LAKE_OK)
        lance_scan_get_stats(scan, stats);
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
    return status;
}

#define BTREE "/lance.table.BTreeIndexDetails"

static void a_scan_looks_at_the_rows_that_a_btree_names(void **state)
{
    struct fixture *f = *state;
    static const struct lance_value few[] = {{.i64 = 17}, {.i64 = 4444}, {.i64 = 5999}};
    static const struct lance_value one = {.i64 = 499}, high = {.i64 = 5900};
    const struct {
        struct lance_filter filter;
        int64_t sum;
        uint64_t rows;
    } cases[] = {{{0, LANCE_EQ, &one, 1}, 499, 1},
                 {{0, LANCE_IN, few, 3}, 17 + 4444 + 5999, 3},
                 {{0, LANCE_GT, &high, 1}, (5901 + 5999) * 99 / 2, 99},
                 {{0, LANCE_IS_NULL, NULL, 0}, 0, 0}};
    struct lance_scan_stats stats;
    uint8_t bytes[256];
    int64_t sum;
    make_indexed(f);
    struct lake_bytes section = {bytes, index_section(BTREE, 0, bytes)};
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        OK(sum_rows(f, section, &cases[i].filter, &sum, &stats, &f->err));
        assert_int_equal(sum, cases[i].sum);
        assert_int_equal(stats.rows_scanned, cases[i].rows);
        assert_int_equal(stats.indices_used, 1);
    }
}

static void another_kind_or_version_is_passed_by(void **state)
{
    struct fixture *f = *state;
    static const struct lance_value value = {.i64 = 499};
    const struct lance_filter filter = {0, LANCE_EQ, &value, 1};
    struct lance_scan_stats stats;
    uint8_t bytes[256];
    int64_t sum;
    make_indexed(f);
    const struct lake_bytes sections[] = {
        {bytes, index_section("/lance.table.HashIndexDetails", 0, bytes)}, {bytes, 7}, /* cut */
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(sections); i++) {
        OK(sum_rows(f, sections[i], &filter, &sum, &stats, &f->err));
        assert_int_equal(sum, 499);
        assert_int_equal(stats.indices_used, 0);
    }
    struct lake_bytes later = {bytes, index_section(BTREE, 2, bytes)};
    OK(sum_rows(f, later, &filter, &sum, &stats, &f->err));
    assert_int_equal(sum, 499);
    assert_int_equal(stats.indices_used, 0);
}

static void every_failing_allocation_is_an_error_or_a_scan_without_the_index(void **state)
{
    struct fixture *f = *state;
    static const struct lance_value values[] = {{.i64 = 17}, {.i64 = 4444}};
    const struct lance_filter filter = {0, LANCE_IN, values, 2};
    struct lance_scan_stats stats = {0};
    uint8_t bytes[256];
    int64_t sum = 0;
    size_t without = 0;
    make_indexed(f);
    struct lake_bytes section = {bytes, index_section(BTREE, 0, bytes)};
    base_log_set_level(BASE_LOG_ERROR);
    for (uint64_t nth = 1;; nth++) {
        base_fault_fail_nth_alloc(nth);
        lake_status status = sum_rows(f, section, &filter, &sum, &stats, NULL);
        bool failed = base_fault_alloc_count() >= nth;
        base_fault_fail_nth_alloc(0);
        assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
        assert_true(status != LAKE_OK || sum == 17 + 4444);
        without += status == LAKE_OK && stats.indices_used == 0;
        if (!failed)
            break;
        assert_true(nth < 100000);
    }
    assert_true(without > 0);
    assert_int_equal(stats.indices_used, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_hold_the_rows_that_were_added_and_that_both_have),
        cmocka_unit_test(a_set_that_grows_too_large_says_so),
        TEST(bounds_never_rule_out_a_value_that_passes),
        TEST(a_bitmap_says_which_rows_of_which_fragments),
        TEST(a_scan_looks_at_the_rows_that_a_btree_names),
        TEST(another_kind_or_version_is_passed_by),
        TEST(every_failing_allocation_is_an_error_or_a_scan_without_the_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
