/* A scan as an Arrow C stream: for tools and for whoever takes one. */
#include "lance.h"

#include <errno.h>
#include <string.h>

struct scan_stream {
    struct lance_scan *scan;
    struct lance_task *task;
    struct lake_error error;
};

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    struct scan_stream *state = stream->private_data;
    return ArrowSchemaDeepCopy(lance_scan_schema(state->scan), out);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct scan_stream *state = stream->private_data;
    memset(out, 0, sizeof(*out));
    for (;;) {
        bool end = false;
        if (state->task == NULL &&
            lance_scan_next_task(state->scan, &state->task, &state->error) != LAKE_OK) {
            return EIO;
        }
        if (state->task == NULL) {
            return 0;
        }
        if (lance_task_next(state->task, out, &end, &state->error) != LAKE_OK) {
            return EIO;
        }
        lake_error_clear(&state->error); /* of what was tried with more rows at a time */
        if (!end) {
            return 0;
        }
        lance_task_free(state->task);
        state->task = NULL;
    }
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    struct scan_stream *state = stream->private_data;
    return state->error.message;
}

static void release(struct ArrowArrayStream *stream)
{
    struct scan_stream *state = stream->private_data;
    lance_task_free(state->task);
    lance_scan_free(state->scan);
    base_free(state);
    stream->release = NULL;
}

lake_status lance_scan_stream(struct lance_dataset *dataset,
                              const struct lance_scan_options *options,
                              struct ArrowArrayStream *out, struct lake_error *err)
{
    struct scan_stream *state = base_calloc_array(1, sizeof(*state));
    if (state == NULL) {
        return base_fail_no_memory(err, sizeof(*state));
    }
    lake_status status = lance_scan_new(dataset, options, &state->scan, err);
    if (status != LAKE_OK) {
        base_free(state);
        return status;
    }
    *out = (struct ArrowArrayStream){.get_schema = get_schema,
                                     .get_next = get_next,
                                     .get_last_error = get_last_error,
                                     .release = release,
                                     .private_data = state};
    return LAKE_OK;
}

lake_status lance_scan_stream_status(const struct ArrowArrayStream *stream)
{
    if (stream->release != release) {
        return LAKE_OK;
    }
    const struct scan_stream *state = stream->private_data;
    return state->error.code;
}
