/* Names of manifests, and finding the newest version. */
#include "table_fixture.h"

static void v2_names_count_down_from_the_largest_number(void **state)
{
    (void)state;
    char key[LANCE_KEY_BYTES];
    lance_manifest_key(LANCE_NAMING_V2, 1, key); /* the specification's own example */
    assert_string_equal(key, "_versions/18446744073709551614.manifest");
    lance_manifest_key(LANCE_NAMING_V2, 12, key);
    assert_string_equal(key, "_versions/18446744073709551603.manifest");
    lance_manifest_key(LANCE_NAMING_V1, 12, key);
    assert_string_equal(key, "_versions/12.manifest");
}

static void names_that_are_no_version_are_skipped(void **state)
{
    (void)state;
    static const char *const others[] = {
        "latest_version_hint.json",
        "d9223372036854775809.manifest",
        ".tmp_18446744073709551614.manifest_5f",
        "18446744073709551614.manifest-6f0e9ab6-1f5e-4f57-9b7c-3d5c1d6f6c55",
        "18446744073709551615.manifest", /* version 0 */
        "0.manifest",
        ".manifest",
        "manifest",
        "1x.manifest",
        "-1.manifest",
        "00000000000000000000.manifest", /* detached: bit 63 is set */
        "99999999999999999999.manifest", /* more than 64 bits */
    };
    uint64_t version;
    enum lance_naming naming;
    for (size_t i = 0; i < BASE_ARRAY_LEN(others); i++) {
        assert_false(lance_manifest_name_parse(base_str_of(others[i]), &version, &naming));
    }
    assert_true(
        lance_manifest_name_parse(LAKE_STR("18446744073709551613.manifest"), &version, &naming));
    assert_int_equal(version, 2);
    assert_int_equal(naming, LANCE_NAMING_V2);
    assert_true(lance_manifest_name_parse(LAKE_STR("31.manifest"), &version, &naming));
    assert_int_equal(version, 31);
    assert_int_equal(naming, LANCE_NAMING_V1);
}

static void put_version(struct fixture *f, enum lance_naming naming, uint64_t version)
{
    char key[LANCE_KEY_BYTES];
    lance_manifest_key(naming, version, key);
    OK(storage_put(f->store, base_str_of(key), base_bytes_of_str(LAKE_STR("x")), &f->err));
}

static void remove_version(struct fixture *f, enum lance_naming naming, uint64_t version)
{
    char key[LANCE_KEY_BYTES];
    lance_manifest_key(naming, version, key);
    OK(storage_remove(f->store, base_str_of(key), &f->err));
}

static void assert_latest(struct fixture *f, uint64_t known, uint64_t expected)
{
    uint64_t version = 0;
    OK(lance_latest_version(f->store, known, &version, NULL, &f->err));
    assert_int_equal(version, expected);
}

static void an_empty_directory_has_no_dataset(void **state)
{
    struct fixture *f = *state;
    uint64_t version;
    assert_int_equal(lance_latest_version(f->store, 0, &version, NULL, &f->err), LAKE_NOT_FOUND);
    assert_int_equal(lance_latest_version(f->store, 7, &version, NULL, &f->err), LAKE_NOT_FOUND);
}

static void the_newest_is_found_from_any_known_version(void **state)
{
    struct fixture *f = *state;
    for (uint64_t version = 1; version <= 12; version++) {
        put_version(f, LANCE_NAMING_V2, version);
        for (uint64_t known = 0; known <= version + 1; known++) {
            assert_latest(f, known, version);
        }
    }
}

static void the_newest_of_v1_names_is_found(void **state)
{
    struct fixture *f = *state;
    for (uint64_t version = 1; version <= 12; version++) {
        put_version(f, LANCE_NAMING_V1, version);
    }
    assert_latest(f, 0, 12);
    assert_latest(f, 3, 12);
    assert_latest(f, 100, 12);
}

/* The known version and those after it were cleaned up. */
static void a_removed_known_version_leads_to_a_listing(void **state)
{
    struct fixture *f = *state;
    put_version(f, LANCE_NAMING_V2, 9);
    put_version(f, LANCE_NAMING_V2, 10);
    assert_latest(f, 3, 10);
}

/* L12: version 3 is tagged, 4 to 9 are gone; the hint leads over the gap. */
static void a_gap_above_a_kept_version_is_crossed_by_the_hint(void **state)
{
    struct fixture *f = *state;
    put_version(f, LANCE_NAMING_V2, 3);
    put_version(f, LANCE_NAMING_V2, 10);
    put_version(f, LANCE_NAMING_V2, 11);
    OK(storage_put(f->store, LAKE_STR("_versions/latest_version_hint.json"),
                   base_bytes_of_str(LAKE_STR("{\"version\":10}")), &f->err));
    assert_latest(f, 3, 11);
}

static void a_wrong_hint_changes_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const hints[] = {
        "{\"version\":99}",   "{\"version\":-1}", "{\"version\":1}", "{}", "not json", "",
        "{\"version\":\"5\"}"};
    for (uint64_t version = 1; version <= 4; version++) {
        put_version(f, LANCE_NAMING_V2, version);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(hints); i++) {
        OK(storage_put(f->store, LAKE_STR("_versions/latest_version_hint.json"),
                       base_bytes_of_str(base_str_of(hints[i])), &f->err));
        assert_latest(f, 0, 4);
        assert_latest(f, 2, 4);
        assert_latest(f, 4, 4);
    }
}

static void mixed_naming_schemes_are_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t version;
    put_version(f, LANCE_NAMING_V2, 1);
    put_version(f, LANCE_NAMING_V1, 2);
    assert_int_equal(lance_latest_version(f->store, 0, &version, NULL, &f->err), LAKE_DATA_LOSS);
    remove_version(f, LANCE_NAMING_V1, 2);
    assert_latest(f, 0, 1);
}

static void more_versions_than_a_page_of_a_listing(void **state)
{
    struct fixture *f = *state;
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/_versions", f->directory.path);
    put_version(f, LANCE_NAMING_V1, 1);                      /* makes the directory */
    for (uint64_t version = 2; version <= 2100; version++) { /* unsynced, or it takes long */
        (void)snprintf(path, sizeof(path), "%s/_versions/%d.manifest", f->directory.path,
                       (int)version);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        (void)fclose(file);
    }
    assert_latest(f, 0, 2100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v2_names_count_down_from_the_largest_number),
        cmocka_unit_test(names_that_are_no_version_are_skipped),
        TEST(an_empty_directory_has_no_dataset),
        TEST(the_newest_is_found_from_any_known_version),
        TEST(the_newest_of_v1_names_is_found),
        TEST(a_removed_known_version_leads_to_a_listing),
        TEST(a_gap_above_a_kept_version_is_crossed_by_the_hint),
        TEST(a_wrong_hint_changes_nothing),
        TEST(mixed_naming_schemes_are_refused),
        TEST(more_versions_than_a_page_of_a_listing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
