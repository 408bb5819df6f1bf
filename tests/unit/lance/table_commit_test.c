/* labels: concurrent */
/* Commits: order, collisions, conflicts, unknown outcomes, crashes at every step. */
#include "faulty_store.h"
#include "table_dataset.h"

#include <dirent.h>
#include <sys/wait.h>

static size_t count_files(struct fixture *f, const char *folder)
{
    char path[600];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", f->directory.path, folder);
    DIR *directory = opendir(path);
    for (struct dirent *entry = directory == NULL ? NULL : readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        count += entry->d_name[0] != '.';
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count;
}

/* An append of `rows` random rows to the newest version, ready to be committed. */
static struct lance_append *prepare(struct fixture *f, struct storage_store *store, size_t rows)
{
    static uint64_t seed = 99;
    struct lance_dataset *base = open_version(f, 0);
    struct lance_append *append = NULL;
    struct ArrowArray batch;
    random_batch(lance_dataset_schema(base), rows, &seed, &batch);
    OK(lance_append_new(store, base, &append, &f->err));
    OK(lance_append_write(append, &batch, &f->err));
    ArrowArrayRelease(&batch);
    lance_dataset_unref(base);
    return append;
}

/* ---- what a commit leaves ---- */

static void a_new_dataset_says_who_made_it(void **state)
{
    struct fixture *f = *state;
    struct ArrowSchema schema;
    struct lance_create_options options;
    struct lance_dataset *dataset = NULL;
    const struct lance_key_value config[] = {{"lake.incarnation", "0190-abc"}, {"k", "v"}};
    const struct lance_key_value properties[] = {{"lake.operation_id", "op-1"}};
    struct base_buffer property;
    schema_of("int64!, FILE", &schema);
    lance_create_options_init(&options);
    options.storage_version = "2.1";
    options.config = config;
    options.config_count = 2;
    options.commit.properties = properties;
    options.commit.property_count = 1;
    OK(lance_dataset_create(f->store, &schema, &options, &dataset, &f->err));
    lance_dataset_unref(dataset);
    dataset = open_version(f, 1);
    assert_string_equal(lance_dataset_storage_version(dataset), "2.1");
    assert_string_equal(lance_dataset_config(dataset, "lake.incarnation"), "0190-abc");
    assert_null(lance_dataset_config(dataset, "other"));
    assert_int_equal(lance_dataset_row_count(dataset), 0);
    assert_true(lance_dataset_timestamp_unix_ms(dataset) > INT64_C(1700000000000));
    assert_true(arrow_schema_equal(&schema, lance_dataset_schema(dataset), NULL, 0));
    const LancePb__Manifest *pb = dataset->manifest->pb;
    assert_int_equal(pb->reader_feature_flags, 0);
    assert_int_equal(pb->writer_feature_flags, LANCE_FLAG_CONFIG);
    assert_true(base_str_equal_c(lance_pb_str(pb->writer_version->library), "lake"));
    base_buffer_init(&property, 100);
    OK(lance_dataset_transaction_property(dataset, "lake.operation_id", &property, &f->err));
    assert_int_equal(property.size, 4);
    assert_memory_equal(property.data, "op-1", 4);
    assert_int_equal(lance_dataset_transaction_property(dataset, "other", &property, &f->err),
                     LAKE_NOT_FOUND);
    base_buffer_fini(&property);
    lance_dataset_unref(dataset);
    assert_int_equal(lance_dataset_create(f->store, &schema, &options, &dataset, &f->err),
                     LAKE_ALREADY_EXISTS);
    assert_int_equal(count_files(f, "_versions"), 1);
    assert_int_equal(count_files(f, "_transactions"), 1);
    ArrowSchemaRelease(&schema);
}

static void appends_add_versions_and_keep_the_old_ones(void **state)
{
    struct fixture *f = *state;
    struct lines expected;
    uint64_t seed = 4;
    lines_init(&expected);
    create_dataset(f, "int32, utf8, double[3], struct<a: bool, b: list<utf8>>");
    size_t counts[6] = {0, 0};
    for (uint64_t version = 2; version <= 5; version++) {
        size_t rows = 10 * version;
        assert_int_equal(append_random_rows(f, rows, &seed, &expected), version);
        counts[version] = counts[version - 1] + rows;
    }
    lines_split(&expected);
    assert_rows(f, 0, &expected);
    for (uint64_t version = 1; version <= 5; version++) {
        assert_int_equal(count_rows_of(f, version), counts[version]);
    }
    struct lance_dataset *dataset = open_version(f, 5);
    const LancePb__Manifest *pb = dataset->manifest->pb;
    assert_int_equal(pb->n_fragments, 4);
    assert_int_equal(pb->max_fragment_id, 3);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pb->fragments[i]->id, i);
    }
    assert_true(pb->has_transaction_section && pb->transaction_file.len > 0); /* both forms */
    assert_int_equal(count_files(f, "_transactions"), 5);
    lance_dataset_unref(dataset);
    lines_fini(&expected);
}

/* The version just published comes from the cache: not one read, whatever happens to the store. */
static void a_published_version_is_in_the_cache(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    struct lance_cache *cache = NULL;
    struct lance_dataset *dataset = NULL;
    struct lance_append *append = NULL;
    struct ArrowArray batch;
    uint64_t version = 0;
    uint64_t seed = 1;
    create_dataset(f, "int32");
    faulty_store_init(&faulty, f->store);
    OK(lance_cache_new(1 << 20, &cache, &f->err));
    OK(lance_dataset_open(faulty.store, cache, "key", 1, &dataset, &f->err));
    random_batch(lance_dataset_schema(dataset), 10, &seed, &batch);
    OK(lance_append_new(faulty.store, dataset, &append, &f->err));
    OK(lance_append_write(append, &batch, &f->err));
    OK(lance_append_commit(append, NULL, &version, &f->err));
    ArrowArrayRelease(&batch);
    lance_append_free(append);
    lance_dataset_unref(dataset);
    uint64_t before = faulty.op_count;
    OK(lance_dataset_open(faulty.store, cache, "key", version, &dataset, &f->err));
    assert_int_equal(faulty.op_count, before);
    assert_int_equal(lance_dataset_row_count(dataset), 10);
    lance_dataset_unref(dataset);
    lance_cache_free(cache);
    faulty_store_fini(&faulty);
}

static void carry_index(LancePb__Manifest *pb, void *context)
{
    (void)context;
    pb->has_max_fragment_id = true;
    pb->max_fragment_id = 41; /* fragments 1 to 41 were deleted */
    pb->has_next_row_id = true;
    pb->next_row_id = 1000;
    pb->has_reader_feature_flags = pb->has_writer_feature_flags = true;
    pb->reader_feature_flags = pb->writer_feature_flags = LANCE_FLAG_STABLE_ROW_IDS;
}

/* Fragment ids are never reused; stable row ids go on where they were. */
static void an_append_continues_ids_and_row_ids(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 6;
    create_dataset(f, "int32");
    (void)append_random_rows(f, 10, &seed, NULL);
    publish_changed(f, carry_index, NULL, (struct lake_bytes){NULL, 0});
    (void)append_random_rows(f, 300, &seed, NULL);
    struct lance_dataset *dataset = open_version(f, 0);
    const LancePb__Manifest *pb = dataset->manifest->pb;
    assert_int_equal(pb->fragments[1]->id, 42);
    assert_int_equal(pb->max_fragment_id, 42);
    assert_int_equal(pb->next_row_id, 1300);
    /* RowIdSequence { segments { range { start: 1000 end: 1300 } } } */
    static const uint8_t row_ids[] = {0x0a, 8, 0x0a, 6, 0x08, 0xe8, 0x07, 0x10, 0x94, 0x0a};
    assert_int_equal(pb->fragments[1]->inline_row_ids.len, sizeof(row_ids));
    assert_memory_equal(pb->fragments[1]->inline_row_ids.data, row_ids, sizeof(row_ids));
    /* { runs { span { range { start: 0 end: 300 } } version: 4 } } */
    static const uint8_t versions[] = {0x0a, 11,   0x0a, 7,    0x0a, 5, 0x08,
                                       0,    0x10, 0xac, 0x02, 0x10, 4};
    assert_int_equal(pb->fragments[1]->inline_created_at_versions.len, sizeof(versions));
    assert_memory_equal(pb->fragments[1]->inline_created_at_versions.data, versions,
                        sizeof(versions));
    lance_dataset_unref(dataset);
}

static void use_up_row_ids(LancePb__Manifest *pb, void *context)
{
    carry_index(pb, context);
    pb->next_row_id = UINT64_MAX - 9;
}

/* Of ten ids that are left, nine are given: the end of a range is a number, too. */
static void row_ids_that_are_used_up_do_not_begin_again(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 7;
    uint64_t version = 0;
    create_dataset(f, "int32");
    publish_changed(f, use_up_row_ids, NULL, (struct lake_bytes){NULL, 0});
    struct lance_append *append = prepare(f, f->store, 10);
    assert_int_equal(lance_append_commit(append, NULL, &version, &f->err), LAKE_RESOURCE_EXHAUSTED);
    lance_append_free(append);
    (void)append_random_rows(f, 9, &seed, NULL);
    assert_int_equal(count_rows_of(f, 0), 9);
}

static void the_index_section_is_carried_over(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 6;
    struct lance_manifest *manifest = NULL;
    struct base_buffer bytes;
    char key[LANCE_KEY_BYTES];
    create_dataset(f, "int32");
    OK(lance_manifest_read(f->store, LANCE_NAMING_V2, 1, &manifest, &f->err));
    LancePb__Manifest pb = *manifest->pb;
    pb.version = 2;
    base_buffer_init(&bytes, 1 << 20);
    OK(lance_manifest_encode(&pb, base_bytes_of_str(LAKE_STR("the indices")),
                             (struct lake_bytes){NULL, 0}, &bytes, &f->err));
    lance_manifest_key(LANCE_NAMING_V2, 2, key);
    OK(storage_put(f->store, base_str_of(key), base_buffer_view(&bytes), &f->err));
    base_buffer_fini(&bytes);
    lance_manifest_unref(manifest);
    assert_int_equal(append_random_rows(f, 10, &seed, NULL), 3);
    struct lance_dataset *dataset = open_version(f, 3);
    assert_true(
        base_str_equal_c((struct lake_str){(const char *)dataset->manifest->index_section.data,
                                           dataset->manifest->index_section.size},
                         "the indices"));
    lance_dataset_unref(dataset);
}

static void a_table_with_v1_names_keeps_them(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 6;
    char from[600];
    char to[600];
    create_dataset(f, "int32");
    (void)snprintf(from, sizeof(from), "%s/_versions/18446744073709551614.manifest",
                   f->directory.path);
    (void)snprintf(to, sizeof(to), "%s/_versions/1.manifest", f->directory.path);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(append_random_rows(f, 10, &seed, NULL), 2);
    struct storage_object_info info;
    OK(storage_stat(f->store, LAKE_STR("_versions/2.manifest"), &info, &f->err));
    assert_int_equal(count_rows_of(f, 0), 10);
}

static void a_null_where_none_may_be_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const types[] = {"int32!", "struct<a: int32!>", "list<int32!>",
                                        "list<struct<a: utf8!>>"};
    static const bool below_null[] = {false, true, true, true};
    for (size_t i = 0; i < BASE_ARRAY_LEN(types); i++) {
        struct ArrowSchema loose;
        struct ArrowSchema strict;
        struct lance_schema tree;
        struct ArrowArray batch;
        struct ArrowSchema *leaf;
        uint64_t seed = 8;
        schema_of(types[i], &strict);
        schema_of(types[i], &loose);
        for (leaf = loose.children[0]; leaf->n_children > 0; leaf = leaf->children[0]) {
        }
        leaf->flags |= ARROW_FLAG_NULLABLE;
        OK(lance_schema_from_arrow(&strict, "2.2", &tree, &f->err));
        random_batch(&strict, 100, &seed, &batch);
        OK(lance_check_nulls(&tree, &batch, &f->err)); /* also with nulls above */
        assert_int_equal(batch.children[0]->null_count > 0, below_null[i]);
        ArrowArrayRelease(&batch);
        random_batch(&loose, 100, &seed, &batch);
        assert_int_equal(lance_check_nulls(&tree, &batch, &f->err), LAKE_INVALID_ARGUMENT);
        ArrowArrayRelease(&batch);
        lance_schema_fini(&tree);
        ArrowSchemaRelease(&loose);
        ArrowSchemaRelease(&strict);
    }
}

static void an_append_that_is_dropped_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    create_dataset(f, "int32, utf8");
    struct lance_append *append = prepare(f, f->store, 100);
    lance_append_free(append);
    assert_int_equal(count_files(f, "data"), 0);
    assert_int_equal(count_files(f, "_versions"), 1);
}

/* ---- the hook and collisions ---- */

struct hook {
    struct fixture *f;
    uint64_t versions[8];
    size_t count;
    size_t steal; /* so many times another writer takes the version first */
    lake_status status;
    struct lake_bytes steal_transaction; /* data NULL: by an append */
};

static void no_change(LancePb__Manifest *pb, void *context)
{
    (void)pb;
    (void)context;
}

static lake_status on_publish(void *context, uint64_t version, struct lake_error *err)
{
    struct hook *hook = context;
    uint64_t seed = version;
    hook->versions[hook->count++] = version;
    if (hook->status != LAKE_OK) {
        return lake_fail(err, hook->status, "the hook says no");
    }
    if (hook->count <= hook->steal) {
        if (hook->steal_transaction.data == NULL) {
            (void)append_random_rows(hook->f, 7, &seed, NULL);
        } else {
            publish_changed(hook->f, no_change, NULL, hook->steal_transaction);
        }
    }
    return LAKE_OK;
}

static lake_status commit_with_hook(struct lance_append *append, struct hook *hook,
                                    uint64_t *version)
{
    struct lance_commit_options options;
    lance_commit_options_init(&options);
    options.before_publish = on_publish;
    options.context = hook;
    return lance_append_commit(append, &options, version, &hook->f->err);
}

static void the_hook_sees_the_version_before_it_is_there(void **state)
{
    struct fixture *f = *state;
    struct hook hook = {.f = f};
    uint64_t version = 0;
    create_dataset(f, "int32");
    struct lance_append *append = prepare(f, f->store, 10);
    OK(commit_with_hook(append, &hook, &version));
    lance_append_free(append);
    assert_int_equal(version, 2);
    assert_int_equal(hook.count, 1);
    assert_int_equal(hook.versions[0], 2);
}

static void a_failing_hook_ends_the_commit_with_nothing_left(void **state)
{
    struct fixture *f = *state;
    struct hook hook = {.f = f, .status = LAKE_PERMISSION_DENIED};
    uint64_t version = 0;
    create_dataset(f, "int32");
    struct lance_append *append = prepare(f, f->store, 10);
    assert_int_equal(commit_with_hook(append, &hook, &version), LAKE_PERMISSION_DENIED);
    lance_append_free(append);
    assert_int_equal(count_files(f, "data"), 0);
    assert_int_equal(count_files(f, "_versions"), 1);
    assert_int_equal(count_files(f, "_transactions"), 1);
}

static void a_lost_race_is_rebased_and_asks_the_hook_again(void **state)
{
    struct fixture *f = *state;
    struct hook hook = {.f = f, .steal = 3};
    uint64_t version = 0;
    create_dataset(f, "int32");
    struct lance_append *append = prepare(f, f->store, 10);
    OK(commit_with_hook(append, &hook, &version));
    lance_append_free(append);
    assert_int_equal(version, 5);
    assert_int_equal(hook.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(hook.versions[i], 2 + i);
    }
    assert_int_equal(count_rows_of(f, 0), 3 * 7 + 10);
}

/* The table was overwritten meanwhile: our rows were meant for another table. */
static void an_overwrite_meanwhile_aborts_the_append(void **state)
{
    struct fixture *f = *state;
    static const uint8_t overwrite[] = {0xb2, 0x06, 0}; /* field 102, empty */
    struct hook hook = {.f = f, .steal = 1, .steal_transaction = {overwrite, sizeof(overwrite)}};
    uint64_t version = 0;
    create_dataset(f, "int32");
    struct lance_append *append = prepare(f, f->store, 10);
    assert_int_equal(commit_with_hook(append, &hook, &version), LAKE_ABORTED);
    lance_append_free(append);
    assert_int_equal(count_files(f, "data"), 0);
    assert_int_equal(count_rows_of(f, 0), 0);
}

/* L12: versions between the base and the newest were cleaned up, so no conflict can be excluded. */
static void case_L12_an_append_over_removed_history_is_aborted(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 3;
    uint64_t version = 0;
    create_dataset(f, "int32");
    struct lance_append *append = prepare(f, f->store, 10);
    for (int i = 0; i < 3; i++) {
        (void)append_random_rows(f, 5, &seed, NULL);
    }
    OK(storage_remove(f->store, LAKE_STR("_versions/18446744073709551613.manifest"), &f->err));
    OK(storage_put(f->store, LAKE_STR("_versions/latest_version_hint.json"),
                   base_bytes_of_str(LAKE_STR("{\"version\":4}")), &f->err));
    assert_int_equal(lance_append_commit(append, NULL, &version, &f->err), LAKE_ABORTED);
    lance_append_free(append);
    assert_int_equal(count_rows_of(f, 0), 15);
}

struct writer {
    pthread_t thread;
    struct fixture *f;
    uint64_t versions[8];
    bool failed;
};

#define WRITERS 4
#define APPENDS 8

static void *write_appends(void *context)
{
    struct writer *writer = context;
    struct fixture local = *writer->f; /* its own error */
    struct fixture *f = &local;
    for (int i = 0; i < APPENDS; i++) {
        struct lance_dataset *base = NULL;
        struct lance_append *append = NULL;
        struct ArrowArray batch;
        uint64_t seed = (uint64_t)i + 1;
        struct lance_commit_options options;
        lance_commit_options_init(&options);
        options.max_attempts = 200;
        if (lance_dataset_open(f->store, NULL, NULL, 0, &base, &f->err) != LAKE_OK) {
            writer->failed = true;
            return NULL;
        }
        random_batch(lance_dataset_schema(base), 11, &seed, &batch);
        writer->failed =
            writer->failed || lance_append_new(f->store, base, &append, &f->err) != LAKE_OK ||
            lance_append_write(append, &batch, &f->err) != LAKE_OK ||
            lance_append_commit(append, &options, &writer->versions[i], &f->err) != LAKE_OK;
        if (writer->failed) {
            print_error("%s\n", f->err.message);
        }
        lance_append_free(append);
        ArrowArrayRelease(&batch);
        lance_dataset_unref(base);
    }
    return NULL;
}

static void racing_appends_all_succeed_each_with_its_own_version(void **state)
{
    struct fixture *f = *state;
    struct writer writers[WRITERS] = {0};
    bool seen[2 + WRITERS * APPENDS] = {0};
    create_dataset(f, "int32, utf8");
    for (size_t i = 0; i < WRITERS; i++) {
        writers[i].f = f;
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_appends, &writers[i]), 0);
    }
    for (size_t i = 0; i < WRITERS; i++) {
        (void)pthread_join(writers[i].thread, NULL);
        assert_false(writers[i].failed);
        for (size_t j = 0; j < APPENDS; j++) {
            uint64_t version = writers[i].versions[j];
            assert_in_range(version, 2, 1 + WRITERS * APPENDS);
            assert_false(seen[version]);
            seen[version] = true;
        }
    }
    assert_int_equal(count_rows_of(f, 0), WRITERS * APPENDS * 11);
    struct lance_dataset *dataset = open_version(f, 0);
    assert_int_equal(lance_dataset_version(dataset), 1 + WRITERS * APPENDS);
    assert_int_equal(lance_dataset_fragment_count(dataset), WRITERS * APPENDS);
    lance_dataset_unref(dataset);
}

/* ---- L21: unknown outcomes ---- */

static lake_status commit_through(struct fixture *f, struct faulty_store *faulty, uint64_t *version)
{
    struct faulty_rule rules[FAULTY_MAX_RULES];
    memcpy(rules, faulty->rules, sizeof(rules));
    faulty_store_clear(faulty);
    struct lance_append *append = prepare(f, faulty->store, 10);
    memcpy(faulty->rules, rules, sizeof(rules));
    lake_status status = lance_append_commit(append, NULL, version, &f->err);
    lance_append_free(append);
    return status;
}

/* A dataset whose next `times` manifests are not put, with `status`. */
static void refuse_manifests(struct fixture *f, struct faulty_store *faulty, uint32_t times,
                             lake_status status)
{
    create_dataset(f, "int32");
    faulty_store_init(faulty, f->store);
    faulty->rules[0] = (struct faulty_rule){
        .ops = FAULTY_PUT_IF_ABSENT, .key = "_versions/", .times = times, .status = status};
}

static void case_L21_a_lost_answer_is_resolved_by_the_transaction(void **state)
{
    struct fixture *f = *state;
    static const lake_status answers[] = {LAKE_UNAVAILABLE, LAKE_DEADLINE_EXCEEDED, LAKE_UNKNOWN,
                                          LAKE_INTERNAL,    LAKE_OUTCOME_UNKNOWN,   LAKE_CANCELLED};
    struct faulty_store faulty;
    create_dataset(f, "int32");
    faulty_store_init(&faulty, f->store);
    for (size_t i = 0; i < BASE_ARRAY_LEN(answers); i++) {
        for (int done = 0; done < 2; done++) {
            uint64_t version = 0;
            faulty.rules[0] = (struct faulty_rule){.ops = FAULTY_PUT_IF_ABSENT,
                                                   .key = "_versions/",
                                                   .times = 1,
                                                   .status = answers[i],
                                                   .done = done != 0};
            OK(commit_through(f, &faulty, &version));
            assert_int_equal(version, 2 + i * 2 + (size_t)done);
            assert_int_equal(count_rows_of(f, 0), 10 * (version - 1));
        }
    }
    faulty_store_fini(&faulty);
}

/* The slow put lands after the status check: the second put finds it, and it is ours. */
static void case_L21_a_put_that_lands_after_the_check_is_ours(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    uint64_t version = 0;
    refuse_manifests(f, &faulty, 1, LAKE_UNAVAILABLE);
    faulty.rules[0].done = true;
    faulty.rules[1] = (struct faulty_rule){.ops = FAULTY_STAT | FAULTY_READ,
                                           .key = "18446744073709551613.manifest",
                                           .skip = 1, /* the probe before the commit */
                                           .times = 1,
                                           .status = LAKE_NOT_FOUND};
    OK(commit_through(f, &faulty, &version));
    assert_int_equal(version, 2);
    assert_int_equal(faulty.rules[1].times, 0);
    assert_int_equal(count_rows_of(f, 0), 10);
    assert_int_equal(count_files(f, "_versions"), 2);
    faulty_store_fini(&faulty);
}

static void another_writer_commits(void *context)
{
    uint64_t seed = 12;
    (void)append_random_rows(context, 5, &seed, NULL);
}

/* A version that is published while a clean-up looks for versions is none of the old ones. */
static void a_version_published_during_a_clean_up_stays(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    struct lance_cleanup_options options;
    struct lance_cleanup_stats stats;
    create_dataset(f, "int32");
    another_writer_commits(f);
    faulty_store_init(&faulty, f->store);
    faulty.rules[0] = (struct faulty_rule){.ops = FAULTY_LIST,
                                           .key = "_versions/",
                                           .skip = 1, /* the one that finds the newest */
                                           .times = 1,
                                           .status = LAKE_OK,
                                           .before = another_writer_commits,
                                           .context = f};
    lance_cleanup_options_init(&options);
    options.older_than_ms = -60000; /* what is to come, too, as if our clock were slow */
    options.grace_ms = 0;
    OK(lance_cleanup(faulty.store, &options, &stats, &f->err));
    assert_int_equal(faulty.rules[0].times, 0);
    assert_int_equal(stats.versions_removed, 1);
    assert_int_equal(stats.versions_kept, 2);
    assert_int_equal(count_rows_of(f, 3), 10);
    assert_int_equal(count_rows_of(f, 2), 5);
    faulty_store_fini(&faulty);
}

/* Our put failed without an answer and another writer has the version: ours is the next. */
static void case_L21_a_version_taken_by_another_is_not_ours(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    uint64_t version = 0;
    refuse_manifests(f, &faulty, 1, LAKE_UNAVAILABLE);
    faulty.rules[0].before = another_writer_commits;
    faulty.rules[0].context = f;
    OK(commit_through(f, &faulty, &version));
    assert_int_equal(version, 3);
    assert_int_equal(count_rows_of(f, 0), 15);
    faulty_store_fini(&faulty);
}

/* When nothing can be learnt the outcome is unknown, and nothing is removed: it may yet appear. */
static void case_L21_an_outcome_that_cannot_be_learnt_removes_nothing(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    uint64_t version = 0;
    refuse_manifests(f, &faulty, 1000, LAKE_UNAVAILABLE);
    assert_int_equal(commit_through(f, &faulty, &version), LAKE_OUTCOME_UNKNOWN);
    assert_int_equal(count_files(f, "data"), 1);
    assert_int_equal(count_files(f, "_transactions"), 2);
    assert_int_equal(count_files(f, "_versions"), 1);
    faulty_store_fini(&faulty);
}

/* A definite refusal is a failure: everything is cleaned up. */
static void a_definite_refusal_of_the_manifest_cleans_up(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    uint64_t version = 0;
    refuse_manifests(f, &faulty, 1, LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(commit_through(f, &faulty, &version), LAKE_RESOURCE_EXHAUSTED);
    assert_int_equal(count_files(f, "data"), 0);
    assert_int_equal(count_files(f, "_transactions"), 1);
    assert_int_equal(count_files(f, "_versions"), 1);
    faulty_store_fini(&faulty);
}

/* ---- the nth failure ---- */

static lake_status append_ten(struct fixture *f, struct storage_store *store, uint64_t *version)
{
    struct lance_dataset *base = NULL;
    struct lance_append *append = NULL;
    struct ArrowArray batch = {.release = NULL};
    uint64_t seed = 31;
    lake_status status = lance_dataset_open(store, NULL, NULL, 0, &base, &f->err);
    if (status == LAKE_OK) {
        random_batch(lance_dataset_schema(base), 10, &seed, &batch);
        status = lance_append_new(store, base, &append, &f->err);
    }
    if (status == LAKE_OK) {
        status = lance_append_write(append, &batch, &f->err);
    }
    if (status == LAKE_OK) {
        status = lance_append_commit(append, NULL, version, &f->err);
    }
    if (batch.release != NULL) {
        ArrowArrayRelease(&batch);
    }
    lance_append_free(append);
    lance_dataset_unref(base);
    return status;
}

/* Success means ten more rows, failure none; unknown means either. The table stays readable. */
static void assert_consistent(struct fixture *f, lake_status status, size_t *rows)
{
    size_t now = count_rows_of(f, 0);
    if (status == LAKE_OK) {
        assert_int_equal(now, *rows + 10);
    } else if (status == LAKE_OUTCOME_UNKNOWN) {
        assert_true(now == *rows || now == *rows + 10);
    } else {
        assert_int_equal(now, *rows);
    }
    *rows = now;
}

static void every_failing_operation_leaves_the_table_consistent(void **state)
{
    struct fixture *f = *state;
    struct faulty_store faulty;
    size_t rows = 0;
    create_dataset(f, "int32, utf8");
    faulty_store_init(&faulty, f->store);
    for (int done = 0; done < 2; done++) {
        bool struck = true;
        for (uint32_t nth = 0; struck; nth++) {
            uint64_t version;
            faulty.rules[0] = (struct faulty_rule){.ops = FAULTY_ANY,
                                                   .skip = nth,
                                                   .times = 1,
                                                   .status = LAKE_UNAVAILABLE,
                                                   .done = done != 0};
            lake_status status = append_ten(f, faulty.store, &version);
            struck = faulty.rules[0].times == 0;
            faulty_store_clear(&faulty);
            assert_consistent(f, status, &rows);
            assert_true(struck || status == LAKE_OK);
            assert_true(nth < 200);
        }
    }
    faulty_store_fini(&faulty);
}

static void every_failing_allocation_leaves_the_table_consistent(void **state)
{
    struct fixture *f = *state;
    size_t rows = 0;
    create_dataset(f, "int32, utf8");
    lake_status status = LAKE_RESOURCE_EXHAUSTED;
    for (uint64_t nth = 1; status != LAKE_OK; nth++) {
        uint64_t version;
        base_fault_fail_nth_alloc(nth);
        status = append_ten(f, f->store, &version);
        base_fault_fail_nth_alloc(0);
        assert_consistent(f, status, &rows);
        assert_true(nth < 100000);
    }
}

/* ---- killed at every step ---- */

static void killed_at_any_step_all_or_nothing_is_visible(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *point;
        bool visible;
    } points[] = {{"lance.append.after_data:1:kill", false},
                  {"lance.commit.after_transaction:1:kill", false},
                  {"lance.commit.before_manifest:1:kill", false},
                  {"lance.commit.after_manifest:1:kill", true}};
    size_t rows = 0;
    create_dataset(f, "int32, utf8");
    for (size_t i = 0; i < BASE_ARRAY_LEN(points); i++) {
        pid_t child = fork();
        if (child == 0) {
            uint64_t version;
            if (base_fault_configure(points[i].point, NULL) == LAKE_OK) {
                (void)append_ten(f, f->store, &version);
            }
            _exit(1); /* the fault point was not reached */
        }
        int exit_status = 0;
        assert_int_equal(waitpid(child, &exit_status, 0), child);
        assert_true(WIFSIGNALED(exit_status));
        rows += points[i].visible ? 10 : 0;
        assert_int_equal(count_rows_of(f, 0), rows);
        uint64_t version;
        OK(append_ten(f, f->store, &version)); /* and writing goes on */
        rows += 10;
        assert_int_equal(count_rows_of(f, 0), rows);
    }
}

/* An append costs a known number of fsyncs: file and directory of data and of manifest. */
static void an_append_syncs_four_times(void **state)
{
    struct fixture *f = *state;
    uint64_t version;
    create_dataset(f, "int32, utf8");
    OK(append_ten(f, f->store, &version));
    uint64_t before = storage_fsync_count();
    OK(append_ten(f, f->store, &version));
    assert_int_equal(storage_fsync_count() - before, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_dataset_says_who_made_it),
        TEST(appends_add_versions_and_keep_the_old_ones),
        TEST(a_published_version_is_in_the_cache),
        TEST(an_append_continues_ids_and_row_ids),
        TEST(row_ids_that_are_used_up_do_not_begin_again),
        TEST(the_index_section_is_carried_over),
        TEST(a_table_with_v1_names_keeps_them),
        TEST(a_null_where_none_may_be_is_refused),
        TEST(an_append_that_is_dropped_leaves_nothing),
        TEST(the_hook_sees_the_version_before_it_is_there),
        TEST(a_failing_hook_ends_the_commit_with_nothing_left),
        TEST(a_lost_race_is_rebased_and_asks_the_hook_again),
        TEST(an_overwrite_meanwhile_aborts_the_append),
        TEST(case_L12_an_append_over_removed_history_is_aborted),
        TEST(racing_appends_all_succeed_each_with_its_own_version),
        TEST(case_L21_a_lost_answer_is_resolved_by_the_transaction),
        TEST(case_L21_a_put_that_lands_after_the_check_is_ours),
        TEST(a_version_published_during_a_clean_up_stays),
        TEST(case_L21_a_version_taken_by_another_is_not_ours),
        TEST(case_L21_an_outcome_that_cannot_be_learnt_removes_nothing),
        TEST(a_definite_refusal_of_the_manifest_cleans_up),
        TEST(every_failing_operation_leaves_the_table_consistent),
        TEST(every_failing_allocation_leaves_the_table_consistent),
        TEST(killed_at_any_step_all_or_nothing_is_visible),
        TEST(an_append_syncs_four_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
