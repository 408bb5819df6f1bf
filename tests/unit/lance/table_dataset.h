/* Small datasets for the tests of scans and commits, and all rows of a version as text. */
#ifndef TABLE_DATASET_H
#define TABLE_DATASET_H

#include "table_data.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

static inline void create_dataset(struct fixture *f, const char *types)
{
    struct ArrowSchema schema;
    struct lance_dataset *dataset = NULL;
    schema_of(types, &schema);
    OK(lance_dataset_create(f->store, &schema, NULL, &dataset, &f->err));
    assert_int_equal(lance_dataset_version(dataset), 1);
    lance_dataset_unref(dataset);
    ArrowSchemaRelease(&schema);
}

static inline struct lance_dataset *open_version(struct fixture *f, uint64_t version)
{
    struct lance_dataset *dataset = NULL;
    OK(lance_dataset_open(f->store, NULL, NULL, version, &dataset, &f->err));
    return dataset;
}

/* Appends one batch to the newest version; its rows are added to `expected` (may be NULL). */
static inline uint64_t append_batch(struct fixture *f, const struct ArrowArray *batch,
                                    struct lines *expected)
{
    struct lance_dataset *base = open_version(f, 0);
    struct lance_append *append = NULL;
    uint64_t version = 0;
    OK(lance_append_new(f->store, base, &append, &f->err));
    OK(lance_append_write(append, batch, &f->err));
    OK(lance_append_commit(append, NULL, &version, &f->err));
    lance_append_free(append);
    if (expected != NULL) {
        render_rows(lance_dataset_schema(base), batch, &expected->text);
    }
    lance_dataset_unref(base);
    return version;
}

static inline uint64_t append_random_rows(struct fixture *f, size_t rows, uint64_t *seed,
                                          struct lines *expected)
{
    struct lance_dataset *base = open_version(f, 0);
    struct ArrowArray batch;
    random_batch(lance_dataset_schema(base), rows, seed, &batch);
    lance_dataset_unref(base);
    uint64_t version = append_batch(f, &batch, expected);
    ArrowArrayRelease(&batch);
    return version;
}

/* Drains a scan in task order. Every batch must have rows, and no more than asked for. */
static inline lake_status drain(struct lance_scan *scan, uint64_t max_rows, struct lines *out,
                                struct lake_error *err)
{
    for (;;) {
        struct lance_task *task = NULL;
        bool end = false;
        lake_status status = lance_scan_next_task(scan, &task, err);
        if (status != LAKE_OK || task == NULL) {
            return status;
        }
        while (!end) {
            struct ArrowArray batch = {.release = NULL};
            status = lance_task_next(task, &batch, &end, err);
            if (status != LAKE_OK) {
                lance_task_free(task);
                return status;
            }
            if (!end) {
                assert_true(batch.length > 0);
                assert_true((uint64_t)batch.length <= max_rows);
                if (batch.n_children > 0) {
                    render_rows(lance_scan_schema(scan), &batch, &out->text);
                } else {
                    for (int64_t i = 0; i < batch.length; i++) {
                        assert_int_equal(base_buffer_append(&out->text, "\n", 1, NULL), LAKE_OK);
                    }
                }
                ArrowArrayRelease(&batch);
            }
        }
        lance_task_free(task);
    }
}

static inline void all_columns(const struct lance_dataset *dataset, uint32_t *columns,
                               struct lance_scan_options *options)
{
    lance_scan_options_init(options);
    options->columns = columns;
    options->column_count = (size_t)lance_dataset_schema(dataset)->n_children;
    for (uint32_t i = 0; i < options->column_count; i++) {
        columns[i] = i;
    }
}

static inline void read_rows(struct fixture *f, uint64_t version, struct lines *out)
{
    struct lance_dataset *dataset = open_version(f, version);
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    lines_init(out);
    lance_scan_options_init(&options);
    options.column_count = LANCE_ALL_COLUMNS;
    OK(lance_scan_new(dataset, &options, &scan, &f->err));
    OK(drain(scan, options.batch_rows, out, &f->err));
    lines_split(out);
    assert_int_equal(out->count, lance_dataset_row_count(dataset));
    lance_scan_free(scan);
    lance_dataset_unref(dataset);
}

static inline void assert_same_lines(const struct lines *actual, const struct lines *expected)
{
    assert_int_equal(actual->count, expected->count);
    for (size_t i = 0; i < actual->count; i++) {
        assert_string_equal(actual->items[i], expected->items[i]);
    }
}

static inline void assert_rows(struct fixture *f, uint64_t version, struct lines *expected)
{
    struct lines actual;
    read_rows(f, version, &actual);
    assert_same_lines(&actual, expected);
    lines_fini(&actual);
}

static inline size_t count_rows_of(struct fixture *f, uint64_t version)
{
    struct lines actual;
    read_rows(f, version, &actual);
    size_t count = actual.count;
    lines_fini(&actual);
    return count;
}

/* Publishes what `change` makes of the newest manifest as the next version, without ceremony. */
static inline void publish_changed(struct fixture *f,
                                   void (*change)(LancePb__Manifest *pb, void *context),
                                   void *context, struct lake_bytes transaction)
{
    uint64_t version;
    enum lance_naming naming;
    struct lance_manifest *manifest = NULL;
    struct base_buffer bytes;
    char key[LANCE_KEY_BYTES];
    OK(lance_versions_latest(f->store, 0, &version, &naming, NULL, &f->err));
    OK(lance_manifest_read(f->store, naming, version, &manifest, &f->err));
    LancePb__Manifest pb = *manifest->pb;
    pb.version = version + 1;
    pb.has_transaction_file = false;
    change(&pb, context);
    base_buffer_init(&bytes, 64 << 20);
    OK(lance_manifest_encode(&pb, manifest->index_section, transaction, &bytes, &f->err));
    lance_manifest_key(naming, version + 1, key);
    OK(storage_put_if_absent(f->store, base_str_of(key), base_buffer_view(&bytes), &f->err));
    base_buffer_fini(&bytes);
    lance_manifest_unref(manifest);
}

struct deleted_rows {
    struct fixture *f;
    size_t fragment;
    uint32_t first;
    uint32_t count; /* below 65536 */
    LancePb__DeletionFile file;
    LancePb__DataFragment fragment_copy;
    LancePb__DataFragment *fragments[64];
};

static inline void attach_deletions(LancePb__Manifest *pb, void *context)
{
    struct deleted_rows *rows = context;
    struct fixture *f = rows->f;
    char key[128];
    /* one run container */
    const uint8_t bytes[] = {
        0x3b,
        0x30,
        0,
        0,
        1,
        0,
        0,
        (uint8_t)(rows->count - 1),
        (uint8_t)((rows->count - 1) >> 8),
        1,
        0,
        (uint8_t)rows->first,
        (uint8_t)(rows->first >> 8),
        (uint8_t)(rows->count - 1),
        (uint8_t)((rows->count - 1) >> 8),
    };
    lance_pb__deletion_file__init(&rows->file);
    rows->file.has_file_type = rows->file.has_read_version = rows->file.has_id = true;
    rows->file.has_num_deleted_rows = true;
    rows->file.file_type = 1;
    rows->file.read_version = pb->version - 1;
    rows->file.id = 77;
    rows->file.num_deleted_rows = rows->count;
    memcpy(rows->fragments, pb->fragments, pb->n_fragments * sizeof(*rows->fragments));
    rows->fragment_copy = *pb->fragments[rows->fragment];
    rows->fragment_copy.deletion_file = &rows->file;
    rows->fragments[rows->fragment] = &rows->fragment_copy;
    pb->fragments = rows->fragments;
    (void)snprintf(key, sizeof(key), "_deletions/%d-%d-77.bin", (int)rows->fragment_copy.id,
                   (int)rows->file.read_version);
    OK(storage_put(f->store, base_str_of(key), (struct lake_bytes){bytes, sizeof(bytes)}, &f->err));
}

/* Deletes rows [first, first + count) of a fragment, as a new version. */
static inline void delete_rows(struct fixture *f, size_t fragment, uint32_t first, uint32_t count)
{
    struct deleted_rows rows = {.f = f, .fragment = fragment, .first = first, .count = count};
    publish_changed(f, attach_deletions, &rows, (struct lake_bytes){NULL, 0});
}

#endif
