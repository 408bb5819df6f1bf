/* libs: lance */
/* Operations against a model: two writers on every cell of the conflict matrix, every failing
 * operation of the store, every failing allocation. */
#include "faulty_store.h"
#include "table_dataset.h"

/* ---- a table of numbers ---- */

#define MAX_IDS 4096

struct content { /* what a version holds */
    int64_t ids[MAX_IDS];
    size_t count;
    bool has_x;
    bool has_y;
};

/* A batch with the columns of the schema: ids from `first` on, everything else null. */
static void make_batch(const struct ArrowSchema *schema, int64_t first, int64_t count,
                       struct ArrowArray *out)
{
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(ArrowArrayAppendInt(out->children[0], first + i), NANOARROW_OK);
        for (int64_t c = 1; c < schema->n_children; c++) {
            assert_int_equal(ArrowArrayAppendNull(out->children[c], 1), NANOARROW_OK);
        }
        assert_int_equal(ArrowArrayFinishElement(out), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
}

static lake_status columns_of(struct ArrowSchema *out, struct lake_error *err)
{
    return arrow_type_parse(LAKE_STR("struct<id: int64!, x: int64>"), "", out, err);
}

static void create_table(struct fixture *f)
{
    struct ArrowSchema schema;
    struct lance_dataset *dataset = NULL;
    OK(columns_of(&schema, &f->err));
    OK(lance_dataset_create(f->store, &schema, NULL, &dataset, &f->err));
    lance_dataset_unref(dataset);
    ArrowSchemaRelease(&schema);
}

static void append_ids(struct fixture *f, int64_t first, int64_t count)
{
    struct lance_dataset *base = open_version(f, 0);
    struct ArrowArray batch;
    make_batch(lance_dataset_schema(base), first, count, &batch);
    lance_dataset_unref(base);
    (void)append_batch(f, &batch, NULL);
    ArrowArrayRelease(&batch);
}

static void read_content(struct fixture *f, uint64_t version, struct content *out)
{
    struct lance_dataset *dataset = open_version(f, version);
    const struct ArrowSchema *schema = lance_dataset_schema(dataset);
    struct lance_scan_options options;
    struct ArrowArrayStream stream;
    uint32_t columns[8];
    *out = (struct content){.count = 0};
    for (int64_t i = 0; i < schema->n_children; i++) {
        out->has_x = out->has_x || strcmp(schema->children[i]->name, "x") == 0;
        out->has_y = out->has_y || strcmp(schema->children[i]->name, "y") == 0;
    }
    all_columns(dataset, columns, &options);
    OK(lance_scan_stream(dataset, &options, &stream, &f->err));
    for (;;) {
        struct ArrowArray batch;
        assert_int_equal(stream.get_next(&stream, &batch), 0);
        if (batch.release == NULL) {
            break;
        }
        const int64_t *ids = batch.children[0]->buffers[1];
        for (int64_t i = 0; i < batch.length; i++) {
            assert_true(out->count < MAX_IDS);
            out->ids[out->count++] = ids[batch.children[0]->offset + i];
        }
        batch.release(&batch);
    }
    stream.release(&stream);
    lance_dataset_unref(dataset);
}

static int compare_ids(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* The same rows: a compaction puts those that it rewrote behind the others. */
static void assert_content(struct fixture *f, const struct content *expected, const char *when)
{
    struct content now;
    struct content wanted = *expected;
    read_content(f, 0, &now);
    qsort(now.ids, now.count, sizeof(int64_t), compare_ids);
    qsort(wanted.ids, wanted.count, sizeof(int64_t), compare_ids);
    bool same = now.count == expected->count && now.has_x == expected->has_x &&
                now.has_y == expected->has_y &&
                memcmp(now.ids, wanted.ids, now.count * sizeof(int64_t)) == 0;
    if (!same) {
        fail_msg("%s: %zu rows, %zu expected", when, now.count, expected->count);
    }
}

/* ---- operations, and what they are to the model ---- */

static lake_status run_append(struct lance_dataset *base,
                              const struct lance_commit_options *options, struct lake_error *err)
{
    struct lance_append *append = NULL;
    struct ArrowArray batch;
    uint64_t version;
    make_batch(lance_dataset_schema(base), 100, 5, &batch);
    lake_status status = lance_append_new(lance_dataset_store(base), base, &append, err);
    if (status == LAKE_OK) {
        status = lance_append_write(append, &batch, err);
    }
    if (status == LAKE_OK) {
        status = lance_append_commit(append, options, &version, err);
    }
    lance_append_free(append);
    ArrowArrayRelease(&batch);
    return status;
}

static void model_append(struct content *content)
{
    for (int64_t i = 0; i < 5; i++) {
        content->ids[content->count++] = 100 + i;
    }
}

static lake_status delete_id(struct lance_dataset *base, int64_t id,
                             const struct lance_commit_options *options, struct lake_error *err)
{
    const struct lance_value value = {.kind = LANCE_VALUE_INT64, .i64 = id};
    const struct lance_filter filter = {
        .column = 0, .op = LANCE_EQ, .values = &value, .value_count = 1};
    struct lance_change change;
    return lance_delete(base, &filter, 1, options, &change, err);
}

static void model_delete(struct content *content, int64_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < content->count; i++) {
        if (content->ids[i] != id) {
            content->ids[kept++] = content->ids[i];
        }
    }
    content->count = kept;
}

#define DELETE(id)                                                                 \
    static lake_status run_delete_##id(struct lance_dataset *base,                 \
                                       const struct lance_commit_options *options, \
                                       struct lake_error *err)                     \
    {                                                                              \
        return delete_id(base, id, options, err);                                  \
    }                                                                              \
    static void model_delete_##id(struct content *content)                         \
    {                                                                              \
        model_delete(content, id);                                                 \
    }
DELETE(3)
DELETE(5)
DELETE(12)

static lake_status keep_values(void *context, struct ArrowArray *batch, struct lake_error *err)
{
    (void)context;
    (void)batch;
    (void)err;
    return LAKE_OK;
}

static lake_status run_update_5(struct lance_dataset *base,
                                const struct lance_commit_options *options, struct lake_error *err)
{
    const struct lance_value value = {.kind = LANCE_VALUE_INT64, .i64 = 5};
    const struct lance_filter filter = {
        .column = 0, .op = LANCE_EQ, .values = &value, .value_count = 1};
    struct lance_change change;
    return lance_update(base, &filter, 1, keep_values, NULL, options, &change, err);
}

static void model_update_5(struct content *content) /* the row is the last one now */
{
    model_delete(content, 5);
    content->ids[content->count++] = 5;
}

/* Row 5 is there, row 300 is not. */
static lake_status run_merge(struct lance_dataset *base, const struct lance_commit_options *options,
                             struct lake_error *err)
{
    struct lance_merge_options all;
    struct lance_merge done;
    struct ArrowArray batch;
    lance_merge_options_init(&all);
    if (options != NULL) {
        all.commit = *options;
    }
    make_batch(lance_dataset_schema(base), 5, 2, &batch);
    ((int64_t *)(uintptr_t)batch.children[0]->buffers[1])[1] = 300;
    lake_status status = lance_merge_insert(base, &batch, &all, &done, err);
    ArrowArrayRelease(&batch);
    return status;
}

static void model_merge(struct content *content)
{
    bool is_there = false;
    for (size_t i = 0; i < content->count; i++) {
        is_there = is_there || content->ids[i] == 300;
    }
    model_delete(content, 5);
    content->ids[content->count++] = 5;
    if (is_there) {
        model_delete(content, 300);
    }
    content->ids[content->count++] = 300;
}

static lake_status run_compact(struct lance_dataset *base,
                               const struct lance_commit_options *options, struct lake_error *err)
{
    struct lance_compact_options all;
    struct lance_compaction done;
    lance_compact_options_init(&all);
    if (options != NULL) {
        all.commit = *options;
    }
    return lance_compact(base, &all, &done, err);
}

static void model_same(struct content *content)
{
    (void)content;
}

static lake_status run_restore(struct lance_dataset *base,
                               const struct lance_commit_options *options, struct lake_error *err)
{
    uint64_t version;
    return lance_restore(base, 1, options, &version, err);
}

static void model_restore(struct content *content)
{
    *content = (struct content){.count = 0, .has_x = true};
}

static lake_status run_drop(struct lance_dataset *base, const struct lance_commit_options *options,
                            struct lake_error *err)
{
    uint64_t version;
    return lance_drop_column(base, "x", options, &version, err);
}

static void model_drop(struct content *content)
{
    content->has_x = false;
}

static lake_status run_add(struct lance_dataset *base, const struct lance_commit_options *options,
                           struct lake_error *err)
{
    struct ArrowSchema column;
    uint64_t version;
    if (arrow_type_parse(LAKE_STR("utf8"), "y", &column, err) != LAKE_OK) {
        return err->code;
    }
    lake_status status = lance_add_column(base, &column, options, &version, err);
    ArrowSchemaRelease(&column);
    return status;
}

static void model_add(struct content *content)
{
    content->has_y = true;
}

static lake_status run_overwrite(struct lance_dataset *base,
                                 const struct lance_commit_options *options, struct lake_error *err)
{
    struct lance_create_options all;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    uint64_t version;
    if (columns_of(&schema, err) != LAKE_OK) {
        return err->code;
    }
    make_batch(&schema, 200, 3, &batch);
    assert_int_equal(ArrowBasicArrayStreamInit(&stream, &schema, 1), NANOARROW_OK);
    ArrowBasicArrayStreamSetArray(&stream, 0, &batch);
    lance_create_options_init(&all);
    if (options != NULL) {
        all.commit = *options;
    }
    lake_status status = lance_write_stream(lance_dataset_store(base), &stream, &all,
                                            LANCE_WRITE_OVERWRITE, &version, err);
    stream.release(&stream);
    return status;
}

static void model_overwrite(struct content *content)
{
    *content = (struct content){.ids = {200, 201, 202}, .count = 3, .has_x = true};
}

static const struct operation {
    const char *name;
    lake_status (*run)(struct lance_dataset *base, const struct lance_commit_options *options,
                       struct lake_error *err);
    void (*model)(struct content *content);
} operations[] = {
    {"append", run_append, model_append},
    {"delete 3", run_delete_3, model_delete_3},
    {"delete 5", run_delete_5, model_delete_5},
    {"delete 12", run_delete_12, model_delete_12},
    {"compact", run_compact, model_same},
    {"restore", run_restore, model_restore},
    {"drop", run_drop, model_drop},
    {"add", run_add, model_add},
    {"overwrite", run_overwrite, model_overwrite},
    {"update 5", run_update_5, model_update_5},
    {"merge", run_merge, model_merge},
};

/* ---- races ---- */

struct rival {
    struct fixture *f;
    const struct operation *operation;
    bool done;
};

/* The rival commits after we have decided and before our manifest is there. */
static lake_status rival_commits(void *context, uint64_t version, struct lake_error *err)
{
    struct rival *rival = context;
    struct fixture *f = rival->f;
    (void)version;
    (void)err;
    if (!rival->done) {
        struct lance_dataset *base = open_version(f, 0);
        rival->done = true;
        OK(rival->operation->run(base, NULL, &f->err));
        lance_dataset_unref(base);
    }
    return LAKE_OK;
}

/* Rows 0 to 9 in one fragment, 10 to 19 in another; 3 and 5 are in the first, 12 in the second. */
static void start_table(struct fixture *f, struct content *content)
{
    create_table(f);
    append_ids(f, 0, 10);
    append_ids(f, 10, 10);
    read_content(f, 0, content);
    assert_int_equal(content->count, 20);
}

static void two_writers_end_as_the_matrix_says(void **state)
{
    (void)state;
    /* ours (rows) over theirs (columns): + goes on top, - is aborted; in the order above */
    static const char *const expected[] = {
        "+++++-++-++", /* append */
        "+-++--+--++", /* delete 3 */
        "++-+--+----", /* delete 5 */
        "+++---+--++", /* delete 12 */
        "+-----+----", /* compact */
        "+++++++++++", /* restore */
        "+++++----++", /* drop */
        "-----------", /* add */
        "++++++++-++", /* overwrite */
        "++-+--+----", /* update 5 */
        "-+-+--+----", /* merge */
    };
    for (size_t ours = 0; ours < BASE_ARRAY_LEN(operations); ours++) {
        for (size_t theirs = 0; theirs < BASE_ARRAY_LEN(operations); theirs++) {
            void *own_state = NULL;
            struct content content;
            struct lance_commit_options options;
            char when[100];
            assert_int_equal(fixture_set_up(&own_state), 0);
            struct fixture *f = own_state;
            struct rival rival = {.f = f, .operation = &operations[theirs]};
            start_table(f, &content);
            lance_commit_options_init(&options);
            options.before_publish = rival_commits;
            options.context = &rival;
            struct lance_dataset *base = open_version(f, 0);
            struct lake_error err = {0};
            lake_status status = operations[ours].run(base, &options, &err);
            lance_dataset_unref(base);
            (void)snprintf(when, sizeof(when), "%s over %s", operations[ours].name,
                           operations[theirs].name);
            operations[theirs].model(&content);
            bool on_top = expected[ours][theirs] == '+';
            if (status != (on_top ? LAKE_OK : LAKE_ABORTED)) {
                fail_msg("%s: %s %s", when, lake_status_name(status), err.message);
            }
            if (on_top) {
                operations[ours].model(&content);
            }
            assert_true(rival.done);
            assert_content(f, &content, when);
            (void)fixture_tear_down(&own_state);
        }
    }
}

/* ---- failures ---- */

static lake_status clean_up(struct lance_dataset *base, const struct lance_commit_options *options,
                            struct lake_error *err)
{
    struct lance_cleanup_options all;
    struct lance_cleanup_stats stats;
    (void)options;
    lance_cleanup_options_init(&all);
    all.older_than_ms = 0;
    all.retain_versions = 2;
    return lance_cleanup(lance_dataset_store(base), &all, &stats, err);
}

static lake_status tag_and_untag(struct lance_dataset *base,
                                 const struct lance_commit_options *options, struct lake_error *err)
{
    struct storage_store *store = lance_dataset_store(base);
    struct lance_tag *tags = NULL;
    size_t count;
    (void)options;
    lake_status status = lance_tag_create(store, "t", NULL, lance_dataset_version(base), err);
    if (status == LAKE_OK || status == LAKE_ALREADY_EXISTS) {
        status = lance_tag_update(store, "t", NULL, lance_dataset_version(base), err);
    }
    if (status == LAKE_OK) {
        status = lance_tags_list(store, &tags, &count, err);
        base_free(tags);
    }
    return status == LAKE_OK ? lance_tag_delete(store, "t", err) : status;
}

static const struct operation failing[] = {
    {"delete 3", run_delete_3, model_delete_3},
    {"compact", run_compact, model_same},
    {"restore", run_restore, model_restore},
    {"drop", run_drop, model_drop},
    {"add", run_add, model_add},
    {"overwrite", run_overwrite, model_overwrite},
    {"update 5", run_update_5, model_update_5},
    {"merge", run_merge, model_merge},
    {"cleanup", clean_up, model_same},
    {"tags", tag_and_untag, model_same},
};

static lake_status run_on(struct storage_store *store, const struct operation *operation,
                          struct lake_error *err)
{
    struct lance_dataset *base = NULL;
    lake_status status = lance_dataset_open(store, NULL, NULL, 0, &base, err);
    if (status == LAKE_OK) {
        status = operation->run(base, NULL, err);
    }
    lance_dataset_unref(base);
    return status;
}

/* Success is the model's next state, failure the one before, unknown either; and all versions that
 * are there can be read. */
static void assert_outcome(struct fixture *f, const struct operation *operation, lake_status status,
                           const struct content *before)
{
    struct content after = *before;
    struct content now;
    operation->model(&after);
    read_content(f, 0, &now);
    bool is_before =
        now.count == before->count && now.has_x == before->has_x && now.has_y == before->has_y;
    if (status == LAKE_OK || (status == LAKE_OUTCOME_UNKNOWN && !is_before)) {
        assert_content(f, &after, operation->name);
    } else {
        assert_content(f, before, operation->name);
    }
    uint64_t latest;
    OK(lance_latest_version(f->store, 0, &latest, NULL, &f->err));
    for (uint64_t version = 1; version <= latest; version++) {
        struct lance_dataset *dataset = NULL;
        struct lance_file_check check;
        lake_status found = lance_dataset_open(f->store, NULL, NULL, version, &dataset, &f->err);
        if (found == LAKE_OK) {
            OK(lance_dataset_check_files(dataset, &check, &f->err));
        } else {
            assert_int_equal(found, LAKE_NOT_FOUND);
        }
        lance_dataset_unref(dataset);
    }
}

/* One run on a fresh table, with `fail` arming a failure; true when it struck. */
static bool run_once(const struct operation *operation, uint32_t nth, bool allocations, bool done)
{
    void *own_state = NULL;
    struct content content;
    struct faulty_store faulty;
    bool struck;
    assert_int_equal(fixture_set_up(&own_state), 0);
    struct fixture *f = own_state;
    start_table(f, &content);
    struct lance_dataset *base = open_version(f, 0);
    OK(delete_id(base, 7, NULL, &f->err));
    lance_dataset_unref(base);
    model_delete(&content, 7);
    faulty_store_init(&faulty, f->store);
    if (allocations) {
        base_fault_fail_nth_alloc(nth + 1);
    } else {
        faulty.rules[0] = (struct faulty_rule){
            .ops = FAULTY_ANY, .skip = nth, .times = 1, .status = LAKE_UNAVAILABLE, .done = done};
    }
    struct lake_error err = {0};
    lake_status status = run_on(faulty.store, operation, &err);
    if (allocations) {
        struck = base_fault_alloc_count() > nth;
        base_fault_fail_nth_alloc(0);
    } else {
        struck = faulty.rules[0].times == 0;
        faulty_store_clear(&faulty);
    }
    if (!struck && status != LAKE_OK) {
        fail_msg("%s: %s %s", operation->name, lake_status_name(status), err.message);
    }
    assert_outcome(f, operation, status, &content);
    status = run_on(f->store, operation, &err); /* and it can be done again */
    assert_true(status == LAKE_OK || status == LAKE_NOT_FOUND || status == LAKE_ALREADY_EXISTS);
    faulty_store_fini(&faulty);
    (void)fixture_tear_down(&own_state);
    return struck;
}

static void every_failing_operation_of_the_store_is_all_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(failing); i++) {
        for (int done = 0; done < 2; done++) {
            uint32_t nth = 0;
            while (run_once(&failing[i], nth, false, done != 0)) {
                nth++;
                assert_true(nth < 300);
            }
            assert_true(nth > 3);
        }
    }
}

static void every_failing_allocation_is_all_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < BASE_ARRAY_LEN(failing); i++) {
        uint32_t nth = 0;
        while (run_once(&failing[i], nth, true, false)) {
            nth += 1 + nth / 64; /* all of the first, a sample of the many that follow */
            assert_true(nth < 100000);
        }
        assert_true(nth > 3);
    }
}

int main(void)
{
    if (access("/dev/shm", W_OK) == 0) { /* thousands of tables, and no power cut is tried here */
        (void)setenv("TMPDIR", "/dev/shm", 0);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_writers_end_as_the_matrix_says),
        cmocka_unit_test(every_failing_operation_of_the_store_is_all_or_nothing),
        cmocka_unit_test(every_failing_allocation_is_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
