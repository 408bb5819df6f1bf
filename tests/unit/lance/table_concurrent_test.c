/* libs: lance */
/* labels: concurrent */
/* Writers of every kind, clean-ups and readers at once on one table, by one store and one cache:
 * each version that is read is whole, and in the end there is what each of them did. */
#include "table_dataset.h"

#include <pthread.h>

#define APPENDERS  2
#define BATCHES    10 /* of each */
#define BATCH_ROWS 20 /* ids of batch b: b * 20 and so on */
#define DELETED    5  /* the first rows of each */
#define UPDATED    5  /* the last of each */
#define ALL        (APPENDERS * BATCHES)
#define RETAINED   60 /* a reader's version is never so old */
#define CACHE      ((size_t)8 << 20)

struct shared {
    struct storage_store *store;
    struct lance_cache *cache;
    _Atomic int done[ALL]; /* by batch: 1 appended */
    _Atomic int writers;   /* still at work */
    _Atomic int failures;
};

static void failed(struct shared *shared, const char *who, const struct lake_error *err)
{
    print_error("%s: %s: %s\n", who, err->message, err->cause);
    atomic_fetch_add(&shared->failures, 1);
}

static struct lance_dataset *open_newest(struct shared *shared, struct lake_error *err)
{
    struct lance_dataset *dataset = NULL;
    lake_status status = lance_dataset_open(shared->store, shared->cache, "t", 0, &dataset, err);
    return status == LAKE_OK ? dataset : NULL;
}

/* Does it again from the newest version until no other writer was in the way. */
static void change(struct shared *shared, const char *who,
                   lake_status (*once)(struct shared *shared, struct lance_dataset *base,
                                       int64_t batch, struct lake_error *err),
                   int64_t batch)
{
    struct lake_error err = {0};
    for (int attempt = 0; attempt < 1000; attempt++) {
        struct lance_dataset *base = open_newest(shared, &err);
        if (base == NULL) {
            break;
        }
        lake_status status = once(shared, base, batch, &err);
        lance_dataset_unref(base);
        if (status == LAKE_OK) {
            return;
        }
        if (status != LAKE_ABORTED) {
            break;
        }
    }
    failed(shared, who, &err);
}

/* ---- what they do ---- */

static lake_status append_once(struct shared *shared, struct lance_dataset *base, int64_t number,
                               struct lake_error *err)
{
    struct ArrowArray batch;
    struct lance_append *append = NULL;
    uint64_t version;
    if (ArrowArrayInitFromSchema(&batch, lance_dataset_schema(base), NULL) != NANOARROW_OK ||
        ArrowArrayStartAppending(&batch) != NANOARROW_OK) {
        return LAKE_RESOURCE_EXHAUSTED;
    }
    for (int64_t i = 0; i < BATCH_ROWS; i++) {
        (void)ArrowArrayAppendInt(batch.children[0], number * BATCH_ROWS + i);
        (void)ArrowArrayAppendInt(batch.children[1], 0);
        (void)ArrowArrayFinishElement(&batch);
    }
    (void)ArrowArrayFinishBuildingDefault(&batch, NULL);
    lake_status status = lance_append_new(shared->store, base, &append, err);
    if (status == LAKE_OK) {
        status = lance_append_write(append, &batch, err);
    }
    if (status == LAKE_OK) {
        status = lance_append_commit(append, NULL, &version, err);
    }
    lance_append_free(append);
    ArrowArrayRelease(&batch);
    return status;
}

/* Rows [first, first + count) of a batch, as filters on the id. */
struct range {
    struct lance_value bounds[2];
    struct lance_filter filters[2];
};

static void range_init(struct range *range, int64_t batch, int64_t first, int64_t count)
{
    int64_t start = batch * BATCH_ROWS + first;
    range->bounds[0] = (struct lance_value){.kind = LANCE_VALUE_INT64, .i64 = start};
    range->bounds[1] = (struct lance_value){.kind = LANCE_VALUE_INT64, .i64 = start + count};
    range->filters[0] = (struct lance_filter){0, LANCE_GE, &range->bounds[0], 1};
    range->filters[1] = (struct lance_filter){0, LANCE_LT, &range->bounds[1], 1};
}

static lake_status expect_rows(const struct lance_change *change, uint64_t rows,
                               struct lake_error *err)
{
    return change->row_count == rows
               ? LAKE_OK
               : lake_fail(err, LAKE_INTERNAL, "%llu rows instead of %llu",
                           (unsigned long long)change->row_count, (unsigned long long)rows);
}

static lake_status delete_once(struct shared *shared, struct lance_dataset *base, int64_t batch,
                               struct lake_error *err)
{
    struct range range;
    struct lance_change change = {0};
    (void)shared;
    range_init(&range, batch, 0, DELETED);
    lake_status status = lance_delete(base, range.filters, 2, NULL, &change, err);
    return status == LAKE_OK ? expect_rows(&change, DELETED, err) : status;
}

static lake_status set_to_one(void *context, struct ArrowArray *batch, struct lake_error *err)
{
    struct ArrowArray ones;
    (void)context;
    if (ArrowArrayInitFromType(&ones, NANOARROW_TYPE_INT64) != NANOARROW_OK ||
        ArrowArrayStartAppending(&ones) != NANOARROW_OK) {
        return base_fail_no_memory(err, 0);
    }
    for (int64_t i = 0; i < batch->length; i++) {
        (void)ArrowArrayAppendInt(&ones, 1);
    }
    (void)ArrowArrayFinishBuildingDefault(&ones, NULL);
    ArrowArrayRelease(batch->children[1]);
    ArrowArrayMove(&ones, batch->children[1]);
    return LAKE_OK;
}

static lake_status update_once(struct shared *shared, struct lance_dataset *base, int64_t batch,
                               struct lake_error *err)
{
    struct range range;
    struct lance_change change = {0};
    (void)shared;
    range_init(&range, batch, BATCH_ROWS - UPDATED, UPDATED);
    lake_status status = lance_update(base, range.filters, 2, set_to_one, NULL, NULL, &change, err);
    return status == LAKE_OK ? expect_rows(&change, UPDATED, err) : status;
}

/* ---- threads ---- */

struct appender {
    struct shared *shared;
    int64_t first;
};

static void *run_appender(void *context)
{
    struct appender *appender = context;
    for (int64_t i = appender->first; i < appender->first + BATCHES; i++) {
        change(appender->shared, "append", append_once, i);
        atomic_store(&appender->shared->done[i], 1);
    }
    atomic_fetch_sub(&appender->shared->writers, 1);
    return NULL;
}

static void wait_for(struct shared *shared, int64_t batch)
{
    while (atomic_load(&shared->done[batch]) == 0) {
        base_sleep_ms(1);
    }
}

static void *run_deleter(void *context)
{
    for (int64_t i = 0; i < ALL; i++) {
        int64_t batch = i / APPENDERS + i % APPENDERS * BATCHES;
        wait_for(context, batch);
        change(context, "delete", delete_once, batch);
    }
    atomic_fetch_sub(&((struct shared *)context)->writers, 1);
    return NULL;
}

static void *run_updater(void *context)
{
    for (int64_t i = 0; i < ALL; i++) {
        int64_t batch = i / APPENDERS + (i + 1) % APPENDERS * BATCHES;
        wait_for(context, batch);
        change(context, "update", update_once, batch);
    }
    atomic_fetch_sub(&((struct shared *)context)->writers, 1);
    return NULL;
}

static void *run_maintenance(void *context)
{
    struct shared *shared = context;
    while (atomic_load(&shared->writers) > 0) {
        struct lake_error err = {0};
        struct lance_cleanup_options options;
        struct lance_cleanup_stats stats;
        struct lance_compaction done;
        struct lance_dataset *base = open_newest(shared, &err);
        lake_status status = base == NULL ? LAKE_INTERNAL : lance_compact(base, NULL, &done, &err);
        lance_dataset_unref(base);
        if (status != LAKE_OK && status != LAKE_ABORTED) {
            failed(shared, "compaction", &err);
        }
        lance_cleanup_options_init(&options);
        options.older_than_ms = 0;
        options.retain_versions = RETAINED;
        if (lance_cleanup(shared->store, &options, &stats, &err) != LAKE_OK) {
            failed(shared, "clean-up", &err);
        }
        base_sleep_ms(5);
    }
    return NULL;
}

/* What a version holds: rows of each batch, deleted and updated ones all or none. */
struct found {
    int rows[ALL];
    int deletable[ALL];
    int ones[ALL];
};

static bool add_row(struct found *found, int64_t id, int64_t n)
{
    int64_t batch = id / BATCH_ROWS;
    int64_t place = id % BATCH_ROWS;
    bool good = id >= 0 && batch < ALL && (n == 0 || (n == 1 && place >= BATCH_ROWS - UPDATED));
    if (good) {
        found->rows[batch]++;
        found->deletable[batch] += place < DELETED;
        found->ones[batch] += n == 1;
    }
    return good;
}

static lake_status read_version(struct lance_dataset *dataset, struct found *found,
                                struct lake_error *err)
{
    static const uint32_t columns[] = {0, 1};
    struct lance_scan_options options;
    struct ArrowArrayStream stream = {.release = NULL};
    *found = (struct found){.rows = {0}};
    lance_scan_options_init(&options);
    options.columns = columns;
    options.column_count = 2;
    lake_status status = lance_scan_stream(dataset, &options, &stream, err);
    while (status == LAKE_OK) {
        struct ArrowArray batch = {.release = NULL};
        if (stream.get_next(&stream, &batch) != 0) {
            status = lake_fail(err, LAKE_INTERNAL, "%s", stream.get_last_error(&stream));
        }
        if (status != LAKE_OK || batch.release == NULL) {
            break;
        }
        const int64_t *ids = batch.children[0]->buffers[1];
        const int64_t *ns = batch.children[1]->buffers[1];
        for (int64_t i = 0; i < batch.length && status == LAKE_OK; i++) {
            int64_t id = ids[batch.children[0]->offset + i];
            if (!add_row(found, id, ns[batch.children[1]->offset + i])) {
                status = lake_fail(err, LAKE_INTERNAL, "row %lld is none of ours", (long long)id);
            }
        }
        ArrowArrayRelease(&batch);
    }
    if (stream.release != NULL) {
        stream.release(&stream);
    }
    return status;
}

static bool is_whole(const struct found *found)
{
    for (size_t i = 0; i < ALL; i++) {
        bool kept = found->deletable[i] == DELETED;
        bool there = found->rows[i] == (kept ? BATCH_ROWS : BATCH_ROWS - DELETED);
        bool none = found->rows[i] == 0;
        if ((!kept && found->deletable[i] != 0) || !(there || none) ||
            (found->ones[i] != 0 && found->ones[i] != UPDATED)) {
            return false;
        }
    }
    return true;
}

static void *run_reader(void *context)
{
    struct shared *shared = context;
    do {
        struct lake_error err = {0};
        struct found found;
        struct lance_dataset *dataset = open_newest(shared, &err);
        lake_status status = dataset == NULL ? LAKE_INTERNAL : read_version(dataset, &found, &err);
        if (status == LAKE_OK && !is_whole(&found)) {
            status = lake_fail(&err, LAKE_INTERNAL, "version %llu is not whole",
                               (unsigned long long)lance_dataset_version(dataset));
        }
        lance_dataset_unref(dataset);
        if (status != LAKE_OK) {
            failed(shared, "reader", &err);
        }
    } while (atomic_load(&shared->writers) > 0);
    return NULL;
}

static void writers_of_every_kind_and_readers_at_once(void **state)
{
    struct fixture *f = *state;
    struct shared shared = {.store = f->store, .writers = APPENDERS + 2};
    struct appender appenders[APPENDERS];
    void *(*const others[])(void *) = {run_deleter, run_updater, run_maintenance, run_reader,
                                       run_reader};
    pthread_t threads[APPENDERS + BASE_ARRAY_LEN(others)];
    struct found found;
    create_dataset(f, "int64!, int64");
    OK(lance_cache_new(CACHE, &shared.cache, &f->err));
    for (size_t i = 0; i < APPENDERS; i++) {
        appenders[i] = (struct appender){&shared, (int64_t)i * BATCHES};
        assert_int_equal(pthread_create(&threads[i], NULL, run_appender, &appenders[i]), 0);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(others); i++) {
        assert_int_equal(pthread_create(&threads[APPENDERS + i], NULL, others[i], &shared), 0);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&shared.failures), 0);
    struct lance_dataset *dataset = open_newest(&shared, &f->err);
    assert_non_null(dataset);
    OK(read_version(dataset, &found, &f->err));
    for (size_t i = 0; i < ALL; i++) {
        assert_int_equal(found.rows[i], BATCH_ROWS - DELETED);
        assert_int_equal(found.deletable[i], 0);
        assert_int_equal(found.ones[i], UPDATED);
    }
    lance_dataset_unref(dataset);
    lance_cache_free(shared.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(writers_of_every_kind_and_readers_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
