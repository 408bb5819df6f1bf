/* The RocksDB store: reading, scanning, conditional commits, and the limits of each. */
#include "kv_fixture.h"

static void values_are_put_read_replaced_and_deleted(void **state)
{
    struct fixture *f = *state;
    assert_value(f->store, "a", NULL);
    OK(put_one(f->store, "a", "1"));
    assert_value(f->store, "a", "1");
    OK(put_one(f->store, "a", ""));
    assert_value(f->store, "a", "");
    struct kv_write write = {KV_DELETE, bytes_of("a"), {NULL, 0}};
    OK(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err));
    assert_value(f->store, "a", NULL);
    OK(kv_commit(f->store, NULL, 0, &write, 1, NULL, &f->err)); /* absent already */
    OK(kv_commit(f->store, NULL, 0, NULL, 0, NULL, &f->err));
}

static void get_clears_its_buffer_and_respects_its_limit(void **state)
{
    struct fixture *f = *state;
    struct base_buffer buffer;
    OK(put_one(f->store, "a", "12345"));
    base_buffer_init(&buffer, 5);
    OK(base_buffer_append(&buffer, "xyz", 3, NULL));
    OK(kv_get(f->store, bytes_of("a"), &buffer, &f->err));
    assert_memory_equal(buffer.data, "12345", 5);
    assert_int_equal(kv_get(f->store, bytes_of("b"), &buffer, &f->err), LAKE_NOT_FOUND);
    assert_int_equal(buffer.size, 0);
    base_buffer_fini(&buffer);
    base_buffer_init(&buffer, 4);
    assert_int_equal(kv_get(f->store, bytes_of("a"), &buffer, &f->err), LAKE_RESOURCE_EXHAUSTED);
    base_buffer_fini(&buffer);
}

static void conditions_hold_or_nothing_is_written(void **state)
{
    struct fixture *f = *state;
    OK(put_one(f->store, "there", "v"));
    const struct {
        struct kv_condition condition;
        bool holds;
    } cases[] = {
        {{KV_ABSENT, bytes_of("none"), {NULL, 0}}, true},
        {{KV_ABSENT, bytes_of("there"), {NULL, 0}}, false},
        {{KV_PRESENT, bytes_of("there"), {NULL, 0}}, true},
        {{KV_PRESENT, bytes_of("none"), {NULL, 0}}, false},
        {{KV_EQUALS, bytes_of("there"), bytes_of("v")}, true},
        {{KV_EQUALS, bytes_of("there"), bytes_of("w")}, false},
        {{KV_EQUALS, bytes_of("there"), bytes_of("")}, false},
        {{KV_EQUALS, bytes_of("none"), bytes_of("v")}, false},
        {{KV_EQUALS, bytes_of("none"), bytes_of("")}, false},
    };
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        char value[16];
        (void)snprintf(value, sizeof(value), "%zu", i);
        struct kv_condition conditions[] = {{KV_PRESENT, bytes_of("there"), {NULL, 0}},
                                            cases[i].condition};
        struct kv_write writes[] = {put_of("x", value), put_of("y", value)};
        size_t failed = 99;
        OK(put_one(f->store, "x", "before"));
        lake_status status = kv_commit(f->store, conditions, 2, writes, 2, &failed, &f->err);
        assert_int_equal(status, cases[i].holds ? LAKE_OK : LAKE_ABORTED);
        assert_int_equal(failed, cases[i].holds ? 99 : 1);
        assert_value(f->store, "x", cases[i].holds ? value : "before");
    }
}

static void commit_without_writes_only_checks(void **state)
{
    struct fixture *f = *state;
    struct kv_condition condition = {KV_ABSENT, bytes_of("a"), {NULL, 0}};
    OK(kv_commit(f->store, &condition, 1, NULL, 0, NULL, &f->err));
    OK(put_one(f->store, "a", "1"));
    assert_int_equal(kv_commit(f->store, &condition, 1, NULL, 0, NULL, &f->err), LAKE_ABORTED);
}

static lake_status put_sized(struct kv_store *store, size_t key_bytes, size_t value_bytes)
{
    uint8_t *bytes = calloc(1, BASE_MAX(key_bytes, value_bytes) + 1);
    struct kv_write write = {KV_PUT, {bytes, key_bytes}, {bytes, value_bytes}};
    lake_status status = kv_commit(store, NULL, 0, &write, 1, NULL, NULL);
    free(bytes);
    return status;
}

static void limits_hold_on_both_sides(void **state)
{
    struct fixture *f = *state;
    OK(put_sized(f->store, KV_MAX_KEY_BYTES, 1));
    assert_int_equal(put_sized(f->store, KV_MAX_KEY_BYTES + 1, 1), LAKE_INVALID_ARGUMENT);
    assert_int_equal(put_sized(f->store, 0, 1), LAKE_INVALID_ARGUMENT);
    OK(put_sized(f->store, 1, KV_MAX_VALUE_BYTES));
    assert_int_equal(put_sized(f->store, 1, KV_MAX_VALUE_BYTES + 1), LAKE_INVALID_ARGUMENT);
    struct base_buffer buffer;
    base_buffer_init(&buffer, 10);
    assert_int_equal(kv_get(f->store, bytes_of(""), &buffer, NULL), LAKE_INVALID_ARGUMENT);

    char keys[KV_MAX_COMMIT_OPERATIONS + 1][8];
    struct kv_write writes[KV_MAX_COMMIT_OPERATIONS + 1];
    for (size_t i = 0; i < BASE_ARRAY_LEN(writes); i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "w%03zu", i);
        writes[i] = put_of(keys[i], "v");
    }
    OK(kv_commit(f->store, NULL, 0, writes, KV_MAX_COMMIT_OPERATIONS, NULL, NULL));
    assert_int_equal(kv_commit(f->store, NULL, 0, writes, KV_MAX_COMMIT_OPERATIONS + 1, NULL, NULL),
                     LAKE_INVALID_ARGUMENT);
    struct kv_condition condition = {KV_PRESENT, bytes_of("w000"), {NULL, 0}};
    assert_int_equal(
        kv_commit(f->store, &condition, 1, writes, KV_MAX_COMMIT_OPERATIONS, NULL, NULL),
        LAKE_INVALID_ARGUMENT);
    writes[1] = writes[0];
    assert_int_equal(kv_commit(f->store, NULL, 0, writes, 2, NULL, NULL), LAKE_INVALID_ARGUMENT);

    uint8_t *large = calloc(1, KV_MAX_VALUE_BYTES);
    for (size_t i = 0; i < 5; i++) {
        writes[i] = put_of(keys[i], "");
        writes[i].value = (struct lake_bytes){large, KV_MAX_VALUE_BYTES};
    }
    assert_int_equal(kv_commit(f->store, NULL, 0, writes, 4, NULL, NULL), LAKE_INVALID_ARGUMENT);
    OK(kv_commit(f->store, NULL, 0, writes, 3, NULL, NULL));
    free(large);

    struct kv_page page;
    struct lake_bytes none = {NULL, 0};
    assert_int_equal(kv_scan(f->store, none, none, 0, 10, &page, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(kv_scan(f->store, none, none, KV_MAX_SCAN + 1, 10, &page, NULL),
                     LAKE_INVALID_ARGUMENT);
}

/* Pages through `prefix` and joins the keys with spaces. */
static void assert_scan(struct fixture *f, struct lake_bytes prefix, struct lake_bytes start,
                        size_t limit, size_t max_bytes, const char *expected)
{
    char found[4096] = "";
    char last[KV_MAX_KEY_BYTES];
    for (bool more = true; more;) {
        struct kv_page page;
        OK(kv_scan(f->store, prefix, start, limit, max_bytes, &page, &f->err));
        assert_true(page.count <= limit);
        assert_true(!page.more || page.count > 0);
        for (size_t i = 0; i < page.count; i++) {
            size_t used = strlen(found);
            (void)snprintf(found + used, sizeof(found) - used, "%.*s ", (int)page.pairs[i].key.size,
                           (const char *)page.pairs[i].key.data);
        }
        more = page.more;
        if (more) {
            struct lake_bytes key = page.pairs[page.count - 1].key;
            memcpy(last, key.data, key.size);
            start = (struct lake_bytes){(const uint8_t *)last, key.size};
        }
        kv_page_fini(&page);
    }
    assert_string_equal(found, expected);
}

static void scans_give_the_prefix_in_order_in_pages_of_any_size(void **state)
{
    struct fixture *f = *state;
    static const char *const keys[] = {"b/2", "a", "b/10", "b", "b/1", "b0", "b/1/x", "c"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(keys); i++)
        OK(put_one(f->store, keys[i], "value"));
    struct lake_bytes none = {NULL, 0};
    for (size_t limit = 1; limit <= 9; limit++) {
        assert_scan(f, none, none, limit, 1000, "a b b/1 b/1/x b/10 b/2 b0 c ");
        assert_scan(f, bytes_of("b/"), none, limit, 1000, "b/1 b/1/x b/10 b/2 ");
        assert_scan(f, bytes_of("b/"), bytes_of("a"), limit, 1000, "b/1 b/1/x b/10 b/2 ");
        assert_scan(f, bytes_of("b/"), bytes_of("b/1"), limit, 1000, "b/1/x b/10 b/2 ");
        assert_scan(f, bytes_of("b/"), bytes_of("b/11"), limit, 1000, "b/2 ");
        assert_scan(f, bytes_of("b/"), bytes_of("b/2"), limit, 1000, "");
        assert_scan(f, bytes_of("b/"), bytes_of("zzz"), limit, 1000, "");
        assert_scan(f, bytes_of("nothing"), none, limit, 1000, "");
        assert_scan(f, none, bytes_of("b0"), limit, 1000, "c ");
    }
    /* A byte limit below one pair still gives one pair a page. */
    for (size_t max_bytes = 0; max_bytes < 30; max_bytes++)
        assert_scan(f, bytes_of("b/"), none, 10, max_bytes, "b/1 b/1/x b/10 b/2 ");
}

static void page_stops_before_the_pair_that_exceeds_its_bytes(void **state)
{
    struct fixture *f = *state;
    OK(put_one(f->store, "a", "1234"));
    OK(put_one(f->store, "b", "1234"));
    OK(put_one(f->store, "c", "1234"));
    struct lake_bytes none = {NULL, 0};
    struct kv_page page;
    OK(kv_scan(f->store, none, none, 10, 9, &page, &f->err));
    assert_int_equal(page.count, 1);
    assert_true(page.more);
    kv_page_fini(&page);
    OK(kv_scan(f->store, none, none, 10, 10, &page, &f->err));
    assert_int_equal(page.count, 2);
    assert_true(page.more);
    kv_page_fini(&page);
    OK(kv_scan(f->store, none, none, 10, SIZE_MAX, &page, &f->err));
    assert_int_equal(page.count, 3);
    assert_false(page.more);
    assert_memory_equal(page.pairs[2].value.data, "1234", 4);
    kv_page_fini(&page);
}

static void prefixes_of_the_largest_bytes_have_an_end_too(void **state)
{
    struct fixture *f = *state;
    OK(put_one(f->store, "\xFE", "1"));
    OK(put_one(f->store, "\xFE\xFF\xFF", "1"));
    OK(put_one(f->store, "\xFF", "1"));
    OK(put_one(f->store, "\xFF\xFF", "1"));
    OK(put_one(f->store, "\xFF\xFF\x01", "1"));
    struct lake_bytes none = {NULL, 0};
    assert_scan(f, bytes_of("\xFE\xFF"), none, 10, 100, "\xFE\xFF\xFF ");
    assert_scan(f, bytes_of("\xFF\xFF"), none, 10, 100, "\xFF\xFF \xFF\xFF\x01 ");
    assert_scan(f, bytes_of("\xFE"), none, 10, 100, "\xFE \xFE\xFF\xFF ");
}

/* Random commits, reopened now and then, against an array as the model. */
static void store_agrees_with_a_model(void **state)
{
    struct fixture *f = *state;
    char model[50][16];
    memset(model, 0, sizeof(model)); /* "": absent */
    uint32_t random = 12345;
    for (int step = 0; step < 600; step++) {
        random = random * 1664525 + 1013904223;
        size_t a = (random >> 8) % 50;
        size_t b = (random >> 16) % 50;
        bool expect_present = (random >> 29) % 2 == 0;
        char key_a[8];
        char key_b[8];
        char value[16];
        (void)snprintf(key_a, sizeof(key_a), "k%02zu", a);
        (void)snprintf(key_b, sizeof(key_b), "k%02zu", b);
        (void)snprintf(value, sizeof(value), "v%d", step);
        struct kv_condition condition = {KV_ABSENT, bytes_of(key_a), {NULL, 0}};
        if (expect_present)
            condition = (struct kv_condition){KV_EQUALS, bytes_of(key_a), bytes_of(model[a])};
        bool present = model[a][0] != '\0';
        struct kv_write write = put_of(key_b, value);
        if ((random >> 30) % 2 == 0)
            write.kind = KV_DELETE;
        lake_status status = kv_commit(f->store, &condition, 1, &write, 1, NULL, &f->err);
        assert_int_equal(status, present == expect_present ? LAKE_OK : LAKE_ABORTED);
        if (status == LAKE_OK)
            (void)snprintf(model[b], sizeof(model[b]), "%s", write.kind == KV_PUT ? value : "");
        if (step % 200 == 199)
            fixture_reopen(f);
    }
    for (size_t i = 0; i < 50; i++) {
        char key[8];
        (void)snprintf(key, sizeof(key), "k%02zu", i);
        assert_value(f->store, key, model[i][0] == '\0' ? NULL : model[i]);
    }
}

static void directory_open_in_this_process_is_refused(void **state)
{
    struct fixture *f = *state;
    struct kv_store *second;
    assert_int_equal(kv_rocksdb_open(f->path, &second, &f->err), LAKE_FAILED_PRECONDITION);
    assert_non_null(strstr(f->err.message, "in use by this process"));
}

static void unusable_directory_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct kv_store *store;
    assert_int_not_equal(kv_rocksdb_open("/proc/nowhere/db", &store, &f->err), LAKE_OK);
    assert_true(f->err.message[0] != '\0');
}

/* Open, commit, read, scan: with the nth I/O or allocation failing. */
static lake_status live(const char *path)
{
    struct kv_store *store = NULL;
    struct base_buffer buffer;
    struct kv_page page = {.count = 0};
    base_buffer_init(&buffer, 100);
    lake_status status = kv_rocksdb_open(path, &store, NULL);
    if (status == LAKE_OK)
        status = put_one(store, "a", "1");
    if (status == LAKE_OK)
        status = kv_get(store, bytes_of("a"), &buffer, NULL);
    if (status == LAKE_OK)
        status = kv_scan(store, bytes_of(""), bytes_of(""), 10, 100, &page, NULL);
    kv_page_fini(&page);
    base_buffer_fini(&buffer);
    kv_close(store);
    return status;
}

static void every_failing_step_is_an_error_and_harms_nothing(void **state)
{
    struct fixture *f = *state;
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/faulty", f->directory.path);
    uint64_t nth = 1;
    for (bool more = true; more; nth++) {
        base_fault_fail_nth_io(nth);
        lake_status status = live(path);
        more = base_fault_io_count() >= nth;
        base_fault_fail_nth_io(0);
        assert_int_equal(status, more ? LAKE_UNAVAILABLE : LAKE_OK);
    }
    assert_true(nth > 5);
    nth = 1;
    for (bool more = true; more; nth++) {
        base_fault_fail_nth_alloc(nth);
        lake_status status = live(path);
        more = base_fault_alloc_count() >= nth;
        base_fault_fail_nth_alloc(0);
        assert_int_equal(status, more ? LAKE_RESOURCE_EXHAUSTED : LAKE_OK);
    }
    assert_true(nth > 5);
    OK(live(path));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_are_put_read_replaced_and_deleted),
        TEST(get_clears_its_buffer_and_respects_its_limit),
        TEST(conditions_hold_or_nothing_is_written),
        TEST(commit_without_writes_only_checks),
        TEST(limits_hold_on_both_sides),
        TEST(scans_give_the_prefix_in_order_in_pages_of_any_size),
        TEST(page_stops_before_the_pair_that_exceeds_its_bytes),
        TEST(prefixes_of_the_largest_bytes_have_an_end_too),
        TEST(store_agrees_with_a_model),
        TEST(directory_open_in_this_process_is_refused),
        TEST(unusable_directory_is_an_error),
        TEST(every_failing_step_is_an_error_and_harms_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
