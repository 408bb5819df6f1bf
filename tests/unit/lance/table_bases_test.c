/* libs: lance */
/* Files that lie outside a version's own directory, tags, branches, and columns split over files.
 */
#include "table_dataset.h"

#define CLONE "clone"

/* A version 1 below `directory` whose files are those of the newest version of f->store. */
struct clone {
    LancePb__BasePath base;
    LancePb__BasePath *bases[1];
    bool is_root;
    const char *path;
};

static void write_clone(struct fixture *f, const char *directory, struct clone *clone)
{
    uint64_t version;
    enum lance_naming naming;
    struct lance_manifest *manifest = NULL;
    struct base_buffer bytes;
    char key[LANCE_KEY_BYTES], path[LANCE_KEY_BYTES + 64];
    OK(lance_versions_latest(f->store, 0, &version, &naming, NULL, &f->err));
    OK(lance_manifest_read(f->store, naming, version, &manifest, &f->err));
    LancePb__Manifest pb = *manifest->pb;
    lance_pb__base_path__init(&clone->base);
    clone->base.has_id = clone->base.has_path = clone->base.has_is_dataset_root = true;
    clone->base.is_dataset_root = clone->is_root;
    clone->base.path = lance_pb_text(clone->path);
    clone->bases[0] = &clone->base;
    pb.base_paths = clone->bases;
    pb.n_base_paths = 1;
    pb.version = 1;
    pb.has_transaction_file = false;
    pb.has_reader_feature_flags = true;
    pb.reader_feature_flags |= LANCE_FLAG_BASE_PATHS;
    for (size_t i = 0; i < pb.n_fragments; i++) {
        for (size_t k = 0; k < pb.fragments[i]->n_files; k++)
            pb.fragments[i]->files[k]->has_base_id = true;
        if (pb.fragments[i]->deletion_file != NULL)
            pb.fragments[i]->deletion_file->has_base_id = true;
    }
    base_buffer_init(&bytes, 16 << 20);
    OK(lance_manifest_encode(&pb, (struct lake_bytes){0}, (struct lake_bytes){0}, &bytes, &f->err));
    lance_manifest_key(LANCE_NAMING_V2, 1, key);
    (void)snprintf(path, sizeof(path), "%s/%s", directory, key);
    OK(storage_put_if_absent(f->store, base_str_of(path), base_buffer_view(&bytes), &f->err));
    base_buffer_fini(&bytes);
    lance_manifest_unref(manifest);
}

static lake_status scan_all(struct lance_dataset *dataset, struct lines *out,
                            struct lake_error *err)
{
    uint32_t columns[8];
    struct lance_scan_options options;
    struct lance_scan *scan = NULL;
    all_columns(dataset, columns, &options);
    lake_status status = lance_scan_new(dataset, &options, &scan, err);
    if (status == LAKE_OK)
        status = drain(scan, options.batch_rows, out, err);
    if (status == LAKE_OK)
        lines_split(out);
    lance_scan_free(scan);
    return status;
}

struct opener {
    struct storage_store *store;
    const char *expected;
    int calls;
};

static lake_status open_base(void *context, const char *path, struct storage_store **out,
                             struct lake_error *err)
{
    struct opener *opener = context;
    opener->calls++;
    if (strcmp(path, opener->expected) != 0)
        return lake_fail(err, LAKE_PERMISSION_DENIED, "%s may not be read", path);
    *out = storage_store_ref(opener->store);
    return LAKE_OK;
}

static void a_clone_is_read_only_where_the_opener_lets_it(void **state)
{
    struct fixture *f = *state;
    struct storage_store *store = NULL;
    struct lance_dataset *dataset = NULL;
    struct lines expected, actual;
    uint64_t seed = 5;
    struct clone clone = {.is_root = true, .path = "s3://elsewhere/table.lance"};
    lines_init(&expected);
    lines_init(&actual);
    create_dataset(f, "int64,utf8");
    append_random_rows(f, 300, &seed, &expected);
    lines_split(&expected);
    write_clone(f, CLONE, &clone);
    OK(storage_child_open(f->store, LAKE_STR(CLONE), &store, &f->err));

    OK(lance_dataset_open(store, NULL, NULL, 0, &dataset, &f->err));
    assert_int_equal(scan_all(dataset, &actual, &f->err), LAKE_UNIMPLEMENTED);
    assert_non_null(strstr(f->err.message, "cannot be read") == NULL
                        ? strstr(f->err.message, clone.path)
                        : strstr(f->err.cause, clone.path));
    lance_dataset_unref(dataset);

    struct lance_open_options options;
    struct opener opener = {.store = f->store, .expected = clone.path};
    lance_open_options_init(&options);
    options.open_base = open_base;
    options.context = &opener;
    OK(lance_dataset_open_with(store, NULL, NULL, &options, &dataset, &f->err));
    assert_int_equal(opener.calls, 1);
    assert_true(lance_dataset_store(dataset) == store);
    OK(scan_all(dataset, &actual, &f->err));
    assert_same_lines(&actual, &expected);
    lance_dataset_unref(dataset);

    opener.expected = "another place";
    assert_int_equal(lance_dataset_open_with(store, NULL, NULL, &options, &dataset, &f->err),
                     LAKE_PERMISSION_DENIED);
    storage_store_unref(store);
    lines_fini(&expected);
    lines_fini(&actual);
}

/* A branch's files are those of its root, however the writer of the branch named that place. */
static void a_branch_reads_its_root_without_an_opener(void **state)
{
    struct fixture *f = *state;
    struct lines expected;
    uint64_t seed = 6;
    char relative[512], dotted[512];
    const char *directory = storage_store_uri(f->store) + strlen("file://");
    const char *last = strrchr(directory, '/') + 1;
    (void)snprintf(relative, sizeof(relative), "%s/", last);
    (void)snprintf(dotted, sizeof(dotted), "./%s", last);
    const char *const names[] = {storage_store_uri(f->store), directory, last, relative, dotted};
    lines_init(&expected);
    create_dataset(f, "int64,utf8");
    append_random_rows(f, 100, &seed, &expected);
    lines_split(&expected);
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++) {
        struct lance_open_options options;
        struct lance_dataset *dataset = NULL;
        struct lines actual;
        char branch[32], path[64];
        struct clone clone = {.is_root = true, .path = names[i]};
        (void)snprintf(branch, sizeof(branch), "robots/b%zu", i);
        (void)snprintf(path, sizeof(path), "tree/%s", branch);
        write_clone(f, path, &clone);
        lance_open_options_init(&options);
        options.branch = branch;
        lines_init(&actual);
        OK(lance_dataset_open_with(f->store, NULL, NULL, &options, &dataset, &f->err));
        assert_true(lance_dataset_store(dataset) != f->store);
        OK(scan_all(dataset, &actual, &f->err));
        assert_same_lines(&actual, &expected);
        lance_dataset_unref(dataset);
        lines_fini(&actual);
    }
    lines_fini(&expected);
}

static lake_status open_ref(struct fixture *f, const char *branch, const char *tag,
                            uint64_t *version)
{
    struct lance_open_options options;
    struct lance_dataset *dataset = NULL;
    lance_open_options_init(&options);
    options.branch = branch;
    options.tag = tag;
    lake_status status = lance_dataset_open_with(f->store, NULL, NULL, &options, &dataset, &f->err);
    if (status == LAKE_OK) {
        *version = lance_dataset_version(dataset);
        lance_dataset_unref(dataset);
    }
    return status;
}

static void put_text(struct fixture *f, const char *key, const char *text)
{
    OK(storage_put(f->store, base_str_of(key),
                   (struct lake_bytes){(const uint8_t *)text, strlen(text)}, &f->err));
}

static void a_tag_opens_its_version_and_a_bad_one_is_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        lake_status expected;
    } damaged[] = {{"", LAKE_DATA_LOSS},
                   {"{}", LAKE_DATA_LOSS},
                   {"[1]", LAKE_DATA_LOSS},
                   {"{\"version\": -1}", LAKE_DATA_LOSS},
                   {"{\"version\": \"1\"}", LAKE_DATA_LOSS},
                   {"{\"version\": 1, \"branch\": 7}", LAKE_DATA_LOSS},
                   {"{\"version\": 1, \"branch\": \"../..\"}", LAKE_DATA_LOSS},
                   {"{\"version\": 1, \"branch\": \"a//b\"}", LAKE_DATA_LOSS},
                   {"{\"version\": 1, \"branch\": \"gone\"}", LAKE_NOT_FOUND},
                   {"{\"version\": 99}", LAKE_NOT_FOUND}};
    static const char *const names[] = {"", ".", "..", "a/b", ".a", "a.", "a..b", "x.lock", "a b"};
    uint64_t seed = 7, version = 0;
    create_dataset(f, "int64");
    append_random_rows(f, 10, &seed, NULL);
    put_text(f, "_refs/tags/v1.0.json", "{\"version\": 1, \"branch\": null, \"metadata\": {}}");
    OK(open_ref(f, NULL, "v1.0", &version));
    assert_int_equal(version, 1);
    OK(open_ref(f, NULL, NULL, &version));
    assert_int_equal(version, 2);
    for (size_t i = 0; i < BASE_ARRAY_LEN(damaged); i++) {
        put_text(f, "_refs/tags/t.json", damaged[i].text);
        assert_int_equal(open_ref(f, NULL, "t", &version), damaged[i].expected);
    }
    assert_int_equal(open_ref(f, NULL, "none", &version), LAKE_NOT_FOUND);
    for (size_t i = 0; i < BASE_ARRAY_LEN(names); i++) {
        assert_int_equal(open_ref(f, NULL, names[i], &version), LAKE_INVALID_ARGUMENT);
        if (strcmp(names[i], "a/b") != 0)
            assert_int_equal(open_ref(f, names[i], NULL, &version), LAKE_INVALID_ARGUMENT);
    }
    assert_int_equal(open_ref(f, "a/b", NULL, &version), LAKE_NOT_FOUND);
    assert_int_equal(open_ref(f, "a", "v1.0", &version), LAKE_INVALID_ARGUMENT);
}

/* ---- bases that contradict the format ---- */

static void name_a_base_that_is_not_there(LancePb__Manifest *pb, void *context)
{
    (void)context;
    pb->fragments[0]->files[0]->has_base_id = true;
    pb->fragments[0]->files[0]->base_id = 3;
}

static void a_base_that_the_manifest_lacks_is_damage(void **state)
{
    struct fixture *f = *state;
    struct lines actual;
    uint64_t seed = 8;
    create_dataset(f, "int64");
    append_random_rows(f, 10, &seed, NULL);
    publish_changed(f, name_a_base_that_is_not_there, NULL, (struct lake_bytes){0});
    struct lance_dataset *dataset = open_version(f, 0);
    lines_init(&actual);
    assert_int_equal(scan_all(dataset, &actual, &f->err), LAKE_DATA_LOSS);
    lines_fini(&actual);
    lance_dataset_unref(dataset);
}

/* ---- columns that are split over files, or superseded ---- */

/* The second append's file becomes a second file of the first fragment, which holds only the
 * fields that `moved` says; those are tombstones in the first file. */
struct split {
    const char *moved; /* a digit for each field id */
    LancePb__DataFile files[2];
    LancePb__DataFile *list[2];
};

static void split_first_fragment(LancePb__Manifest *pb, void *context)
{
    struct split *split = context;
    for (size_t i = 0; i < 2; i++) {
        split->files[i] = *pb->fragments[i]->files[0];
        split->list[i] = &split->files[i];
        for (size_t k = 0; k < split->files[i].n_fields; k++) {
            bool moved = strchr(split->moved, '0' + split->files[i].fields[k]) != NULL;
            if (moved != (i == 1))
                split->files[i].fields[k] = -2;
        }
    }
    pb->fragments[0]->files = split->list;
    pb->fragments[0]->n_files = 2;
    pb->n_fragments = 1;
}

/* A struct of which one member comes from one file and one from another reads as one column; the
 * expectation is the same rows written as one file. */
static void a_column_is_read_from_the_files_that_hold_its_parts(void **state)
{
    struct fixture *f = *state;
    struct lines first, second, actual;
    uint64_t seed = 9, again = 9;
    struct split split = {.moved = "3"}; /* field ids: 0, the struct 1, x 2, y 3, 4 */
    create_dataset(f, "int64,struct<x: int32, y: utf8>,int64");
    lines_init(&first);
    lines_init(&second);
    lines_init(&actual);
    append_random_rows(f, 200, &seed, &first);
    append_random_rows(f, 200, &again, &second); /* the same rows once more */
    lines_split(&first);
    publish_changed(f, split_first_fragment, &split, (struct lake_bytes){0});
    struct lance_dataset *dataset = open_version(f, 0);
    OK(scan_all(dataset, &actual, &f->err));
    assert_same_lines(&actual, &first);
    lance_dataset_unref(dataset);
    lines_fini(&first);
    lines_fini(&second);
    lines_fini(&actual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_clone_is_read_only_where_the_opener_lets_it),
        TEST(a_branch_reads_its_root_without_an_opener),
        TEST(a_tag_opens_its_version_and_a_bad_one_is_refused),
        TEST(a_base_that_the_manifest_lacks_is_damage),
        TEST(a_column_is_read_from_the_files_that_hold_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
