/*
 * arrow: Arrow arrays, schemas and the IPC format.
 *
 * Arrays and schemas travel in the Arrow C data interface (struct ArrowSchema, struct ArrowArray),
 * built and read with nanoarrow, whose header this one includes. IPC messages are walked by our own
 * code in both directions: encoding borrows the batch's buffers and knows dictionaries and slices,
 * decoding checks every length and offset before it touches a buffer (docs/folders/arrow.md).
 *
 * Thread rule: an encoder, decoder or reader belongs to one thread at a time.
 */
#ifndef ARROW_ARROW_H
#define ARROW_ARROW_H

#include <base/base.h>
#include <nanoarrow/nanoarrow.h>

/* ---- the FILE logical type (NAT-3, DESIGN 12): the one module that knows its shape ---- */

#define ARROW_FILE_EXTENSION_NAME     "lake.file"
#define ARROW_FILE_EXTENSION_METADATA "{\"version\":1}"

struct arrow_file_value { /* views into the array it was read from */
    struct lake_str uri;
    struct lake_str media_type;
    int64_t size_bytes;
    struct lake_str sha256_hex;
};
#define ARROW_JSON_EXTENSION_NAME "arrow.json" /* over utf8: documents as text */

/* True for a field whose extension type (ARROW:extension:name of its metadata) has this name. */
bool arrow_extension_is(const struct ArrowSchema *field, const char *name);
/* Gives the field an extension type: its name, and its own metadata unless that is NULL; with name
 * NULL none. Other metadata stays. RESOURCE_EXHAUSTED. */
lake_status arrow_extension_set(struct ArrowSchema *field, const char *name, const char *metadata,
                                struct lake_error *err);

/* Initialises `out` as a FILE field: struct<uri, media_type, size_bytes, sha256> with metadata. */
lake_status arrow_file_schema_init(struct ArrowSchema *out, const char *name, bool nullable,
                                   struct lake_error *err);
/* True for a field that carries the extension name and has exactly the right children. */
bool arrow_file_schema_is(const struct ArrowSchema *field);
/* Row `row` of a FILE column. NOT_FOUND for a null; DATA_LOSS when a child is null, the size is
 * negative or the digest is not 64 lower-case hexadecimal digits. */
lake_status arrow_file_value_get(const struct ArrowSchema *field, const struct ArrowArray *column,
                                 int64_t row, struct arrow_file_value *out, struct lake_error *err);
/* Appends to a FILE column under construction (ArrowArrayStartAppending was called). NULL: a null
 */
lake_status arrow_file_value_append(struct ArrowArray *column, const struct arrow_file_value *value,
                                    struct lake_error *err);
/* FILE columns may stand at the top, in structs and in lists; INVALID_ARGUMENT elsewhere, and for a
 * field that carries the name without the shape. */
lake_status arrow_file_schema_check(const struct ArrowSchema *schema, struct lake_error *err);
/* True for a FILE and for what has one below it. */
bool arrow_file_schema_contains(const struct ArrowSchema *field);
struct arrow_file_rule {
    /* What URIs start with: "file:///data/objects/tenants/t1/". Empty for rows that are stored
     * already: their URIs are told of, and nothing is checked. */
    struct lake_str stage;
    const char *tenant_id; /* for messages */
    int64_t first_row;     /* the batch's first row in the whole, for messages */
    /* Told of each URI, a view into the batch; may be NULL. */
    lake_status (*found)(void *context, struct lake_str uri, struct lake_error *err);
    void *context;
};
/* Every FILE value of a validated batch is well-formed and lies in the stage (OBJ-2):
 * INVALID_ARGUMENT names column and row. */
lake_status arrow_file_values_check(const struct ArrowSchema *schema,
                                    const struct ArrowArray *batch,
                                    const struct arrow_file_rule *rule, struct lake_error *err);

/* ---- schemas and arrays ---- */

/* Deep equality of format, name, nullability, children, dictionary, and field metadata (as sets of
 * pairs; an extension type's empty metadata is as good as none). On inequality `path` (may be NULL)
 * receives where, such as "frames.state.item". */
bool arrow_schema_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, char *path,
                        size_t path_bytes);
/* Human form: "int64", "fixed_size_list<float>[7]", "struct<a: utf8>", "FILE". */
lake_status arrow_type_format(const struct ArrowSchema *field, struct base_buffer *out,
                              struct lake_error *err);
/* The reverse, as the CLI writes columns (CLI-1): int8…uint64, float16/32/64 (float, double), bool,
 * utf8 (string), large_utf8, binary, large_binary, fixed_size_binary[n], decimal(p,s), date32,
 * date64, time32[s], time64[us], timestamp[us], timestamp[us, UTC], duration[ms],
 * list<T>, fixed_size_list<T>[n] (T[n]), struct<a: T, b: T>, dictionary<K, V>, FILE; "!" at the
 * end: not null. INVALID_ARGUMENT names the position and the accepted types. */
lake_status arrow_type_parse(struct lake_str text, const char *name, struct ArrowSchema *out,
                             struct lake_error *err);
/* True for a zone of IANA's database, spelt as there, and for an offset such as "+05:30": what
 * other readers of a timestamp know. */
bool arrow_time_zone_is_known(const char *name);
/* A refcounted owner around one batch so that several users can hold its buffers. */
struct arrow_batch;
/* Moves `array` in (array->release becomes NULL), also on failure. */
lake_status arrow_batch_new(struct ArrowArray *array, struct arrow_batch **out,
                            struct lake_error *err);
struct arrow_batch *arrow_batch_ref(struct arrow_batch *batch);
void arrow_batch_unref(struct arrow_batch *batch);
const struct ArrowArray *arrow_batch_array(const struct arrow_batch *batch);
/* An ArrowArray over `batch`'s buffers (a struct array: rows of columns), rows [offset,
 * offset+length), that holds a reference. Its columns may be moved out. */
lake_status arrow_batch_slice(struct arrow_batch *batch, int64_t offset, int64_t length,
                              struct ArrowArray *out, struct lake_error *err);
/* Full validation of an array from outside against its schema: lengths, offsets monotonic and in
 * range, dictionary indices in range, UTF-8 valid, decimals of their precision, times within a day.
 * INVALID_ARGUMENT names the column. */
lake_status arrow_array_validate(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                 struct lake_error *err);

/* What a callback of an ArrowArrayStream returns for it: 0 for LAKE_OK. */
int arrow_errno_of(lake_status status);

/* ---- views of text and bytes (utf8_view, binary_view) as plain text and bytes ---- */

/* True for a view, and for what has one below it. */
bool arrow_schema_has_views(const struct ArrowSchema *schema);
/* The schema with utf8 and binary where it has views; the large ones where `like` (may be NULL), a
 * schema to which this one should be equal, has these. */
lake_status arrow_plain_schema(const struct ArrowSchema *schema, const struct ArrowSchema *like,
                               struct ArrowSchema *out, struct lake_error *err);
/* Turns a valid array of `from` into one of `to`, which arrow_plain_schema made of it. What is no
 * view is not copied. `array` is released on failure. The bytes that the rows' views refer to are
 * taken from *left_bytes: RESOURCE_EXHAUSTED when there are more, or over 2 GiB in one column,
 * since any number of views may refer to the same bytes. */
lake_status arrow_plain_array(const struct ArrowSchema *from, const struct ArrowSchema *to,
                              struct ArrowArray *array, uint64_t *left_bytes,
                              struct lake_error *err);
/* Replaces a stream of valid batches by one without views; one that has none stays as it is. A
 * batch becomes several where its views refer to more than `max_batch_bytes`. On failure `stream`
 * is what it was. */
lake_status arrow_plain_stream(struct ArrowArrayStream *stream, uint64_t max_batch_bytes,
                               struct lake_error *err);

/* ---- IPC encoding ---- */

struct arrow_ipc_part {
    const uint8_t *data; /* NULL: zeros (padding, at most 63 bytes) */
    size_t size;
};
/* One IPC message: the bare flatbuffer, and the body as parts that borrow the batch's buffers. */
struct arrow_ipc_message {
    uint8_t *header;
    size_t header_bytes;
    struct arrow_ipc_part *parts;
    size_t part_count;
    uint64_t body_bytes;
    struct arrow_batch *owner; /* keeps the buffers of the parts alive */
    struct base_arena *memory; /* header, parts and rewritten buffers (shifted bitmaps, offsets) */
};
void arrow_ipc_message_fini(struct arrow_ipc_message *message);

struct arrow_ipc_encoder;
lake_status arrow_ipc_encoder_new(const struct ArrowSchema *schema, struct arrow_ipc_encoder **out,
                                  struct lake_error *err);
void arrow_ipc_encoder_free(struct arrow_ipc_encoder *encoder);
lake_status arrow_ipc_encode_schema(struct arrow_ipc_encoder *encoder,
                                    struct arrow_ipc_message *out, struct lake_error *err);
/* The messages of one batch: dictionary batches for dictionaries that are new or have changed, then
 * the record batch. Buffers that need no shift are borrowed, without a copy. `out` is an array of
 * *count messages, released each and then with base_free. */
lake_status arrow_ipc_encode_batch(struct arrow_ipc_encoder *encoder, struct arrow_batch *batch,
                                   struct arrow_ipc_message **out, size_t *count,
                                   struct lake_error *err);
/* The exact size of what arrow_ipc_encode_batch would give now, as arrow_ipc_message_append writes
 * it (frames, headers, bodies, padding); nothing is sent or remembered. */
lake_status arrow_ipc_batch_bytes(struct arrow_ipc_encoder *encoder, struct arrow_batch *batch,
                                  uint64_t *out, struct lake_error *err);
/* Appends the encapsulated form: FFFFFFFF, length, flatbuffer, padding, body. */
lake_status arrow_ipc_message_append(const struct arrow_ipc_message *message,
                                     struct base_buffer *out, struct lake_error *err);
/* One batch without dictionaries as a whole Arrow file ("ARROW1", with a footer). */
lake_status arrow_ipc_file_append(const struct ArrowSchema *schema, struct arrow_batch *batch,
                                  struct base_buffer *out, struct lake_error *err);
/* Encapsulated schema bytes (FlightInfo.schema, NAT-14) to and from a schema. */
lake_status arrow_ipc_schema_to_bytes(const struct ArrowSchema *schema, struct base_buffer *out,
                                      struct lake_error *err);
lake_status arrow_ipc_schema_from_bytes(struct lake_bytes bytes, struct ArrowSchema *out,
                                        struct lake_error *err);

/* ---- IPC decoding ---- */

struct arrow_ipc_limits {
    uint64_t max_metadata_bytes; /* of one header; default 4 MiB */
    uint64_t max_body_bytes;     /* of one message, also after decompression; default 256 MiB */
    bool allow_compressed;
};
struct arrow_ipc_limits arrow_ipc_limits_default(void);

struct arrow_ipc_decoder; /* one stream: a schema, then dictionary and record batches */
lake_status arrow_ipc_decoder_new(const struct arrow_ipc_limits *limits,
                                  struct arrow_ipc_decoder **out, struct lake_error *err);
void arrow_ipc_decoder_free(struct arrow_ipc_decoder *decoder);
/* A body that the decoder may keep: `release(context)` is called when nothing refers to it. */
struct arrow_ipc_body {
    struct lake_bytes bytes; /* 8-byte aligned */
    void (*release)(void *context);
    void *context;
};
enum arrow_ipc_kind {
    ARROW_IPC_SCHEMA,
    ARROW_IPC_DICTIONARY,
    ARROW_IPC_BATCH
};
/* Decodes one message (bare flatbuffer and body). Every offset and length is checked before a
 * buffer is touched. On ARROW_IPC_BATCH `out` is filled, zero-copy over the body where the data is
 * not compressed. Takes over `body` in every case. INVALID_ARGUMENT says what was wrong. */
lake_status arrow_ipc_decode(struct arrow_ipc_decoder *decoder, struct lake_bytes header,
                             struct arrow_ipc_body *body, enum arrow_ipc_kind *kind,
                             struct ArrowArray *out, struct lake_error *err);
/* Borrowed; NULL before the schema message. */
const struct ArrowSchema *arrow_ipc_decoder_schema(const struct arrow_ipc_decoder *decoder);

/* A stream or file in memory ("ARROW1" or the stream format) as an ArrowArrayStream over `bytes`,
 * which must outlive the stream. */
lake_status arrow_ipc_open_bytes(struct lake_bytes bytes, const struct arrow_ipc_limits *limits,
                                 struct ArrowArrayStream *out, struct lake_error *err);
/* The same over a file (read incrementally), or once over a pipe, where the messages of a file have
 * to follow each other; "/dev/stdin" is the process's. */
lake_status arrow_ipc_open_file(const char *path, const struct arrow_ipc_limits *limits,
                                struct ArrowArrayStream *out, struct lake_error *err);
/* Writes a stream's schema and batches to a file descriptor in the IPC stream format. */
lake_status arrow_ipc_write_fd(struct ArrowArrayStream *stream, int fd, struct lake_error *err);

#endif
