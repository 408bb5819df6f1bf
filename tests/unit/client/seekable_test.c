/* libs: meta query */
/* Objects read here and there (SDK-7, O15). */
#include "client_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB  ((int64_t)1024 * 1024)
#define SIZE (20 * MIB + 4321) /* more than is kept */

static uint8_t *bytes;
static struct lake_data_location location;

static const char *object_path(const struct lake_data_location *of)
{
    return of->uri + strlen("file://");
}

static void upload_bytes(struct fixture *fixture, size_t size, struct lake_data_location *out)
{
    struct memory_source memory = {bytes, size, 0, 0, 0};
    struct lake_source source = {memory_read, &memory};
    OK(fixture, lake_upload_source(fixture->client, source, NULL, NULL, NULL, out, &fixture->err));
}

static lake_seekable *open_seekable(struct fixture *fixture, const struct lake_data_location *of)
{
    lake_seekable *seekable = NULL;
    OK(fixture, lake_open_seekable(fixture->client, of, &seekable, &fixture->err));
    return seekable;
}

static void reads_anywhere_give_the_objects_bytes(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t buffer[6 * 1024 * 1024];
    lake_seekable *seekable = open_seekable(fixture, &location);
    uint64_t random = 5;
    assert_int_equal(lake_seekable_size(seekable), SIZE);
    for (int i = 0; i < 400; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t offset = (int64_t)((random >> 20) % (SIZE + 1000));
        size_t size = (size_t)(random >> 40) % (i % 50 == 0 ? sizeof(buffer) : 100000);
        size_t expected = (size_t)BASE_MAX(BASE_MIN(SIZE - offset, (int64_t)size), 0);
        size_t got = 99;
        OK(fixture, lake_seekable_read_at(seekable, offset, buffer, size, &got, &fixture->err));
        assert_int_equal(got, expected);
        assert_memory_equal(buffer, bytes + offset, got);
    }
    assert_int_equal(lake_seekable_tell(seekable), 0);
    lake_seekable_free(seekable);
}

static void a_position_moves_by_what_was_read(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t buffer[70001];
    lake_seekable *seekable = open_seekable(fixture, &location);
    size_t got = 1;
    int64_t at = 0;
    for (; got > 0; at += (int64_t)got) {
        assert_int_equal(lake_seekable_tell(seekable), at);
        OK(fixture, lake_seekable_read(seekable, buffer, sizeof(buffer), &got, &fixture->err));
        assert_memory_equal(buffer, bytes + at, got);
    }
    assert_int_equal(at, SIZE);
    OK(fixture, lake_seekable_seek(seekable, SIZE - 5, &fixture->err));
    OK(fixture, lake_seekable_read(seekable, buffer, sizeof(buffer), &got, &fixture->err));
    assert_int_equal(got, 5);
    OK(fixture, lake_seekable_seek(seekable, INT64_MAX, &fixture->err));
    OK(fixture, lake_seekable_read(seekable, buffer, sizeof(buffer), &got, &fixture->err));
    assert_int_equal(got, 0);
    FAILS(fixture, LAKE_OUT_OF_RANGE, "no byte -1",
          lake_seekable_seek(seekable, -1, &fixture->err));
    FAILS(fixture, LAKE_OUT_OF_RANGE, "no byte -7",
          lake_seekable_read_at(seekable, -7, buffer, 1, &got, &fixture->err));
    assert_int_equal(lake_seekable_tell(seekable), INT64_MAX);
    lake_seekable_free(seekable);
    lake_seekable_free(NULL);
}

static void an_object_without_bytes_has_only_an_end(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location empty;
    uint8_t byte;
    size_t got = 7;
    upload_bytes(fixture, 0, &empty);
    lake_seekable *seekable = open_seekable(fixture, &empty);
    OK(fixture, lake_seekable_read(seekable, &byte, 1, &got, &fixture->err));
    assert_int_equal(got, 0);
    lake_seekable_free(seekable);
    lake_data_location_fini(&empty);
}

static void damaged_chunks_are_never_given_out(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location other;
    static uint8_t buffer[100];
    char path[512];
    size_t got = 7;
    upload_bytes(fixture, (size_t)MIB, &other);
    assert_int_equal(chmod(object_path(&other), 0600), 0);
    int descriptor = open(object_path(&other), O_WRONLY);
    assert_int_equal(pwrite(descriptor, "!", 1, MIB / 2 + 9), 1);
    close(descriptor);
    lake_seekable *seekable = open_seekable(fixture, &other);
    assert_true(lake_seekable_is_verified(seekable));
    OK(fixture, lake_seekable_read_at(seekable, 10, buffer, 100, &got, &fixture->err));
    FAILS(fixture, LAKE_DATA_LOSS, "bytes from 524288 on do not have the digest",
          lake_seekable_read_at(seekable, MIB / 2 + 1000, buffer, 100, &got, &fixture->err));
    lake_seekable_free(seekable);
    snprintf(path, sizeof(path), "%s.chunks", object_path(&other));
    assert_int_equal(unlink(path), 0);
    seekable = open_seekable(fixture, &other);
    assert_false(lake_seekable_is_verified(seekable));
    OK(fixture, lake_seekable_read_at(seekable, MIB / 2, buffer, 100, &got, &fixture->err));
    assert_int_equal(buffer[9], '!');
    lake_seekable_free(seekable);
    lake_data_location_fini(&other);
}

static void objects_that_are_cut_or_gone_are_said(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location other;
    lake_seekable *seekable;
    static uint8_t buffer[100];
    size_t got = 7;
    upload_bytes(fixture, (size_t)MIB, &other);
    seekable = open_seekable(fixture, &other);
    OK(fixture, lake_seekable_read_at(seekable, 10, buffer, 100, &got, &fixture->err));
    assert_int_equal(chmod(object_path(&other), 0600), 0);
    assert_int_equal(truncate(object_path(&other), MIB - 1), 0);
    /* What is kept stays good; the rest is not invented. */
    OK(fixture, lake_seekable_read_at(seekable, 500, buffer, 100, &got, &fixture->err));
    assert_memory_equal(buffer, bytes + 500, 100);
    got = 7;
    FAILS(fixture, LAKE_DATA_LOSS, "not the one that was opened",
          lake_seekable_read_at(seekable, MIB - 50, buffer, 50, &got, &fixture->err));
    assert_int_equal(got, 7);
    lake_seekable_free(seekable);
    FAILS(fixture, LAKE_DATA_LOSS, "its location says 1048576",
          lake_open_seekable(fixture->client, &other, &seekable, &fixture->err));
    assert_int_equal(unlink(object_path(&other)), 0);
    FAILS(fixture, LAKE_NOT_FOUND, "not in the stage",
          lake_open_seekable(fixture->client, &other, &seekable, &fixture->err));
    other.sha256_hex[0] = 'X';
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "malformed",
          lake_open_seekable(fixture->client, &other, &seekable, &fixture->err));
    lake_data_location_fini(&other);
}

static int setup(void **state)
{
    bytes = malloc(SIZE + 1000);
    for (int64_t i = 0; i < SIZE + 1000; i++)
        bytes[i] = (uint8_t)((uint64_t)i * 2654435761u >> 13);
    if (fixture_setup(state) != 0)
        return 1;
    upload_bytes(*state, SIZE, &location);
    return 0;
}

static int teardown(void **state)
{
    lake_data_location_fini(&location);
    free(bytes);
    return fixture_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_anywhere_give_the_objects_bytes),
        cmocka_unit_test(a_position_moves_by_what_was_read),
        cmocka_unit_test(an_object_without_bytes_has_only_an_end),
        cmocka_unit_test(damaged_chunks_are_never_given_out),
        cmocka_unit_test(objects_that_are_cut_or_gone_are_said),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
