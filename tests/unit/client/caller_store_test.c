/* libs: meta query */
/* A client whose objects lie in a store of the caller's own (SDK-1). */
#include "client_fixture.h"

#include <pthread.h>

#define OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

/* ---- a store in memory ---- */

#define MAX_OBJECTS 8

struct object {
    char key[512];
    struct base_buffer bytes;
    unsigned version;
};

struct memory {
    pthread_mutex_t lock;
    struct object objects[MAX_OBJECTS];
    size_t count;
    int writers, aborted, freed;
    lake_status fail_write, fail_commit, fail_read; /* LAKE_OK: does not */
    const char *words;                              /* of a failing commit; NULL: none */
};

struct memory_writer {
    struct memory *memory;
    char key[512];
    struct base_buffer bytes;
};

static struct object *find(struct memory *memory, const char *key)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (strcmp(memory->objects[i].key, key) == 0)
            return &memory->objects[i];
    }
    return NULL;
}

static lake_status say(struct lake_error *err, lake_status status, const char *words)
{
    err->code = status;
    snprintf(err->message, sizeof(err->message), "%s", words);
    return status;
}

static lake_status memory_stat(void *context, const char *key, struct lake_object_info *out,
                               struct lake_error *err)
{
    struct memory *memory = context;
    pthread_mutex_lock(&memory->lock);
    struct object *object = find(memory, key);
    if (object != NULL) {
        out->size_bytes = object->bytes.size;
        snprintf(out->version, sizeof(out->version), "v%u", object->version);
    }
    pthread_mutex_unlock(&memory->lock);
    return object == NULL ? say(err, LAKE_NOT_FOUND, "not in memory") : LAKE_OK;
}

static lake_status memory_read_range(void *context, const char *key, const char *object_version,
                                     uint64_t offset, size_t size_bytes, uint8_t *out,
                                     struct lake_error *err)
{
    struct memory *memory = context;
    lake_status status = LAKE_OK;
    char version[32];
    if (memory->fail_read != LAKE_OK)
        return memory->fail_read;
    pthread_mutex_lock(&memory->lock);
    struct object *object = find(memory, key);
    snprintf(version, sizeof(version), "v%u", object == NULL ? 0 : object->version);
    if (object == NULL)
        status = say(err, LAKE_NOT_FOUND, "not in memory");
    else if (object_version[0] != '\0' && strcmp(object_version, version) != 0)
        status = say(err, LAKE_FAILED_PRECONDITION, "it was replaced");
    else if (offset > object->bytes.size || size_bytes > object->bytes.size - offset)
        status = say(err, LAKE_OUT_OF_RANGE, "it is shorter");
    else
        memcpy(out, object->bytes.data + offset, size_bytes);
    pthread_mutex_unlock(&memory->lock);
    return status;
}

static lake_status memory_open(void *context, const char *key, bool only_if_absent, void **out,
                               struct lake_error *err)
{
    struct memory *memory = context;
    (void)err;
    (void)only_if_absent; /* every key of a test is new, but for the records of digests */
    struct memory_writer *writer = calloc(1, sizeof(*writer));
    assert_non_null(writer);
    writer->memory = memory;
    snprintf(writer->key, sizeof(writer->key), "%s", key);
    base_buffer_init(&writer->bytes, (size_t)1 << 24);
    memory->writers++;
    *out = writer;
    return LAKE_OK;
}

static lake_status memory_write(void *handle, const uint8_t *data, size_t size_bytes,
                                struct lake_error *err)
{
    struct memory_writer *writer = handle;
    if (writer->memory->fail_write != LAKE_OK)
        return writer->memory->fail_write;
    return base_buffer_append(&writer->bytes, data, size_bytes, err);
}

static void memory_abort(void *handle)
{
    struct memory_writer *writer = handle;
    writer->memory->aborted++;
    base_buffer_fini(&writer->bytes);
    free(writer);
}

static lake_status memory_commit(void *handle, struct lake_error *err)
{
    struct memory_writer *writer = handle;
    struct memory *memory = writer->memory;
    if (memory->fail_commit != LAKE_OK) {
        lake_status status = memory->fail_commit;
        base_buffer_fini(&writer->bytes);
        free(writer);
        return memory->words == NULL ? status : say(err, status, memory->words);
    }
    pthread_mutex_lock(&memory->lock);
    struct object *object = find(memory, writer->key);
    if (object == NULL) {
        assert_true(memory->count < MAX_OBJECTS);
        object = &memory->objects[memory->count++];
        snprintf(object->key, sizeof(object->key), "%s", writer->key);
    } else {
        base_buffer_fini(&object->bytes);
    }
    object->bytes = writer->bytes;
    object->version++;
    pthread_mutex_unlock(&memory->lock);
    free(writer);
    return LAKE_OK;
}

static lake_status memory_remove(void *context, const char *key, struct lake_error *err)
{
    (void)context, (void)key;
    return say(err, LAKE_NOT_FOUND, "nothing is removed in these tests");
}

static void memory_free(void *context)
{
    struct memory *memory = context;
    memory->freed++;
}

static const struct lake_store_methods METHODS = {.version = 1,
                                                  .stat = memory_stat,
                                                  .read_range = memory_read_range,
                                                  .writer_open = memory_open,
                                                  .writer_write = memory_write,
                                                  .writer_commit = memory_commit,
                                                  .writer_abort = memory_abort,
                                                  .remove = memory_remove,
                                                  .free = memory_free};

static void memory_fini(struct memory *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        base_buffer_fini(&memory->objects[i].bytes);
    pthread_mutex_destroy(&memory->lock);
}

/* ---- tests ---- */

static lake_status upload(lake_client *client, const char *bytes, struct lake_data_location *out,
                          struct lake_error *err)
{
    struct memory_source from = {(const uint8_t *)bytes, strlen(bytes), 0, 0, 0};
    struct lake_source source = {memory_read, &from};
    return lake_upload_source(client, source, "text/plain", NULL, NULL, out, err);
}

static void objects_go_to_the_callers_store_and_come_back_verified(void **state)
{
    struct fixture *fixture = *state;
    struct memory memory = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct lake_data_location location;
    struct lake_value row[2] = {whole(7), {.kind = LAKE_VALUE_LOCATION}};
    struct lake_insert_result inserted;
    lake_client *client;
    lake_reader *reader;
    char got[8];
    size_t size;
    OK(fixture,
       lake_connect_with_store(fixture->address, NULL, &METHODS, &memory, &client, &fixture->err));
    OK(fixture, upload(client, "abc", &location, &fixture->err));
    assert_string_equal(location.sha256_hex, OF_ABC);
    assert_int_equal(count_objects(fixture), 0); /* none where the server's stage is */
    assert_non_null(strstr(location.uri, memory.objects[0].key));
    assert_memory_equal(memory.objects[0].bytes.data, "abc", 3);

    CREATE(fixture, "own.store", "id:int64", "clip:file");
    row[1].as.location = &location;
    OK(fixture, lake_insert(client, "INSERT INTO own.store (id, clip) VALUES (?, ?)", row, 2,
                            &inserted, &fixture->err));
    lake_insert_result_fini(&inserted);
    assert_int_equal(query_number(fixture, "SELECT clip.size_bytes FROM own.store"), 3);

    OK(fixture, lake_open(client, &location, &reader, &fixture->err));
    OK(fixture, lake_reader_read(reader, got, sizeof(got), &size, &fixture->err));
    assert_int_equal(size, 3);
    assert_memory_equal(got, "abc", 3);
    OK(fixture, lake_reader_read(reader, got, sizeof(got), &size, &fixture->err));
    assert_int_equal(size, 0);
    lake_reader_free(reader);

    memory.objects[0].bytes.data[1] = 'B'; /* damaged where it lies */
    OK(fixture, lake_open(client, &location, &reader, &fixture->err));
    FAILS(fixture, LAKE_DATA_LOSS, "SHA-256",
          lake_reader_read(reader, got, sizeof(got), &size, &fixture->err));
    lake_reader_free(reader);
    FAILS(fixture, LAKE_UNIMPLEMENTED, "",
          lake_presign_read(client, &location, 60, &(struct lake_presigned){0}, &fixture->err));
    lake_data_location_fini(&location);
    assert_int_equal(memory.freed, 0);
    lake_client_unref(client);
    assert_int_equal(memory.freed, 1);
    memory_fini(&memory);
}

static void failures_of_the_callers_store_are_told_and_leave_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct memory memory = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct lake_data_location location;
    lake_client *client;
    lake_reader *reader;
    char got[8];
    size_t size;
    OK(fixture,
       lake_connect_with_store(fixture->address, NULL, &METHODS, &memory, &client, &fixture->err));
    memory.fail_write = LAKE_RESOURCE_EXHAUSTED;
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "the caller's store could not take an object's bytes",
          upload(client, "abc", &location, &fixture->err));
    assert_int_equal(memory.aborted, 1);
    memory.fail_write = LAKE_OK;
    memory.fail_commit = LAKE_UNAVAILABLE;
    memory.words = "the link to the robot is down";
    FAILS(fixture, LAKE_UNAVAILABLE, "the link to the robot is down",
          upload(client, "abc", &location, &fixture->err));
    memory.fail_commit = (lake_status)4711;
    memory.words = NULL;
    FAILS(fixture, LAKE_UNKNOWN, "could not finish an object",
          upload(client, "abc", &location, &fixture->err));
    assert_int_equal(memory.count, 0);
    memory.fail_commit = LAKE_OK;
    OK(fixture, upload(client, "abc", &location, &fixture->err));
    memory.fail_read = LAKE_PERMISSION_DENIED;
    OK(fixture, lake_open(client, &location, &reader, &fixture->err));
    FAILS(fixture, LAKE_PERMISSION_DENIED, "could not read an object",
          lake_reader_read(reader, got, sizeof(got), &size, &fixture->err));
    lake_reader_free(reader);
    memory.fail_read = LAKE_OK;
    OK(fixture, lake_open(client, &location, &reader, &fixture->err));
    memory.objects[0].version++;
    assert_int_not_equal(lake_reader_read(reader, got, sizeof(got), &size, &fixture->err), LAKE_OK);
    lake_reader_free(reader);
    lake_data_location_fini(&location);
    lake_client_unref(client);
    assert_int_equal(memory.freed, 1);
    memory_fini(&memory);
}

static void a_store_that_is_not_whole_stays_the_callers(void **state)
{
    struct fixture *fixture = *state;
    struct memory memory = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct lake_store_methods methods = METHODS;
    lake_client *client = NULL;
    methods.version = 2;
    FAILS(
        fixture, LAKE_INVALID_ARGUMENT, "LAKE_STORE_METHODS_INIT",
        lake_connect_with_store(fixture->address, NULL, &methods, &memory, &client, &fixture->err));
    methods = METHODS;
    methods.remove = NULL;
    FAILS(
        fixture, LAKE_INVALID_ARGUMENT, "every function",
        lake_connect_with_store(fixture->address, NULL, &methods, &memory, &client, &fixture->err));
    FAILS(fixture, LAKE_UNAVAILABLE, "",
          lake_connect_with_store("127.0.0.1:1", NULL, &METHODS, &memory, &client, &fixture->err));
    assert_null(client);
    assert_int_equal(memory.freed, 0);
    int connected = 0, failed = 0;
    for (uint64_t nth = 1, count = 0; count + 1 >= nth; nth++) { /* want of memory at each place */
        base_fault_fail_nth_alloc(nth);
        lake_status status = lake_connect_with_store(fixture->address, NULL, &METHODS, &memory,
                                                     &client, &fixture->err);
        count = base_fault_alloc_count();
        base_fault_fail_nth_alloc(0);
        assert_int_equal(memory.freed, connected);
        if (status == LAKE_OK) {
            lake_client_unref(client);
            connected++;
        }
        failed += status != LAKE_OK;
        assert_int_equal(memory.freed, connected);
    }
    assert_true(failed > 5);
    memory_fini(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_go_to_the_callers_store_and_come_back_verified),
        cmocka_unit_test(failures_of_the_callers_store_are_told_and_leave_nothing),
        cmocka_unit_test(a_store_that_is_not_whole_stays_the_callers),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
