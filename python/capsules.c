/*
 * Python capsules that own Arrow structs (the PyCapsule interface of Arrow's C data interface).
 *
 * A capsule's destructor can run while an exception is under way, where no Python code may run: so
 * it is C. The five functions of Python that are used here are of its stable ABI and come from the
 * interpreter that loads this; it is built without Python's headers and serves every version.
 */
#include <lake/lake.h>
#include <nanoarrow/nanoarrow.h>
#include <stdlib.h>

void *PyCapsule_New(void *pointer, const char *name, void (*destructor)(void *));
void *PyCapsule_GetPointer(void *capsule, const char *name);
void *PyErr_NoMemory(void);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *state);

#define EXPORT __attribute__((visibility("default")))
#define STREAM "arrow_array_stream"
#define SCHEMA "arrow_schema"

static void release_stream(void *capsule)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM);
    if (stream->release != NULL) {
        /* It may wait for the network to let go; nobody else should wait for that. */
        void *state = PyEval_SaveThread();
        stream->release(stream);
        PyEval_RestoreThread(state);
    }
    free(stream);
}

static void release_schema(void *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, SCHEMA);
    if (schema->release != NULL) {
        schema->release(schema);
    }
    free(schema);
}

/* A capsule with the stream, which is moved out of `stream`; NULL with Python's MemoryError. */
EXPORT void *lake_capsule_of_stream(struct ArrowArrayStream *stream)
{
    struct ArrowArrayStream *held = malloc(sizeof(*held));
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    *held = *stream;
    void *capsule = PyCapsule_New(held, STREAM, release_stream);
    if (capsule == NULL) {
        free(held);
        return NULL;
    }
    stream->release = NULL;
    return capsule;
}

/* A capsule with a copy of the schema; NULL with Python's MemoryError. */
EXPORT void *lake_capsule_of_schema(const struct ArrowSchema *schema)
{
    struct ArrowSchema *held = calloc(1, sizeof(*held));
    if (held == NULL || ArrowSchemaDeepCopy(schema, held) != NANOARROW_OK) {
        free(held);
        return PyErr_NoMemory();
    }
    void *capsule = PyCapsule_New(held, SCHEMA, release_schema);
    if (capsule == NULL) {
        held->release(held);
        free(held);
    }
    return capsule;
}
