/* Listing: against every key, sorted and filtered the plain way. */
#include "local.h"
#include "storage_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#define MAX_KEYS 6000

struct keys {
    char *items[MAX_KEYS];
    size_t count;
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Files are made directly: thousands of synced puts would take long. */
static void touch(const struct fixture *f, struct keys *keys, const char *key)
{
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/%s", f->directory.path, key);
    for (char *slash = strchr(path + strlen(f->directory.path) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    keys->items[keys->count++] = strdup(key);
}

static void free_keys(struct keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        free(keys->items[i]);
}

/* Pages through everything with `prefix` and compares with the filtered, sorted keys. */
static void assert_listing(struct fixture *f, struct keys *keys, const char *prefix, size_t limit)
{
    qsort(keys->items, keys->count, sizeof(*keys->items), compare);
    char start[STORAGE_MAX_KEY_BYTES + 1] = "";
    size_t next = 0;
    for (bool more = true; more;) {
        struct storage_list_page page;
        OK(storage_list(f->store, base_str_of(prefix), base_str_of(start), limit, &page, &f->err));
        assert_true(page.count <= limit);
        for (size_t i = 0; i < page.count; i++) {
            while (next < keys->count && strncmp(keys->items[next], prefix, strlen(prefix)) != 0)
                next++;
            assert_true(next < keys->count);
            assert_string_equal(page.entries[i].key, keys->items[next]);
            next++;
        }
        more = page.more;
        if (more) {
            assert_int_equal(page.count, limit);
            (void)snprintf(start, sizeof(start), "%s", page.entries[page.count - 1].key);
        }
        storage_list_page_fini(&page);
    }
    for (; next < keys->count; next++)
        assert_int_not_equal(strncmp(keys->items[next], prefix, strlen(prefix)), 0);
}

static void keys_come_in_byte_order_in_pages_of_any_size(void **state)
{
    struct fixture *f = *state;
    struct keys keys = {.count = 0};
    static const char *const some[] = {"a.b",      "a/b",       "a/b.c/d", "a/b-c/d",  "a0",
                                       "a-/x",     "b/c/d/e/f", "b/c/d0",  "b/c.d",    "z",
                                       "\xC3\xA9", "b/c/d/.e",  "A/x",     "a/b0/..y", "a/bb/c"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(some); i++)
        touch(f, &keys, some[i]);
    static const char *const prefixes[] = {"",     "a",     "a/",     "a/b",  "a/b/",
                                           "a/b.", "b/c/d", "b/c/d/", "none", "none/",
                                           "z",    "zz",    "a/b0/.", "a."};
    for (size_t limit = 1; limit <= BASE_ARRAY_LEN(some) + 1; limit++) {
        for (size_t i = 0; i < BASE_ARRAY_LEN(prefixes); i++)
            assert_listing(f, &keys, prefixes[i], limit);
    }
    free_keys(&keys);
}

/* Start positions that are no keys: between keys, at directories, below them. */
static void listing_starts_after_any_position(void **state)
{
    struct fixture *f = *state;
    struct keys keys = {.count = 0};
    static const char *const some[] = {"a", "b/c", "b/d/e", "b/f", "b0", "c"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(some); i++)
        touch(f, &keys, some[i]);
    static const struct {
        const char *start;
        const char *first;
    } cases[] = {{"", "a"},        {"a", "b/c"},     {"a0", "b/c"},    {"b", "b/c"},
                 {"b/", "b/c"},    {"b/c", "b/d/e"}, {"b/d", "b/d/e"}, {"b/d/", "b/d/e"},
                 {"b/d/e", "b/f"}, {"b/d/z", "b/f"}, {"b/z", "b0"},    {"bz", "c"}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(cases); i++) {
        struct storage_list_page page;
        OK(storage_list(f->store, LAKE_STR(""), base_str_of(cases[i].start), 1, &page, &f->err));
        assert_int_equal(page.count, 1);
        assert_string_equal(page.entries[0].key, cases[i].first);
        storage_list_page_fini(&page);
    }
    struct storage_list_page page;
    OK(storage_list(f->store, LAKE_STR(""), LAKE_STR("c"), 1, &page, &f->err));
    assert_int_equal(page.count, 0);
    assert_false(page.more);
    storage_list_page_fini(&page);
    free_keys(&keys);
}

/* More children than are held at a time, most of them empty directories that give no keys. */
static void large_directories_are_listed_whole(void **state)
{
    struct fixture *f = *state;
    struct keys keys = {.count = 0};
    char key[300];
    for (int i = 0; i < 3500; i++) {
        (void)snprintf(key, sizeof(key), "%s/e%05d", f->directory.path, (i * 7919) % 100003);
        assert_int_equal(mkdir(key, 0700), 0);
    }
    for (int i = 0; i < 2500; i++) {
        (void)snprintf(key, sizeof(key), "f%05d", (i * 7919) % 100003);
        touch(f, &keys, key);
    }
    touch(f, &keys, "zz/last");
    assert_listing(f, &keys, "", 1000);
    assert_listing(f, &keys, "f", 999);
    free_keys(&keys);
}

static void temporary_files_are_not_listed(void **state)
{
    struct fixture *f = *state;
    struct storage_writer *writer;
    OK(storage_put(f->store, LAKE_STR("d/o"), bytes_of("12345"), &f->err));
    OK(storage_writer_open(f->store, LAKE_STR("d/p"), false, &writer, &f->err));
    struct storage_list_page page;
    OK(storage_list(f->store, LAKE_STR("d/"), LAKE_STR(""), 1, &page, &f->err));
    assert_int_equal(page.count, 1);
    assert_false(page.more);
    assert_int_equal(page.entries[0].size_bytes, 5);
    storage_list_page_fini(&page);
    storage_writer_abort(writer);
}

static void limits_and_prefixes_are_checked(void **state)
{
    struct fixture *f = *state;
    struct storage_list_page page;
    struct lake_str none = LAKE_STR("");
    assert_int_equal(storage_list(f->store, none, none, 0, &page, NULL), LAKE_INVALID_ARGUMENT);
    assert_int_equal(storage_list(f->store, none, none, 1001, &page, NULL), LAKE_INVALID_ARGUMENT);
    OK(storage_list(f->store, none, none, 1000, &page, NULL));
    storage_list_page_fini(&page);
    static const char *const bad[] = {"/", "../", "a/../", "a//", "/etc"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        assert_int_equal(storage_list(f->store, base_str_of(bad[i]), none, 1, &page, NULL),
                         LAKE_INVALID_ARGUMENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_come_in_byte_order_in_pages_of_any_size),
        TEST(listing_starts_after_any_position),
        TEST(large_directories_are_listed_whole),
        TEST(temporary_files_are_not_listed),
        TEST(limits_and_prefixes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
