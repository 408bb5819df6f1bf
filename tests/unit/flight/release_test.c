/* labels: concurrent */
/* Buffers that the transport lets go of on its own threads while the sender goes on. */
#include <flight/flight.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#define THREADS  4
#define MESSAGES 200

/* A transport that keeps the parts and releases each on one of its threads. */
struct transport {
    pthread_mutex_t lock; /* guards the list */
    struct rpc_part parts[MESSAGES * 8];
    size_t count;
    size_t taken;
    bool closed;
    atomic_size_t checked;
};

static bool take_part(struct transport *transport, struct rpc_part *out, bool *closed)
{
    pthread_mutex_lock(&transport->lock);
    bool any = transport->taken < transport->count;
    if (any) {
        *out = transport->parts[transport->taken++];
    }
    *closed = transport->closed;
    pthread_mutex_unlock(&transport->lock);
    return any;
}

static void *run(void *context)
{
    struct transport *transport = context;
    bool closed = false;
    for (;;) {
        struct rpc_part part;
        if (take_part(transport, &part, &closed)) {
            /* The bytes are still there: the number that each column is full of. */
            const int64_t *values = part.data;
            size_t count = part.size / sizeof(*values);
            if (values[0] == values[count - 1]) {
                atomic_fetch_add(&transport->checked, 1);
            }
            part.release(part.context);
        } else if (closed) {
            return NULL;
        }
    }
}

static lake_status keep(void *context, struct rpc_part *parts, size_t part_count,
                        struct lake_error *err)
{
    struct transport *transport = context;
    (void)err;
    pthread_mutex_lock(&transport->lock);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].release != NULL) {
            transport->parts[transport->count++] = parts[i];
        }
    }
    pthread_mutex_unlock(&transport->lock);
    return LAKE_OK;
}

static struct arrow_batch *filled(const struct ArrowSchema *schema, int64_t value)
{
    struct ArrowArray array;
    struct arrow_batch *batch;
    assert_int_equal(ArrowArrayInitFromSchema(&array, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(&array), 0);
    for (int i = 0; i < 4000; i++) {
        for (int64_t c = 0; c < array.n_children; c++) {
            assert_int_equal(ArrowArrayAppendInt(array.children[c], value), 0);
        }
        assert_int_equal(ArrowArrayFinishElement(&array), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), 0);
    assert_int_equal(arrow_batch_new(&array, &batch, NULL), LAKE_OK);
    return batch;
}

static void a_batch_lives_until_the_last_buffer_is_let_go(void **state)
{
    (void)state;
    static struct transport transport = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct flight_sender sender = {keep, &transport};
    const struct lake_bytes none = {NULL, 0};
    struct flight_stream_writer *writer;
    struct ArrowSchema schema;
    pthread_t threads[THREADS];
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 2), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ArrowSchemaSetType(schema.children[i], NANOARROW_TYPE_INT64), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run, &transport), 0);
    }
    assert_int_equal(flight_stream_writer_new(sender, &schema, NULL, &writer, NULL), LAKE_OK);
    assert_int_equal(flight_stream_writer_begin(writer, none, none, NULL), LAKE_OK);
    for (int64_t i = 0; i < MESSAGES; i++) {
        struct arrow_batch *batch = filled(&schema, i);
        assert_int_equal(flight_stream_writer_write(writer, batch, NULL), LAKE_OK);
        arrow_batch_unref(batch);
    }
    flight_stream_writer_free(writer);
    pthread_mutex_lock(&transport.lock);
    transport.closed = true;
    pthread_mutex_unlock(&transport.lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(transport.count, MESSAGES * 2);
    assert_int_equal(transport.checked, MESSAGES * 2);
    ArrowSchemaRelease(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_lives_until_the_last_buffer_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
