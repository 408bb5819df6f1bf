/* labels: concurrent */
/* Scans: deletions, filters, projections, batches, failures, threads. */
#include "faulty_store.h"
#include "table_dataset.h"

/* ---- deletions (L15) ---- */

static void assert_rows_after_delete(struct fixture *f, uint32_t first, uint32_t count)
{
    struct lines expected;
    struct lines kept;
    uint64_t seed = 21;
    lines_init(&expected);
    create_dataset(f, "int32, utf8, list<int16>");
    (void)append_random_rows(f, 105, &seed, &expected);
    lines_split(&expected);
    delete_rows(f, 0, first, count);
    lines_init(&kept);
    for (size_t i = 0; i < expected.count; i++) {
        if (i < first || i >= first + count) {
            (void)base_buffer_printf(&kept.text, NULL, "%s\n", expected.items[i]);
        }
    }
    lines_split(&kept);
    struct lance_dataset *dataset = open_version(f, 0);
    static const uint32_t batch_sizes[] = {50, 1, 7, 105, 1000};
    for (size_t b = 0; b < BASE_ARRAY_LEN(batch_sizes); b++) {
        struct lance_scan_options options;
        struct lance_scan *scan = NULL;
        struct lines actual;
        uint32_t columns[64];
        all_columns(dataset, columns, &options);
        options.batch_rows = batch_sizes[b];
        lines_init(&actual);
        OK(lance_scan_new(dataset, &options, &scan, &f->err));
        OK(drain(scan, options.batch_rows, &actual, &f->err));
        lines_split(&actual);
        assert_same_lines(&actual, &kept);
        lines_fini(&actual);
        lance_scan_free(scan);
        options.column_count = 0; /* counting needs no column */
        lines_init(&actual);
        OK(lance_scan_new(dataset, &options, &scan, &f->err));
        OK(drain(scan, options.batch_rows, &actual, &f->err));
        lines_split(&actual);
        assert_int_equal(actual.count, kept.count);
        lines_fini(&actual);
        lance_scan_free(scan);
    }
    assert_int_equal(lance_dataset_row_count(dataset), 105 - count);
    lance_dataset_unref(dataset);
    assert_rows(f, 2, &expected); /* the version before still has them */
    lines_fini(&kept);
    lines_fini(&expected);
}

static void case_L15_a_last_batch_that_is_all_deleted_is_skipped(void **state)
{
    assert_rows_after_delete(*state, 100, 5);
}

static void case_L15_the_last_row_deleted(void **state)
{
    assert_rows_after_delete(*state, 104, 1);
}

static void case_L15_the_first_batch_deleted(void **state)
{
    assert_rows_after_delete(*state, 0, 50);
}

static void case_L15_rows_across_batches_deleted(void **state)
{
    assert_rows_after_delete(*state, 30, 60);
}

static void case_L15_every_row_deleted(void **state)
{
    assert_rows_after_delete(*state, 0, 105);
}

/* ---- filters and projections against a plain loop ---- */

struct scan_case {
    struct lance_filter filter;
    struct lance_value value;
};

/* Whether the first column of a rendered row ("{c0:17,…") passes. */
static bool first_column_passes(const char *row, const struct scan_case *scan_case)
{
    bool is_null = strncmp(row, "{c0:null", 8) == 0;
    long number = strtol(row + 4, NULL, 10);
    switch (scan_case->filter.op) {
    case LANCE_IS_NULL:
        return is_null;
    case LANCE_LT:
        return !is_null && number < scan_case->value.i64;
    default:
        return !is_null && number == scan_case->value.i64;
    }
}

static void assert_filtered(struct fixture *f, struct lance_dataset *dataset, struct lines *rows,
                            const struct scan_case *scan_case, uint32_t batch_rows,
                            size_t task_rows)
{
    static const uint32_t columns[] = {2, 0, 1};
    static const uint32_t without_filter_column[] = {1};
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lines actual;
    struct lines other;
    lance_scan_options_init(&options);
    options.columns = columns;
    options.column_count = 3;
    options.filters = &scan_case->filter;
    options.filter_count = 1;
    options.batch_rows = batch_rows;
    options.task_rows = task_rows;
    lines_init(&actual);
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    assert_true(lance_scan_filter_applied(scan, 0));
    OK(drain(scan, batch_rows, &actual, &f->err));
    lines_split(&actual);
    lance_scan_free(scan);
    size_t at = 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (first_column_passes(rows->items[i], scan_case)) {
            assert_true(at < actual.count);
            /* same columns in another order: compare the part that holds c0 and c1 */
            const char *tail = strstr(rows->items[i], ",c2:");
            const char *found = strstr(actual.items[at], ",c0:");
            assert_memory_equal(found + 1, rows->items[i] + 1, (size_t)(tail - rows->items[i]) - 1);
            at++;
        }
    }
    assert_int_equal(at, actual.count);
    options.columns = without_filter_column;
    options.column_count = 1;
    lines_init(&other);
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    OK(drain(scan, batch_rows, &other, &f->err));
    lines_split(&other);
    assert_int_equal(other.count, actual.count);
    for (size_t i = 0; i < other.count; i++) { /* "{c1:'x'}" is in "{c2:…,c0:…,c1:'x'}" */
        assert_non_null(strstr(actual.items[i], other.items[i] + 1));
    }
    lance_scan_free(scan);
    lines_fini(&other);
    lines_fini(&actual);
}

static void filtered_and_projected_rows_agree_with_a_plain_loop(void **state)
{
    struct fixture *f = *state;
    struct lines rows;
    uint64_t seed = 77;
    create_dataset(f, "int32, utf8, struct<a: int64, b: list<utf8>>");
    for (int i = 0; i < 3; i++) {
        (void)append_random_rows(f, 400, &seed, NULL);
    }
    delete_rows(f, 1, 60, 200);
    read_rows(f, 0, &rows);
    assert_int_equal(rows.count, 1000);
    struct lance_dataset *dataset = open_version(f, 0);
    struct scan_case cases[] = {
        {{.op = LANCE_LT}, {.kind = LANCE_VALUE_INT64, .i64 = 30}},
        {{.op = LANCE_LT}, {.kind = LANCE_VALUE_INT64, .i64 = 1000}},
        {{.op = LANCE_LT}, {.kind = LANCE_VALUE_INT64, .i64 = -1}},
        {{.op = LANCE_EQ}, {.kind = LANCE_VALUE_INT64, .i64 = 7}},
        {{.op = LANCE_IS_NULL}, {.kind = LANCE_VALUE_INT64}},
    };
    for (size_t c = 0; c < BASE_ARRAY_LEN(cases); c++) {
        cases[c].filter.values = &cases[c].value;
        cases[c].filter.value_count = cases[c].filter.op == LANCE_IS_NULL ? 0 : 1;
        assert_filtered(f, dataset, &rows, &cases[c], 64, 100);
        assert_filtered(f, dataset, &rows, &cases[c], 1000, 131072);
        assert_filtered(f, dataset, &rows, &cases[c], 1, 7);
    }
    lance_dataset_unref(dataset);
    lines_fini(&rows);
}

static void a_filter_that_is_not_exact_is_reported_and_not_applied(void **state)
{
    struct fixture *f = *state;
    struct lance_value value = {.kind = LANCE_VALUE_DOUBLE, .f64 = 0.5};
    struct lance_filter filters[] = {
        {.column = 0, .op = LANCE_LT, .values = &value, .value_count = 1},
        {.column = 0, .op = LANCE_IS_NOT_NULL}};
    uint64_t seed = 5;
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lines rows;
    uint32_t columns[64];
    create_dataset(f, "int32!");
    (void)append_random_rows(f, 100, &seed, NULL);
    struct lance_dataset *dataset = open_version(f, 0);
    all_columns(dataset, columns, &options);
    options.filters = filters;
    options.filter_count = 2;
    lines_init(&rows);
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    assert_false(lance_scan_filter_applied(scan, 0));
    assert_true(lance_scan_filter_applied(scan, 1));
    OK(drain(scan, options.batch_rows, &rows, &f->err));
    lines_split(&rows);
    assert_int_equal(rows.count, 100);
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
    lines_fini(&rows);
}

static void columns_that_are_not_there_are_refused(void **state)
{
    struct fixture *f = *state;
    static const uint32_t outside[] = {1};
    static const uint32_t twice[] = {0, 0};
    struct lance_filter filter = {.column = 9, .op = LANCE_IS_NULL};
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    create_dataset(f, "int32");
    struct lance_dataset *dataset = open_version(f, 0);
    lance_scan_options_init(&options);
    options.columns = outside;
    options.column_count = 1;
    assert_int_equal(lance_scan_new(dataset, &options, &scan, &f->err), LAKE_INVALID_ARGUMENT);
    options.columns = twice;
    options.column_count = 2;
    assert_int_equal(lance_scan_new(dataset, &options, &scan, &f->err), LAKE_INVALID_ARGUMENT);
    options.column_count = 0;
    options.filters = &filter;
    options.filter_count = 1;
    assert_int_equal(lance_scan_new(dataset, &options, &scan, &f->err), LAKE_INVALID_ARGUMENT);
    lance_dataset_unref(dataset);
}

/* ---- L17 ---- */

struct forgotten_column {
    LancePb__DataFragment fragment;
    LancePb__DataFragment *fragments[8];
    LancePb__DataFile file;
    LancePb__DataFile *files[1];
    int32_t fields[16];
};

/* As if the struct column had been added after the first fragment was written. */
static void forget_struct_in_first_fragment(LancePb__Manifest *pb, void *context)
{
    struct forgotten_column *forgotten = context;
    memcpy(forgotten->fragments, pb->fragments, pb->n_fragments * sizeof(*pb->fragments));
    forgotten->fragment = *pb->fragments[0];
    forgotten->file = *forgotten->fragment.files[0];
    for (size_t i = 0; i < forgotten->file.n_fields; i++) {
        int32_t id = forgotten->file.fields[i];
        forgotten->fields[i] = id == 0 ? 0 : -2;
    }
    forgotten->file.fields = forgotten->fields;
    forgotten->files[0] = &forgotten->file;
    forgotten->fragment.files = forgotten->files;
    forgotten->fragments[0] = &forgotten->fragment;
    pb->fragments = forgotten->fragments;
}

static size_t count_where(struct fixture *f, uint32_t column, enum lance_filter_op op,
                          struct lines *out)
{
    struct lance_dataset *dataset = open_version(f, 0);
    struct lance_filter filter = {.column = column, .op = op};
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    uint32_t columns[64];
    all_columns(dataset, columns, &options);
    options.filters = &filter;
    options.filter_count = 1;
    lines_init(out);
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    OK(drain(scan, options.batch_rows, out, &f->err));
    lines_split(out);
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
    return out->count;
}

static void case_L17_a_null_struct_stays_null_under_a_filter(void **state)
{
    struct fixture *f = *state;
    struct forgotten_column forgotten;
    struct lines rows;
    struct lines nulls;
    struct lines others;
    uint64_t seed = 9;
    create_dataset(f, "int32!, struct<a: int64, b: utf8>");
    (void)append_random_rows(f, 50, &seed, NULL);
    (void)append_random_rows(f, 200, &seed, NULL);
    publish_changed(f, forget_struct_in_first_fragment, &forgotten, (struct lake_bytes){NULL, 0});
    read_rows(f, 0, &rows);
    assert_int_equal(rows.count, 250);
    size_t expected_nulls = 0;
    size_t structs_of_nulls = 0;
    for (size_t i = 0; i < rows.count; i++) {
        bool is_null = strstr(rows.items[i], "c1:null") != NULL;
        assert_true(is_null || i >= 50);
        expected_nulls += is_null;
        structs_of_nulls += strstr(rows.items[i], "c1:{a:null,b:null}") != NULL;
    }
    assert_true(structs_of_nulls > 0 && expected_nulls > 50); /* both kinds are there */
    assert_int_equal(count_where(f, 1, LANCE_IS_NULL, &nulls), expected_nulls);
    assert_int_equal(count_where(f, 1, LANCE_IS_NOT_NULL, &others), 250 - expected_nulls);
    for (size_t i = 0; i < nulls.count; i++) {
        assert_non_null(strstr(nulls.items[i], "c1:null"));
    }
    size_t kept = 0;
    for (size_t i = 0; i < others.count; i++) {
        assert_null(strstr(others.items[i], "c1:null"));
        kept += strstr(others.items[i], "c1:{a:null,b:null}") != NULL;
    }
    assert_int_equal(kept, structs_of_nulls);
    lines_fini(&others);
    lines_fini(&nulls);
    lines_fini(&rows);
}

/* ---- L19 ---- */

static void case_L19_rows_after_a_null_struct_do_not_shift(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct lines rows;
    create_dataset(f, "struct<a: int32, b: utf8, c: list<int64>>");
    schema_of("struct<a: int32, b: utf8, c: list<int64>>", &schema);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int64_t i = 1; i <= 3; i++) {
        struct ArrowArray *value = batch.children[0];
        if (i == 2) {
            assert_int_equal(ArrowArrayAppendNull(value, 1), NANOARROW_OK);
        } else {
            assert_int_equal(ArrowArrayAppendInt(value->children[0], i), NANOARROW_OK);
            assert_int_equal(ArrowArrayAppendString(value->children[1], ArrowCharView("x")),
                             NANOARROW_OK);
            assert_int_equal(ArrowArrayAppendInt(value->children[2]->children[0], i * 10),
                             NANOARROW_OK);
            assert_int_equal(ArrowArrayFinishElement(value->children[2]), NANOARROW_OK);
            assert_int_equal(ArrowArrayFinishElement(value), NANOARROW_OK);
        }
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    (void)append_batch(f, &batch, NULL);
    read_rows(f, 0, &rows);
    assert_int_equal(rows.count, 3);
    assert_string_equal(rows.items[0], "{c0:{a:1,b:'x',c:[10]}}");
    assert_string_equal(rows.items[1], "{c0:null}");
    assert_string_equal(rows.items[2], "{c0:{a:3,b:'x',c:[30]}}");
    lines_fini(&rows);
    ArrowArrayRelease(&batch);
    ArrowSchemaRelease(&schema);
}

/* ---- L20: batches are bounded by bytes ---- */

static void case_L20_batches_of_long_values_are_bounded_by_bytes(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lance_task *task = NULL;
    uint32_t columns[64];
    char *text = malloc(100000);
    create_dataset(f, "utf8");
    schema_of("utf8", &schema);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int i = 0; i < 600; i++) { /* compresses well: the encoded size says little */
        memset(text, 'a' + i % 3, 100000);
        assert_int_equal(
            ArrowArrayAppendString(batch.children[0], (struct ArrowStringView){text, 100000}),
            NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    (void)append_batch(f, &batch, NULL);
    (void)append_batch(f, &batch, NULL);
    ArrowArrayRelease(&batch);
    struct lance_dataset *dataset = open_version(f, 0);
    all_columns(dataset, columns, &options);
    options.batch_bytes = 1 << 20;
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    int64_t total = 0;
    for (size_t t = 0; t < 2; t++) {
        bool end = false;
        bool first = true;
        OK(lance_scan_next_task(scan, &task, &f->err));
        while (!end) {
            OK(lance_task_next(task, &batch, &end, &f->err));
            if (!end) {
                /* the very first batch of a scan is the probe */
                assert_true((first && t == 0) || batch.length <= 11);
                first = false;
                total += batch.length;
                ArrowArrayRelease(&batch);
            }
        }
        lance_task_free(task);
    }
    assert_int_equal(total, 1200);
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
    ArrowSchemaRelease(&schema);
    free(text);
}

/* ---- failures ---- */

static lake_status scan_through(struct storage_store *store, struct lance_cache *cache,
                                struct lines *out, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    uint32_t columns[64];
    lines_init(out);
    lake_status status = lance_dataset_open(store, cache, "table", 0, &dataset, err);
    if (status == LAKE_OK) {
        all_columns(dataset, columns, &options);
        status = lance_scan_new(dataset, &options, &scan, err);
    }
    if (status == LAKE_OK) {
        status = drain(scan, options.batch_rows, out, err);
    }
    if (status == LAKE_OK) {
        lines_split(out);
    }
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
    return status;
}

/* L14: an error while a deletion file is read is an error, not "nothing deleted"; and it is not
 * remembered. */
static void case_L14_an_unreadable_deletion_file_surfaces_and_is_not_cached(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    struct lance_cache *cache = NULL;
    struct lines rows;
    uint64_t seed = 14;
    create_dataset(f, "int32, utf8");
    (void)append_random_rows(f, 100, &seed, NULL);
    delete_rows(f, 0, 10, 20);
    OK(lance_cache_new(64 << 20, &cache, &f->err));
    faulty_store_init(&faulty, f->store);
    faulty.rules[0] = (struct faulty_rule){.ops = FAULTY_READ | FAULTY_STAT,
                                           .key = "_deletions/",
                                           .times = 1,
                                           .status = LAKE_UNAVAILABLE};
    assert_int_equal(scan_through(faulty.store, cache, &rows, &f->err), LAKE_UNAVAILABLE);
    lines_fini(&rows);
    for (int i = 0; i < 2; i++) {
        OK(scan_through(faulty.store, cache, &rows, &f->err));
        assert_int_equal(rows.count, 80);
        lines_fini(&rows);
    }
    lance_cache_free(cache);
    faulty_store_fini(&faulty);
}

static void every_failing_read_is_an_error_and_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    struct lines expected;
    uint64_t seed = 15;
    create_dataset(f, "int32, utf8, struct<a: list<int8>, b: utf8>");
    (void)append_random_rows(f, 300, &seed, NULL);
    (void)append_random_rows(f, 300, &seed, NULL);
    delete_rows(f, 0, 10, 20);
    read_rows(f, 0, &expected);
    faulty_store_init(&faulty, f->store);
    lake_status status = LAKE_UNAVAILABLE;
    uint32_t nth = 0;
    while (status != LAKE_OK) {
        struct lance_cache *cache = NULL;
        struct lines rows;
        OK(lance_cache_new(64 << 20, &cache, &f->err));
        faulty.rules[0] = (struct faulty_rule){
            .ops = FAULTY_ANY, .skip = nth++, .times = 1, .status = LAKE_UNAVAILABLE};
        status = scan_through(faulty.store, cache, &rows, &f->err);
        assert_true(status == LAKE_UNAVAILABLE || faulty.rules[0].times == 1);
        lines_fini(&rows);
        faulty_store_clear(&faulty);
        OK(scan_through(faulty.store, cache, &rows, &f->err)); /* with what was cached */
        assert_same_lines(&rows, &expected);
        lines_fini(&rows);
        lance_cache_free(cache);
    }
    assert_true(nth > 5);
    lines_fini(&expected);
    faulty_store_fini(&faulty);
}

static void every_failing_allocation_is_an_error(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 16;
    create_dataset(f, "int32, utf8, list<int8>");
    (void)append_random_rows(f, 60, &seed, NULL);
    delete_rows(f, 0, 10, 20);
    uint64_t nth = 1;
    lake_status status = LAKE_RESOURCE_EXHAUSTED;
    while (status != LAKE_OK) {
        struct lance_dataset *dataset = NULL;
        struct lance_scan_options options;
        struct lance_scan *scan = NULL;
        uint32_t columns[64];
        size_t rows = 0;
        base_fault_fail_nth_alloc(nth++);
        status = lance_dataset_open(f->store, NULL, NULL, 0, &dataset, NULL);
        if (status == LAKE_OK) {
            all_columns(dataset, columns, &options);
            status = lance_scan_new(dataset, &options, &scan, NULL);
        }
        struct lance_task *task = NULL;
        if (status == LAKE_OK) {
            status = lance_scan_next_task(scan, &task, NULL);
        }
        bool end = false;
        while (status == LAKE_OK && !end) {
            struct ArrowArray batch = {.release = NULL};
            status = lance_task_next(task, &batch, &end, NULL);
            if (status == LAKE_OK && !end) {
                rows += (size_t)batch.length;
                ArrowArrayRelease(&batch);
            }
        }
        base_fault_fail_nth_alloc(0);
        assert_true(status != LAKE_OK || rows == 40);
        lance_task_free(task);
        lance_scan_free(scan);
        lance_dataset_unref(dataset);
        assert_true(nth < 100000);
    }
    assert_true(nth > 10);
}

static void a_stopped_scan_ends_as_cancelled(void **state)
{
    struct fixture *f = *state;
    bool stop = false;
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    struct lance_task *task = NULL;
    struct ArrowArray batch;
    uint32_t columns[64];
    bool end = false;
    uint64_t seed = 2;
    create_dataset(f, "int32");
    (void)append_random_rows(f, 100, &seed, NULL);
    struct lance_dataset *dataset = open_version(f, 0);
    all_columns(dataset, columns, &options);
    options.batch_rows = 10;
    options.stop = &stop;
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    OK(lance_scan_next_task(scan, &task, &f->err));
    OK(lance_task_next(task, &batch, &end, &f->err));
    ArrowArrayRelease(&batch);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    assert_int_equal(lance_task_next(task, &batch, &end, &f->err), LAKE_CANCELLED);
    lance_task_free(task);
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
}

/* ---- threads ---- */

struct reader {
    pthread_t thread;
    struct lance_scan *scan;
    uint64_t rows;
    int64_t sum;
    bool failed;
};

static void *read_tasks(void *context)
{
    struct reader *reader = context;
    for (;;) {
        struct lance_task *task = NULL;
        bool end = false;
        if (lance_scan_next_task(reader->scan, &task, NULL) != LAKE_OK) {
            reader->failed = true;
        }
        if (task == NULL) {
            return NULL;
        }
        while (!end && !reader->failed) {
            struct ArrowArray batch = {.release = NULL};
            reader->failed = lance_task_next(task, &batch, &end, NULL) != LAKE_OK;
            if (!reader->failed && !end) {
                const int64_t *values = batch.children[0]->buffers[1];
                for (int64_t i = 0; i < batch.length; i++) {
                    reader->sum += values[batch.children[0]->offset + i];
                }
                reader->rows += (uint64_t)batch.length;
                ArrowArrayRelease(&batch);
            }
        }
        lance_task_free(task);
    }
}

static void several_threads_read_every_row_once(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct lance_cache *cache = NULL;
    struct lance_dataset *dataset = NULL;
    int64_t next = 0;
    create_dataset(f, "int64!");
    schema_of("int64!", &schema);
    for (int b = 0; b < 4; b++) {
        assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
        for (int i = 0; i < 5000; i++) {
            assert_int_equal(ArrowArrayAppendInt(batch.children[0], next++), NANOARROW_OK);
            assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
        }
        assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
        (void)append_batch(f, &batch, NULL);
        ArrowArrayRelease(&batch);
    }
    delete_rows(f, 2, 0, 1000); /* 10000 to 10999 */
    OK(lance_cache_new(1 << 20, &cache, &f->err));
    OK(lance_dataset_open(f->store, cache, "k", 0, &dataset, &f->err));
    for (int round = 0; round < 5; round++) {
        struct lance_scan_options options;
        struct lance_scan *scan = NULL;
        struct reader readers[4] = {0};
        struct lance_scan_stats stats;
        uint32_t columns[64];
        uint64_t rows = 0;
        int64_t sum = 0;
        all_columns(dataset, columns, &options);
        options.task_rows = 300;
        options.batch_rows = 128;
        OK(lance_scan_new(dataset, &options, &scan, &f->err));
        assert_int_equal(lance_scan_task_count(scan), 4 * 17);
        for (size_t i = 0; i < 4; i++) {
            readers[i].scan = scan;
            assert_int_equal(pthread_create(&readers[i].thread, NULL, read_tasks, &readers[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
            (void)pthread_join(readers[i].thread, NULL);
            assert_false(readers[i].failed);
            rows += readers[i].rows;
            sum += readers[i].sum;
        }
        assert_int_equal(rows, 19000);
        assert_int_equal(sum, INT64_C(19999) * 20000 / 2 -
                                  (INT64_C(10999) * 11000 - INT64_C(9999) * 10000) / 2);
        lance_scan_get_stats(scan, &stats);
        assert_int_equal(stats.rows_scanned, 20000);
        assert_true(stats.bytes_read > 0);
        lance_scan_free(scan);
    }
    lance_dataset_unref(dataset);
    lance_cache_free(cache);
    ArrowSchemaRelease(&schema);
}

/* ---- opening ---- */

static void a_version_that_is_not_there_is_not_found(void **state)
{
    struct fixture *f = *state;
    struct lance_dataset *dataset = NULL;
    assert_int_equal(lance_dataset_open(f->store, NULL, NULL, 0, &dataset, &f->err),
                     LAKE_NOT_FOUND);
    create_dataset(f, "int32");
    assert_int_equal(lance_dataset_open(f->store, NULL, NULL, 2, &dataset, &f->err),
                     LAKE_NOT_FOUND);
    assert_non_null(strstr(f->err.message, "version 2"));
}

static void a_small_cache_keeps_what_was_used_last(void **state)
{
    struct fixture *f = *state;
    struct lance_cache *cache = NULL;
    struct lance_manifest *manifests[3];
    char key[3][8] = {"a", "b", "c"};
    create_dataset(f, "int32");
    OK(lance_cache_new(2500, &cache, &f->err)); /* two of three */
    for (size_t i = 0; i < 3; i++) {
        OK(lance_manifest_read(f->store, LANCE_NAMING_V2, 1, &manifests[i], &f->err));
        lance_cache_put(cache, LANCE_CACHED_MANIFEST, key[i], manifests[i], 1000);
        void *first = lance_cache_get(cache, LANCE_CACHED_MANIFEST, key[0]); /* stays in use */
        assert_ptr_equal(first, manifests[0]);
        lance_manifest_unref(first);
    }
    assert_null(lance_cache_get(cache, LANCE_CACHED_MANIFEST, key[1]));
    assert_null(lance_cache_get(cache, LANCE_CACHED_FILE, key[0]));
    void *last = lance_cache_get(cache, LANCE_CACHED_MANIFEST, key[2]);
    assert_ptr_equal(last, manifests[2]);
    lance_manifest_unref(last);
    lance_cache_put(cache, LANCE_CACHED_MANIFEST, "huge", manifests[1], 5000); /* never fits */
    assert_null(lance_cache_get(cache, LANCE_CACHED_MANIFEST, "huge"));
    lance_cache_free(cache);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(manifests[i]->references, 1);
        lance_manifest_unref(manifests[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_L15_a_last_batch_that_is_all_deleted_is_skipped),
        TEST(case_L15_the_last_row_deleted),
        TEST(case_L15_the_first_batch_deleted),
        TEST(case_L15_rows_across_batches_deleted),
        TEST(case_L15_every_row_deleted),
        TEST(filtered_and_projected_rows_agree_with_a_plain_loop),
        TEST(a_filter_that_is_not_exact_is_reported_and_not_applied),
        TEST(columns_that_are_not_there_are_refused),
        TEST(case_L17_a_null_struct_stays_null_under_a_filter),
        TEST(case_L19_rows_after_a_null_struct_do_not_shift),
        TEST(case_L20_batches_of_long_values_are_bounded_by_bytes),
        TEST(case_L14_an_unreadable_deletion_file_surfaces_and_is_not_cached),
        TEST(every_failing_read_is_an_error_and_leaves_no_trace),
        TEST(every_failing_allocation_is_an_error),
        TEST(a_stopped_scan_ends_as_cancelled),
        TEST(several_threads_read_every_row_once),
        TEST(a_version_that_is_not_there_is_not_found),
        TEST(a_small_cache_keeps_what_was_used_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
