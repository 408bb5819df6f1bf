/* libs: meta query */
/* Objects in and out (OBJ-1, OBJ-2, OBJ-5, OBJ-6). */
#include "client_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB     ((size_t)1024 * 1024)
#define BIG     (2 * MIB + 17) /* crosses two blocks of the reader */
#define EMPTY   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define OF_ABC  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define OF_QUIK "ef537f25c895bfa782526529a9b63d97aa631564d5d789c2b765448c8635fb6c"

static uint8_t big[BIG];

static void upload_bytes(struct fixture *fixture, const uint8_t *data, size_t size,
                         struct lake_data_location *out)
{
    struct memory_source memory = {data, size, 0, 100003, 0};
    struct lake_source source = {memory_read, &memory};
    OK(fixture, lake_upload_source(fixture->client, source, "application/x-test", NULL, NULL, out,
                                   &fixture->err));
}

static lake_status read_all(lake_reader *reader, uint8_t *out, size_t room, size_t piece,
                            size_t *size, struct lake_error *err)
{
    size_t got = 1;
    lake_status status = LAKE_OK;
    *size = 0;
    while (status == LAKE_OK && got > 0) {
        assert_true(*size < room);
        status = lake_reader_read(reader, out + *size, BASE_MIN(piece, room - *size), &got, err);
        if (status == LAKE_OK)
            *size += got;
    }
    return status;
}

static const char *object_path(const struct lake_data_location *location)
{
    return location->uri + strlen("file://");
}

/* ---- in ---- */

static void an_upload_is_hashed_and_named_in_the_callers_stage(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    char stage[512];
    snprintf(stage, sizeof(stage), "file://%s/objects/tenants/development/",
             fixture->directory.path);
    upload_bytes(fixture, (const uint8_t *)"abc", 3, &location);
    assert_memory_equal(location.uri, stage, strlen(stage));
    assert_string_equal(location.sha256_hex, OF_ABC);
    assert_string_equal(location.media_type, "application/x-test");
    assert_int_equal(location.size_bytes, 3);
    lake_data_location_fini(&location);
    assert_null(location.uri);
    upload_bytes(fixture, NULL, 0, &location);
    assert_string_equal(location.sha256_hex, EMPTY);
    lake_data_location_fini(&location);
}

struct told {
    int64_t last;
    int64_t total;
    int calls;
    int stop_at; /* the call that cancels; 0: none */
};

static bool tell(void *context, int64_t done_bytes, int64_t total_bytes)
{
    struct told *told = context;
    assert_true(done_bytes >= told->last);
    told->last = done_bytes;
    told->total = total_bytes;
    return ++told->calls != told->stop_at;
}

static void progress_is_told_and_cancels(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    struct told told = {0};
    char path[512];
    snprintf(path, sizeof(path), "%s/big.bin", fixture->directory.path);
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(big, 1, BIG, file), BIG);
    fclose(file);
    OK(fixture,
       lake_upload_path(fixture->client, path, NULL, tell, &told, &location, &fixture->err));
    assert_int_equal(told.last, BIG);
    assert_int_equal(told.total, BIG);
    assert_string_equal(location.media_type, "application/octet-stream");
    int before = count_objects(fixture);

    struct told cancelled = {.stop_at = 2};
    struct lake_data_location untouched = {.size_bytes = 7};
    FAILS(
        fixture, LAKE_CANCELLED, "cancelled",
        lake_upload_path(fixture->client, path, NULL, tell, &cancelled, &untouched, &fixture->err));
    assert_int_equal(cancelled.calls, 2);
    assert_int_equal(untouched.size_bytes, 7);
    assert_int_equal(count_objects(fixture), before);

    char target[512];
    snprintf(target, sizeof(target), "%s/copy.bin", fixture->directory.path);
    struct told download = {0};
    OK(fixture, lake_download(fixture->client, &location, target, tell, &download, &fixture->err));
    assert_int_equal(download.last, BIG);
    assert_int_equal(download.total, BIG);
    assert_int_equal(unlink(target), 0);
    struct told stopped = {.stop_at = 1};
    FAILS(fixture, LAKE_CANCELLED, "cancelled",
          lake_download(fixture->client, &location, target, tell, &stopped, &fixture->err));
    assert_int_equal(access(target, F_OK), -1);
    lake_data_location_fini(&location);
}

static int too_much(void *context, void *buffer, size_t size, size_t *got)
{
    (void)context;
    (void)buffer;
    *got = size + 1;
    return 0;
}

static void sources_that_fail_leave_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    int before = count_objects(fixture);
    struct memory_source broken = {big, BIG, 0, 0, EIO};
    FAILS(fixture, LAKE_UNAVAILABLE, "after 2097169 bytes",
          lake_upload_source(fixture->client, (struct lake_source){memory_read, &broken}, NULL,
                             NULL, NULL, &location, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "more bytes than it was asked for",
          lake_upload_source(fixture->client, (struct lake_source){too_much, NULL}, NULL, NULL,
                             NULL, &location, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "no read function",
          lake_upload_source(fixture->client, (struct lake_source){NULL, NULL}, NULL, NULL, NULL,
                             &location, &fixture->err));
    static const char *const bad_types[] = {"", "video", "/mp4", "video/", "vid\xff/mp4"};
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad_types); i++)
        FAILS(fixture, LAKE_INVALID_ARGUMENT, "is not a media type",
              lake_upload_path(fixture->client, "/etc/hostname", bad_types[i], NULL, NULL,
                               &location, &fixture->err));
    assert_int_equal(count_objects(fixture), before);
}

static void only_regular_files_have_paths(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    char pipe_path[512];
    snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", fixture->directory.path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    lake_client *client = fixture->client;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not a regular file",
          lake_upload_path(client, pipe_path, NULL, NULL, NULL, &location, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not a regular file",
          lake_upload_path(client, fixture->directory.path, NULL, NULL, NULL, &location,
                           &fixture->err));
    FAILS(fixture, LAKE_NOT_FOUND, "/no/such/file",
          lake_upload_path(client, "/no/such/file", NULL, NULL, NULL, &location, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "no path",
          lake_upload_path(client, NULL, NULL, NULL, NULL, &location, &fixture->err));
}

/* ---- out ---- */

static void a_whole_object_is_verified_at_its_end(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t back[BIG + 1];
    static const size_t pieces[] = {BIG + 1, MIB, 4096, 1000003};
    struct lake_data_location location;
    lake_reader *reader;
    size_t size;
    upload_bytes(fixture, big, BIG, &location);
    for (size_t i = 0; i < BASE_ARRAY_LEN(pieces); i++) {
        memset(back, 0, sizeof(back));
        OK(fixture, lake_open(fixture->client, &location, &reader, &fixture->err));
        OK(fixture, read_all(reader, back, sizeof(back), pieces[i], &size, &fixture->err));
        assert_int_equal(size, BIG);
        assert_memory_equal(back, big, BIG);
        /* The end stays the end, and a read without room is none. */
        OK(fixture, lake_reader_read(reader, back, 10, &size, &fixture->err));
        assert_int_equal(size, 0);
        FAILS(fixture, LAKE_INVALID_ARGUMENT, "at least one byte",
              lake_reader_read(reader, back, 0, &size, &fixture->err));
        lake_reader_free(reader);
    }
    lake_data_location_fini(&location);
    upload_bytes(fixture, NULL, 0, &location);
    OK(fixture, lake_open(fixture->client, &location, &reader, &fixture->err));
    OK(fixture, read_all(reader, back, sizeof(back), MIB, &size, &fixture->err));
    assert_int_equal(size, 0);
    lake_reader_free(reader);
    lake_data_location_fini(&location);
    lake_reader_free(NULL);
}

/* Flips a byte of the object in the stage. */
static void damage(const struct lake_data_location *location, off_t at)
{
    uint8_t byte;
    assert_int_equal(chmod(object_path(location), 0600), 0);
    int descriptor = open(object_path(location), O_RDWR);
    assert_int_equal(pread(descriptor, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, at), 1);
    close(descriptor);
}

static void a_damaged_object_fails_before_its_last_block_and_stays_failed(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t back[BIG + 1];
    struct lake_data_location location;
    lake_reader *reader;
    size_t size = 0;
    size_t got;
    upload_bytes(fixture, big, BIG, &location);
    damage(&location, 5);
    OK(fixture, lake_open(fixture->client, &location, &reader, &fixture->err));
    FAILS(fixture, LAKE_DATA_LOSS, "SHA-256",
          read_all(reader, back, sizeof(back), 65536, &size, &fixture->err));
    assert_int_equal(size, 2 * MIB); /* the block that would complete it is held back */
    FAILS(fixture, LAKE_DATA_LOSS, "failed before",
          lake_reader_read(reader, back, 10, &got, &fixture->err));
    lake_reader_free(reader);
    lake_data_location_fini(&location);
}

static void short_long_and_missing_objects_are_said(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t back[BIG + 1];
    struct lake_data_location location;
    lake_reader *reader;
    size_t size;
    upload_bytes(fixture, big, BIG, &location);
    assert_int_equal(chmod(object_path(&location), 0600), 0);
    OK(fixture, lake_open(fixture->client, &location, &reader, &fixture->err));
    assert_int_equal(truncate(object_path(&location), MIB + 1), 0);
    FAILS(fixture, LAKE_DATA_LOSS, "ended before",
          read_all(reader, back, sizeof(back), MIB, &size, &fixture->err));
    lake_reader_free(reader);
    FAILS(fixture, LAKE_DATA_LOSS, "has 1048577 bytes",
          lake_open(fixture->client, &location, &reader, &fixture->err));
    assert_int_equal(truncate(object_path(&location), BIG + 1), 0);
    FAILS(fixture, LAKE_DATA_LOSS, "its location says 2097169",
          lake_open(fixture->client, &location, &reader, &fixture->err));
    assert_int_equal(unlink(object_path(&location)), 0);
    FAILS(fixture, LAKE_NOT_FOUND, "not in the stage",
          lake_open(fixture->client, &location, &reader, &fixture->err));
    lake_data_location_fini(&location);
}

static void malformed_locations_are_refused_before_any_read(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location good;
    lake_reader *reader;
    upload_bytes(fixture, (const uint8_t *)"abc", 3, &good);
    struct lake_data_location bad = good;
    bad.sha256_hex[63] = 'D'; /* upper case */
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "malformed",
          lake_open(fixture->client, &bad, &reader, &fixture->err));
    memset(bad.sha256_hex, 'a', sizeof(bad.sha256_hex)); /* 65 digits, no end */
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "malformed",
          lake_open(fixture->client, &bad, &reader, &fixture->err));
    bad = good;
    bad.size_bytes = -1;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "malformed",
          lake_open(fixture->client, &bad, &reader, &fixture->err));
    bad = good;
    bad.uri = NULL;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "malformed",
          lake_open(fixture->client, &bad, &reader, &fixture->err));
    char *escaping =
        base_format("file://%s/objects/tenants/development/../../../x", fixture->directory.path);
    bad = good;
    bad.uri = escaping;
    assert_int_not_equal(lake_open(fixture->client, &bad, &reader, &fixture->err), LAKE_OK);
    base_free(escaping);
    bad.uri = (char *)(uintptr_t) "file:///etc/hostname";
    FAILS(fixture, LAKE_PERMISSION_DENIED, "outside your stage",
          lake_open(fixture->client, &bad, &reader, &fixture->err));
    char *other_tenant =
        base_format("file://%s/objects/tenants/development2/aa/x", fixture->directory.path);
    bad.uri = other_tenant;
    FAILS(fixture, LAKE_PERMISSION_DENIED, "outside your stage",
          lake_open(fixture->client, &bad, &reader, &fixture->err));
    base_free(other_tenant);
    lake_data_location_fini(&good);
}

/* ---- ranges ---- */

static void record_path(const struct lake_data_location *location, char *out, size_t room)
{
    snprintf(out, room, "%s.chunks", object_path(location));
}

static void remove_record(const struct lake_data_location *location)
{
    char path[512];
    record_path(location, path, sizeof(path));
    assert_int_equal(unlink(path), 0);
}

static lake_status read_range(struct fixture *fixture, const struct lake_data_location *location,
                              int64_t start, int64_t end, bool *verified)
{
    static uint8_t back[BIG + 1];
    lake_reader *reader = NULL;
    size_t size = 0;
    lake_status status =
        lake_open_range(fixture->client, location, start, end, &reader, &fixture->err);
    if (status == LAKE_OK) {
        *verified = lake_reader_is_verified(reader);
        status = read_all(reader, back, sizeof(back), 50000, &size, &fixture->err);
    }
    if (status == LAKE_OK && *verified)
        assert_memory_equal(back, big + start, end - start);
    lake_reader_free(reader);
    return status;
}

static void ranges_are_verified_where_chunks_have_digests(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    struct lake_data_location other;
    bool verified = false;
    char path[512];
    char other_path[512];
    upload_bytes(fixture, big, BIG, &location);
    OK(fixture, read_range(fixture, &location, 65536 * 3 + 5, 65536 * 9 - 5, &verified));
    assert_true(verified);
    damage(&location, 65536 * 4);
    OK(fixture, read_range(fixture, &location, 65536 * 5, BIG, &verified));
    assert_true(verified);
    FAILS(fixture, LAKE_DATA_LOSS, "bytes from 262144 on do not have the digest",
          read_range(fixture, &location, 65536 * 3 + 5, 65536 * 9 - 5, &verified));
    damage(&location, 65536 * 4);
    /* A record that is damaged or another object's is said; a missing one makes no claim. */
    record_path(&location, path, sizeof(path));
    upload_bytes(fixture, big, BIG - 1, &other);
    record_path(&other, other_path, sizeof(other_path));
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 500), 0);
    FAILS(fixture, LAKE_DATA_LOSS, "digests of file://",
          read_range(fixture, &location, 0, BIG, &verified));
    assert_int_equal(rename(other_path, path), 0);
    FAILS(fixture, LAKE_DATA_LOSS, "are of another object",
          read_range(fixture, &location, 0, BIG, &verified));
    assert_int_equal(unlink(path), 0);
    OK(fixture, read_range(fixture, &location, 0, BIG, &verified));
    assert_false(verified);
    lake_data_location_fini(&location);
    lake_data_location_fini(&other);
    /* One chunk: the object's own digest. */
    upload_bytes(fixture, big, 65536, &location);
    OK(fixture, read_range(fixture, &location, 7, 8, &verified));
    assert_true(verified);
    damage(&location, 60000);
    FAILS(fixture, LAKE_DATA_LOSS, "do not have the digest",
          read_range(fixture, &location, 7, 8, &verified));
    lake_data_location_fini(&location);
}

static void ranges_are_exact(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t back[BIG + 1];
    static const int64_t good[][2] = {{0, 1},       {0, BIG},           {BIG - 1, BIG},
                                      {7, 1048583}, {1048575, 1048577}, {1048576, 2097152}};
    static const int64_t bad[][2] = {{0, 0},
                                     {5, 5},
                                     {BIG, BIG},
                                     {6, 5},
                                     {-1, 5},
                                     {5, -1},
                                     {0, BIG + 1},
                                     {BIG, BIG + 1},
                                     {BIG + 1, BIG + 2},
                                     {INT64_MAX - 1, INT64_MAX},
                                     {INT64_MIN, INT64_MAX}};
    struct lake_data_location location;
    lake_reader *reader;
    size_t size;
    upload_bytes(fixture, big, BIG, &location);
    for (size_t i = 0; i < BASE_ARRAY_LEN(good); i++) {
        int64_t from = good[i][0];
        int64_t to = good[i][1];
        OK(fixture, lake_open_range(fixture->client, &location, from, to, &reader, &fixture->err));
        OK(fixture, read_all(reader, back, sizeof(back), 777777, &size, &fixture->err));
        assert_int_equal(size, to - from);
        assert_memory_equal(back, big + from, size);
        lake_reader_free(reader);
    }
    for (size_t i = 0; i < BASE_ARRAY_LEN(bad); i++)
        FAILS(fixture, LAKE_OUT_OF_RANGE, "must be within",
              lake_open_range(fixture->client, &location, bad[i][0], bad[i][1], &reader,
                              &fixture->err));
    /* Without digests a range makes no claim of integrity, but of its length. */
    remove_record(&location);
    assert_int_equal(chmod(object_path(&location), 0600), 0);
    assert_int_equal(truncate(object_path(&location), 100), 0);
    OK(fixture, lake_open_range(fixture->client, &location, 50, 101, &reader, &fixture->err));
    assert_false(lake_reader_is_verified(reader));
    FAILS(fixture, LAKE_DATA_LOSS, "ended before",
          read_all(reader, back, sizeof(back), MIB, &size, &fixture->err));
    FAILS(fixture, LAKE_DATA_LOSS, "failed before",
          lake_reader_read(reader, back, 1, &size, &fixture->err));
    lake_reader_free(reader);
    lake_data_location_fini(&location);
}

/* ---- downloads ---- */

static void a_download_replaces_its_target_only_when_it_is_whole(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    char target[512];
    char line[32] = "";
    snprintf(target, sizeof(target), "%s/target", fixture->directory.path);
    FILE *file = fopen(target, "w");
    fputs("older", file);
    fclose(file);
    static const char text_bytes[] = "The quick brown fox jumps over the lazy dog.";
    upload_bytes(fixture, (const uint8_t *)text_bytes, sizeof(text_bytes) - 1, &location);
    assert_string_equal(location.sha256_hex, OF_QUIK);
    damage(&location, 3);
    FAILS(fixture, LAKE_DATA_LOSS, "SHA-256",
          lake_download(fixture->client, &location, target, NULL, NULL, &fixture->err));
    file = fopen(target, "r");
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_string_equal(line, "older");
    damage(&location, 3);
    OK(fixture, lake_download(fixture->client, &location, target, NULL, NULL, &fixture->err));
    file = fopen(target, "r");
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_memory_equal(line, text_bytes, 20);
    FAILS(fixture, LAKE_NOT_FOUND, "cannot create",
          lake_download(fixture->client, &location, "/no/such/directory/file", NULL, NULL,
                        &fixture->err));
    lake_data_location_fini(&location);
}

static void a_query_only_client_reads_and_writes_no_object(void **state)
{
    struct fixture *fixture = *state;
    struct lake_data_location location;
    lake_client *client;
    lake_reader *reader;
    upload_bytes(fixture, (const uint8_t *)"abc", 3, &location);
    OK(fixture, lake_connect_query_only(fixture->address, NULL, &client, &fixture->err));
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "queries only",
          lake_open(client, &location, &reader, &fixture->err));
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "queries only",
          lake_open_range(client, &location, 0, 1, &reader, &fixture->err));
    struct memory_source source = {big, 1, 0, 0, 0};
    struct lake_data_location unused;
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "queries only",
          lake_upload_source(client, (struct lake_source){memory_read, &source}, NULL, NULL, NULL,
                             &unused, &fixture->err));
    lake_client_unref(client);
    lake_data_location_fini(&location);
}

static int setup(void **state)
{
    for (size_t i = 0; i < BIG; i++)
        big[i] = (uint8_t)(i * 2654435761u >> 13);
    return fixture_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upload_is_hashed_and_named_in_the_callers_stage),
        cmocka_unit_test(progress_is_told_and_cancels),
        cmocka_unit_test(sources_that_fail_leave_nothing),
        cmocka_unit_test(only_regular_files_have_paths),
        cmocka_unit_test(a_whole_object_is_verified_at_its_end),
        cmocka_unit_test(a_damaged_object_fails_before_its_last_block_and_stays_failed),
        cmocka_unit_test(short_long_and_missing_objects_are_said),
        cmocka_unit_test(malformed_locations_are_refused_before_any_read),
        cmocka_unit_test(ranges_are_exact),
        cmocka_unit_test(ranges_are_verified_where_chunks_have_digests),
        cmocka_unit_test(a_download_replaces_its_target_only_when_it_is_whole),
        cmocka_unit_test(a_query_only_client_reads_and_writes_no_object),
    };
    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
