#include "arrow_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char file_magic[] = "ARROW1";
#define FILE_HEAD_BYTES 8  /* the magic and its padding */
#define FILE_TAIL_BYTES 10 /* the footer's length and the magic */
/* Of a footer: 24 a message. */
#define MAX_FOOTER_BYTES ((uint32_t)64 << 20)

/* Bytes in memory, a file read as far as it is needed, or a pipe. */
struct ipc_source {
    struct lake_bytes bytes; /* of memory; data NULL for a file */
    int fd;
    bool piped;                    /* it is read once, front to back, and `end` is not known */
    bool file;                     /* of the file format, whose messages have an end of their own */
    uint8_t head[FILE_HEAD_BYTES]; /* what a pipe began with */
    size_t head_left;              /* of these, not taken yet: the last ones */
    uint64_t position;
    uint64_t end; /* messages stop here at the latest */
};

struct ipc_stream {
    struct ipc_source source;
    struct arrow_ipc_limits limits;
    struct arrow_ipc_decoder *decoder;
    struct arrow_file_blocks blocks; /* of a file that has a footer; else no offsets */
    size_t next_block;
    uint64_t left_bytes; /* of such a file's messages: more would be some of them twice */
    uint8_t *header;
    size_t header_capacity;
    bool ended;
    struct lake_error error;
};

static lake_status read_at(struct ipc_source *source, uint64_t position, void *out, size_t size,
                           struct lake_error *err)
{
    if (source->bytes.data != NULL) {
        memcpy(out, source->bytes.data + position, size);
        return LAKE_OK;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t got =
            pread(source->fd, (uint8_t *)out + done, size - done, (off_t)(position + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return base_fail_errno(err, errno, "reading an Arrow file");
        }
        if (got == 0) {
            return lake_fail(err, LAKE_DATA_LOSS, "an Arrow file became shorter while it was read");
        }
        done += (size_t)got;
    }
    return LAKE_OK;
}

/* As many as there are, up to `size`. */
static lake_status read_pipe(struct ipc_source *source, uint8_t *out, size_t size, size_t *got,
                             struct lake_error *err)
{
    size_t done = BASE_MIN(size, source->head_left);
    memcpy(out, source->head + FILE_HEAD_BYTES - source->head_left, done);
    source->head_left -= done;
    while (done < size) {
        ssize_t more = read(source->fd, out + done, size - done);
        if (more < 0 && errno == EINTR) {
            continue;
        }
        if (more < 0) {
            return base_fail_errno(err, errno, "reading an Arrow stream");
        }
        if (more == 0) {
            break;
        }
        done += (size_t)more;
    }
    source->position += done;
    *got = done;
    return LAKE_OK;
}

static lake_status take(struct ipc_source *source, void *out, uint64_t size, struct lake_error *err)
{
    if (source->piped) {
        size_t got = 0;
        lake_status status = read_pipe(source, out, (size_t)size, &got, err);
        return status != LAKE_OK || got == size
                   ? status
                   : lake_fail(err, LAKE_INVALID_ARGUMENT,
                               "an Arrow stream ends at byte %llu inside a message",
                               (unsigned long long)source->position);
    }
    if (size > source->end - source->position) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an Arrow stream ends at byte %llu inside a message",
                         (unsigned long long)source->end);
    }
    lake_status status = read_at(source, source->position, out, (size_t)size, err);
    if (status == LAKE_OK) {
        source->position += size;
    }
    return status;
}

/* The next body: borrowed from memory, or read into memory that the batch then owns. */
static lake_status take_body(struct ipc_stream *stream, uint64_t size, struct arrow_ipc_body *out,
                             struct lake_error *err)
{
    struct ipc_source *source = &stream->source;
    if (!source->piped && size > source->end - source->position) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an Arrow stream ends at byte %llu inside a message",
                         (unsigned long long)source->end);
    }
    if (source->bytes.data != NULL) {
        *out =
            (struct arrow_ipc_body){.bytes = {source->bytes.data + source->position, (size_t)size}};
        source->position += size;
        return LAKE_OK;
    }
    uint8_t *memory = base_alloc((size_t)size);
    if (memory == NULL) {
        return base_fail_no_memory(err, (size_t)size);
    }
    lake_status status = take(source, memory, size, err);
    if (status != LAKE_OK) {
        base_free(memory);
        return status;
    }
    *out = (struct arrow_ipc_body){
        .bytes = {memory, (size_t)size}, .release = base_free, .context = memory};
    return LAKE_OK;
}

static lake_status take_header(struct ipc_stream *stream, uint32_t size, struct lake_error *err)
{
    if (size > stream->header_capacity) {
        uint8_t *grown = base_alloc(size);
        if (grown == NULL) {
            return base_fail_no_memory(err, size);
        }
        base_free(stream->header);
        stream->header = grown;
        stream->header_capacity = size;
    }
    return take(&stream->source, stream->header, size, err);
}

/* The next frame's first bytes; *end when the source has none. */
static lake_status take_prefix(struct ipc_source *source, uint8_t prefix[8], bool *end,
                               struct lake_error *err)
{
    size_t got = 0;
    *end = !source->piped && source->position == source->end;
    if (*end || !source->piped) {
        return *end ? LAKE_OK : take(source, prefix, 8, err);
    }
    lake_status status = read_pipe(source, prefix, 8, &got, err);
    *end = status == LAKE_OK && got == 0 && !source->file;
    if (status == LAKE_OK && got < 8 && !*end) {
        status =
            lake_fail(err, LAKE_INVALID_ARGUMENT, "an Arrow stream ends too early, at byte %llu",
                      (unsigned long long)source->position);
    }
    return status;
}

/* What comes after the messages is taken, so that whoever writes it can. */
static void drain_pipe(struct ipc_source *source)
{
    uint8_t rest[4096];
    size_t got = sizeof(rest);
    while (source->piped && source->file && got == sizeof(rest) &&
           read_pipe(source, rest, sizeof(rest), &got, NULL) == LAKE_OK) {
    }
}

/* Goes to where the footer says that the next message is; *end when it knows no other. */
static lake_status next_block(struct ipc_stream *stream, bool *end, struct lake_error *err)
{
    if (stream->next_block == stream->blocks.count) {
        *end = true;
        return LAKE_OK;
    }
    uint64_t offset = stream->blocks.offsets[stream->next_block++];
    if (offset >= stream->source.end) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the footer of an Arrow file has a message at %llu, behind all of them",
                         (unsigned long long)offset);
    }
    stream->source.position = offset;
    return LAKE_OK;
}

/* A footer that names messages many times would make much of a small file. */
static lake_status check_block(struct ipc_stream *stream, enum arrow_frame_kind frame,
                               uint64_t frame_bytes, struct lake_error *err)
{
    if (frame == ARROW_FRAME_END || frame_bytes > stream->left_bytes) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the footer of an Arrow file names messages that are not there, or twice");
    }
    stream->left_bytes -= frame_bytes;
    return LAKE_OK;
}

/* Decodes one message; *end when there is none left. */
static lake_status next_message(struct ipc_stream *stream, enum arrow_ipc_kind *kind,
                                struct ArrowArray *out, bool *end, struct lake_error *err)
{
    uint8_t prefix[8];
    uint32_t size;
    uint64_t body_bytes;
    enum arrow_frame_kind frame;
    struct arrow_ipc_body body;
    bool over = stream->ended;
    bool blocks = stream->blocks.offsets != NULL;
    lake_status status = blocks && !over ? next_block(stream, &over, err) : LAKE_OK;
    if (status == LAKE_OK && !over) {
        status = take_prefix(&stream->source, prefix, &over, err);
    }
    if (status == LAKE_OK && !over) {
        status = arrow_frame_prefix(prefix, stream->limits.max_metadata_bytes, &frame, &size, err);
    }
    if (status == LAKE_OK && !over && blocks) {
        status = check_block(stream, frame, (uint64_t)size + sizeof(prefix), err);
    }
    if (status != LAKE_OK) {
        return status;
    }
    if (over || frame == ARROW_FRAME_END) {
        if (!stream->ended) {
            drain_pipe(&stream->source);
        }
        stream->ended = true;
        *end = true;
        return LAKE_OK;
    }
    status = take_header(stream, size, err);
    struct lake_bytes header = {stream->header, size};
    if (status == LAKE_OK) {
        status = arrow_frame_body_bytes(header, stream->limits.max_body_bytes, &body_bytes, err);
    }
    if (status == LAKE_OK && blocks) {
        status = check_block(stream, frame, body_bytes, err);
    }
    if (status == LAKE_OK) {
        status = take_body(stream, body_bytes, &body, err);
    }
    if (status == LAKE_OK) {
        *end = false;
        status = arrow_ipc_decode(stream->decoder, header, &body, kind, out, err);
    }
    return status;
}

static int stream_get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    struct ipc_stream *stream = self->private_data;
    int code = ArrowSchemaDeepCopy(arrow_ipc_decoder_schema(stream->decoder), out);
    if (code != NANOARROW_OK) {
        base_fail_no_memory(&stream->error, 0);
    }
    return code;
}

static int stream_get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    struct ipc_stream *stream = self->private_data;
    enum arrow_ipc_kind kind = ARROW_IPC_SCHEMA;
    bool end = false;
    lake_status status = LAKE_OK;
    out->release = NULL;
    while (status == LAKE_OK && !end && kind != ARROW_IPC_BATCH) {
        status = next_message(stream, &kind, out, &end, &stream->error);
    }
    return arrow_errno_of(status);
}

static const char *stream_get_last_error(struct ArrowArrayStream *self)
{
    struct ipc_stream *stream = self->private_data;
    return stream->error.message[0] == '\0' ? NULL : stream->error.message;
}

static void stream_free(struct ipc_stream *stream)
{
    arrow_ipc_decoder_free(stream->decoder);
    base_free(stream->header);
    base_free(stream->blocks.offsets);
    if (stream->source.fd >= 0) {
        close(stream->source.fd);
    }
    base_free(stream);
}

static void stream_release(struct ArrowArrayStream *self)
{
    stream_free(self->private_data);
    self->release = NULL;
}

/* The same for a pipe: a file's messages come behind its magic, and its footer is not needed. */
static lake_status begin_pipe(struct ipc_source *source, struct lake_error *err)
{
    size_t got = 0;
    lake_status status = read_pipe(source, source->head, sizeof(source->head), &got, err);
    if (status == LAKE_OK && got < sizeof(source->head)) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%zu bytes are too few for an Arrow file or stream", got);
    }
    source->file = memcmp(source->head, file_magic, 6) == 0;
    source->head_left = source->file ? 0 : sizeof(source->head);
    source->position -= source->head_left;
    return status;
}

/* The schema and where the messages are, by a footer of `size` bytes at the source's end. */
static lake_status read_footer(struct ipc_stream *stream, uint32_t size, struct lake_error *err)
{
    const void *schema = NULL;
    if (size > MAX_FOOTER_BYTES) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the footer of an Arrow file has %u bytes, the limit is %u", size,
                         MAX_FOOTER_BYTES);
    }
    uint8_t *footer = base_alloc(size);
    if (footer == NULL) {
        return base_fail_no_memory(err, size);
    }
    lake_status status = read_at(&stream->source, stream->source.end, footer, size, err);
    if (status == LAKE_OK) {
        status = arrow_file_footer_decode((struct lake_bytes){footer, size}, &schema,
                                          &stream->blocks, err);
    }
    if (status == LAKE_OK) {
        status = arrow_ipc_decoder_start_file(stream->decoder, schema, err);
    }
    base_free(footer);
    return status;
}

/* Finds out whether this is a file or a stream, and where its messages are. */
static lake_status find_messages(struct ipc_stream *stream, struct lake_error *err)
{
    struct ipc_source *source = &stream->source;
    if (source->piped) {
        return begin_pipe(source, err);
    }
    uint8_t head[FILE_HEAD_BYTES];
    uint8_t tail[FILE_TAIL_BYTES];
    uint64_t size = source->end;
    if (size < FILE_HEAD_BYTES) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%llu bytes are too few for an Arrow file or stream",
                         (unsigned long long)size);
    }
    lake_status status = read_at(source, 0, head, sizeof(head), err);
    if (status != LAKE_OK || memcmp(head, file_magic, 6) != 0) {
        return status;
    }
    if (size < FILE_HEAD_BYTES + FILE_TAIL_BYTES) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "an Arrow file of %llu bytes has no footer",
                         (unsigned long long)size);
    }
    status = read_at(source, size - FILE_TAIL_BYTES, tail, sizeof(tail), err);
    if (status != LAKE_OK) {
        return status;
    }
    uint32_t footer = base_load_u32le(tail);
    if (memcmp(tail + 4, file_magic, 6) != 0 || footer > size - FILE_HEAD_BYTES - FILE_TAIL_BYTES) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "an Arrow file has no valid footer: it may have been cut");
    }
    source->end = stream->left_bytes = size - FILE_TAIL_BYTES - footer;
    return read_footer(stream, footer, err);
}

/* Takes over source->fd in every case. */
static lake_status open_source(const struct ipc_source *source,
                               const struct arrow_ipc_limits *limits, struct ArrowArrayStream *out,
                               struct lake_error *err)
{
    struct ipc_stream *stream = base_calloc_array(1, sizeof(*stream));
    if (stream == NULL) {
        if (source->fd >= 0) {
            close(source->fd);
        }
        return base_fail_no_memory(err, sizeof(*stream));
    }
    stream->source = *source;
    stream->limits = limits == NULL ? arrow_ipc_limits_default() : *limits;
    enum arrow_ipc_kind kind;
    struct ArrowArray unused = {.release = NULL};
    bool end = false;
    lake_status status = arrow_ipc_decoder_new(&stream->limits, &stream->decoder, err);
    if (status == LAKE_OK) {
        status = find_messages(stream, err);
    }
    if (status == LAKE_OK && arrow_ipc_decoder_schema(stream->decoder) == NULL) {
        status = next_message(stream, &kind, &unused, &end, err);
        if (status == LAKE_INVALID_ARGUMENT && stream->source.file) {
            status = lake_fail_wrap(err, status,
                                    "this Arrow file does not start with its schema, as one that "
                                    "comes through a pipe must: give the name of the file");
        }
    }
    if (status == LAKE_OK && end) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "an Arrow stream has no schema");
    }
    if (status != LAKE_OK) {
        stream_free(stream);
        return status;
    }
    *out = (struct ArrowArrayStream){
        .get_schema = stream_get_schema,
        .get_next = stream_get_next,
        .get_last_error = stream_get_last_error,
        .release = stream_release,
        .private_data = stream,
    };
    return LAKE_OK;
}

lake_status arrow_ipc_open_bytes(struct lake_bytes bytes, const struct arrow_ipc_limits *limits,
                                 struct ArrowArrayStream *out, struct lake_error *err)
{
    struct ipc_source source = {.bytes = bytes, .fd = -1, .end = bytes.size};
    return open_source(&source, limits, out, err);
}

lake_status arrow_ipc_open_file(const char *path, const struct arrow_ipc_limits *limits,
                                struct ArrowArrayStream *out, struct lake_error *err)
{
    struct stat info = {.st_mode = 0};
    bool input = strcmp(path, "/dev/stdin") == 0; /* a socket cannot be opened by that name */
    int fd = input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return base_fail_errno(err, errno, "opening \"%s\"", path);
    }
    bool known = fstat(fd, &info) == 0;
    bool piped = known && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) ||
                           (S_ISCHR(info.st_mode) && !isatty(fd)));
    if (!piped && (!known || !S_ISREG(info.st_mode))) {
        close(fd);
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "\"%s\" is neither a file nor a pipe", path);
    }
    struct ipc_source source = {
        .fd = fd, .piped = piped, .end = piped ? UINT64_MAX : (uint64_t)info.st_size};
    return open_source(&source, limits, out, err);
}

static lake_status write_all(int fd, struct iovec *parts, size_t count, struct lake_error *err)
{
    while (count > 0) {
        int batch = (int)BASE_MIN(count, (size_t)64);
        ssize_t written = writev(fd, parts, batch);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return base_fail_errno(err, errno, "writing an Arrow stream");
        }
        size_t left = (size_t)written;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return LAKE_OK;
}

static lake_status write_message(const struct arrow_ipc_message *message, int fd,
                                 struct lake_error *err)
{
    uint8_t prefix[8];
    base_store_u32le(prefix, 0xFFFFFFFFu);
    base_store_u32le(prefix + 4, (uint32_t)message->header_bytes);
    struct iovec *parts = base_alloc_array(message->part_count + 2, sizeof(*parts));
    if (parts == NULL) {
        return base_fail_no_memory(err, message->part_count);
    }
    parts[0] = (struct iovec){prefix, sizeof(prefix)};
    parts[1] = (struct iovec){message->header, message->header_bytes};
    for (size_t i = 0; i < message->part_count; i++) {
        const struct arrow_ipc_part *part = &message->parts[i];
        const uint8_t *data = part->data == NULL ? arrow_zeros : part->data;
        parts[i + 2] = (struct iovec){(void *)(uintptr_t)data, part->size};
    }
    lake_status status = write_all(fd, parts, message->part_count + 2, err);
    base_free(parts);
    return status;
}

/* Takes over `array`. */
static lake_status write_batch(struct arrow_ipc_encoder *encoder, struct ArrowArray *array, int fd,
                               struct lake_error *err)
{
    struct arrow_batch *batch;
    struct arrow_ipc_message *messages = NULL;
    size_t count = 0;
    lake_status status = arrow_batch_new(array, &batch, err);
    if (status != LAKE_OK) {
        return status;
    }
    status = arrow_ipc_encode_batch(encoder, batch, &messages, &count, err);
    for (size_t i = 0; i < count; i++) {
        if (status == LAKE_OK) {
            status = write_message(&messages[i], fd, err);
        }
        arrow_ipc_message_fini(&messages[i]);
    }
    base_free(messages);
    arrow_batch_unref(batch);
    return status;
}

static lake_status stream_failed(struct ArrowArrayStream *stream, int code, struct lake_error *err)
{
    const char *message = stream->get_last_error(stream);
    return lake_fail(err, code == ENOMEM ? LAKE_RESOURCE_EXHAUSTED : LAKE_UNKNOWN,
                     "reading record batches: %s", message == NULL ? strerror(code) : message);
}

lake_status arrow_ipc_write_fd(struct ArrowArrayStream *stream, int fd, struct lake_error *err)
{
    struct ArrowSchema schema;
    struct arrow_ipc_encoder *encoder = NULL;
    struct arrow_ipc_message message;
    int code = stream->get_schema(stream, &schema);
    if (code != 0) {
        return stream_failed(stream, code, err);
    }
    lake_status status = arrow_ipc_encoder_new(&schema, &encoder, err);
    ArrowSchemaRelease(&schema);
    if (status == LAKE_OK) {
        status = arrow_ipc_encode_schema(encoder, &message, err);
    }
    if (status == LAKE_OK) {
        status = write_message(&message, fd, err);
        arrow_ipc_message_fini(&message);
    }
    while (status == LAKE_OK) {
        struct ArrowArray array;
        code = stream->get_next(stream, &array);
        if (code != 0) {
            status = stream_failed(stream, code, err);
        } else if (array.release == NULL) {
            break;
        } else {
            status = write_batch(encoder, &array, fd, err);
        }
    }
    if (status == LAKE_OK) {
        static const uint8_t end_of_stream[8] = {0xFF, 0xFF, 0xFF, 0xFF};
        struct iovec end = {(void *)(uintptr_t)end_of_stream, sizeof(end_of_stream)};
        status = write_all(fd, &end, 1, err);
    }
    arrow_ipc_encoder_free(encoder);
    return status;
}
