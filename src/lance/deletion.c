/*
 * Deletion vectors: Arrow IPC files with one column `row_id: uint32`, or portable 32-bit roaring
 * bitmaps. In memory both are one plain bitmap over the fragment's rows.
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE_BYTES   ((size_t)512 << 20)
#define MAX_ROW_COUNT    (UINT64_C(1) << 32)
#define COOKIE_PLAIN     12346u
#define COOKIE_RUNS      12347u
#define OFFSETS_FROM     4 /* with runs, offsets are stored from this many containers on */
#define ARRAY_MAX        4096
#define CONTAINER_VALUES 65536u

/* ---- roaring ---- */

static lake_status malformed(const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "a bitmap of rows is damaged: %s", what);
}

/* Sets the bits [start, end). */
static void set_range(uint64_t *words, uint64_t start, uint64_t end)
{
    uint64_t first = start / 64;
    uint64_t last = (end - 1) / 64;
    uint64_t first_mask = UINT64_MAX << (start % 64);
    uint64_t last_mask = UINT64_MAX >> (63 - (end - 1) % 64);
    if (first == last) {
        words[first] |= first_mask & last_mask;
        return;
    }
    words[first] |= first_mask;
    memset(&words[first + 1], 0xff, (last - first - 1) * sizeof(*words));
    words[last] |= last_mask;
}

/* One container of each form, into words that are zero. */

static lake_status decode_runs(struct base_cursor *cursor, uint64_t *words, struct lake_error *err)
{
    uint16_t run_count;
    if (!base_cursor_u16le(cursor, &run_count)) {
        return malformed("it ends inside a container", err);
    }
    for (uint32_t i = 0; i < run_count; i++) {
        uint16_t start;
        uint16_t length;
        if (!base_cursor_u16le(cursor, &start) || !base_cursor_u16le(cursor, &length)) {
            return malformed("it ends inside a container", err);
        }
        if ((uint32_t)start + length >= CONTAINER_VALUES) {
            return malformed("a run lies outside its container", err);
        }
        set_range(words, start, (uint64_t)start + length + 1);
    }
    return LAKE_OK;
}

static lake_status decode_array(struct base_cursor *cursor, uint32_t count, uint64_t *words,
                                struct lake_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        uint16_t value;
        if (!base_cursor_u16le(cursor, &value)) {
            return malformed("it ends inside a container", err);
        }
        words[value / 64] |= UINT64_C(1) << (value % 64);
    }
    return LAKE_OK;
}

static lake_status decode_bitmap(struct base_cursor *cursor, uint64_t *words,
                                 struct lake_error *err)
{
    struct lake_bytes bytes;
    if (!base_cursor_take(cursor, LANCE_ROARING_WORDS * sizeof(*words), &bytes)) {
        return malformed("it ends inside a container", err);
    }
    for (size_t i = 0; i < LANCE_ROARING_WORDS; i++) {
        words[i] = base_load_u64le(bytes.data + i * 8);
    }
    return LAKE_OK;
}

lake_status lance_roaring_visit(struct lake_bytes bytes,
                                lake_status (*visit)(void *context, uint64_t start,
                                                     const uint64_t words[LANCE_ROARING_WORDS],
                                                     struct lake_error *err),
                                void *context, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(bytes);
    struct lake_bytes run_flags = {NULL, 0};
    struct lake_bytes headers;
    uint32_t cookie;
    uint32_t count;
    if (!base_cursor_u32le(&cursor, &cookie)) {
        return malformed("it is empty", err);
    }
    if ((cookie & 0xffff) == COOKIE_RUNS) {
        count = (cookie >> 16) + 1;
        if (!base_cursor_take(&cursor, (count + 7) / 8, &run_flags)) {
            return malformed("it ends inside its header", err);
        }
    } else if (cookie != COOKIE_PLAIN || !base_cursor_u32le(&cursor, &count)) {
        return malformed("it does not start with a known cookie", err);
    }
    bool has_offsets = run_flags.data == NULL || count >= OFFSETS_FROM;
    if (count > CONTAINER_VALUES || !base_cursor_take(&cursor, (size_t)count * 4, &headers) ||
        (has_offsets && !base_cursor_skip(&cursor, (size_t)count * 4))) {
        return malformed("it ends inside its header", err);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[LANCE_ROARING_WORDS] = {0};
        uint64_t start = (uint64_t)base_load_u16le(headers.data + (size_t)i * 4) << 16;
        uint32_t cardinality = base_load_u16le(headers.data + (size_t)i * 4 + 2) + 1u;
        bool runs = run_flags.data != NULL && (run_flags.data[i / 8] >> (i % 8) & 1) != 0;
        lake_status status = runs ? decode_runs(&cursor, words, err)
                             : cardinality <= ARRAY_MAX
                                 ? decode_array(&cursor, cardinality, words, err)
                                 : decode_bitmap(&cursor, words, err);
        if (status == LAKE_OK) {
            status = visit(context, start, words, err);
        }
        if (status != LAKE_OK) {
            return status;
        }
    }
    return LAKE_OK;
}

struct bounded_words {
    uint64_t *words;
    uint64_t row_count;
};

static lake_status add_container(void *context, uint64_t start,
                                 const uint64_t words[LANCE_ROARING_WORDS], struct lake_error *err)
{
    const struct bounded_words *out = context;
    for (uint64_t i = 0; i < LANCE_ROARING_WORDS; i++) {
        if (words[i] == 0) {
            continue;
        }
        if (start + i * 64 + (63 - (uint64_t)__builtin_clzll(words[i])) >= out->row_count) {
            return malformed("a row lies outside the fragment", err);
        }
        out->words[start / 64 + i] |= words[i];
    }
    return LAKE_OK;
}

lake_status lance_roaring_decode(struct lake_bytes bytes, uint64_t row_count, uint64_t *words,
                                 struct lake_error *err)
{
    struct bounded_words out = {words, row_count};
    return lance_roaring_visit(bytes, add_container, &out, err);
}

/* ---- Arrow file ---- */

static lake_status mark_batch(const struct ArrowArray *batch, struct lance_deletions *deletions,
                              struct lake_error *err)
{
    const struct ArrowArray *column = batch->children[0];
    const uint32_t *rows = column->buffers[1];
    if (column->null_count != 0 && column->buffers[0] != NULL) {
        return lake_fail(err, LAKE_DATA_LOSS, "a deletion file holds a null row number");
    }
    for (int64_t i = 0; i < column->length; i++) {
        uint32_t row = rows[column->offset + i];
        if (row >= deletions->row_count) {
            return lake_fail(err, LAKE_DATA_LOSS,
                             "a deletion file names the row %" PRIu32 " of a fragment with %" PRIu64
                             " rows",
                             row, deletions->row_count);
        }
        deletions->words[row / 64] |= UINT64_C(1) << (row % 64);
    }
    return LAKE_OK;
}

static lake_status check_arrow_schema(struct ArrowArrayStream *stream, struct lake_error *err)
{
    struct ArrowSchema schema = {.release = NULL};
    if (stream->get_schema(stream, &schema) != 0) {
        const char *why = stream->get_last_error(stream);
        return lake_fail(err, LAKE_DATA_LOSS, "a deletion file's schema cannot be read: %s",
                         why == NULL ? "no reason given" : why);
    }
    bool right = schema.n_children == 1 && schema.children[0]->format != NULL &&
                 strcmp(schema.children[0]->format, "I") == 0;
    ArrowSchemaRelease(&schema);
    return right ? LAKE_OK
                 : lake_fail(err, LAKE_DATA_LOSS,
                             "a deletion file does not have exactly one column of type uint32");
}

/* The messages of an Arrow file, which are a stream. Lance pads the magic to 64 bytes, other
 * writers to 8, so padding is skipped as far as it goes. */
static struct lake_bytes skip_file_magic(struct lake_bytes bytes)
{
    size_t at = 8;
    if (bytes.size < 16 || memcmp(bytes.data, "ARROW1\0\0", 8) != 0) {
        return bytes;
    }
    while (at + 16 <= bytes.size && base_load_u64le(bytes.data + at) == 0) {
        at += 8;
    }
    return (struct lake_bytes){bytes.data + at, bytes.size - at};
}

/* Releases until 0.2x wrote the vectors of a record batch's header at any multiple of 4, which
 * other readers of Arrow bear and ours refuses. Such headers get aligned copies of them. What is
 * not understood stays as it is, for the reader to refuse. */

/* Where the uint32 at `at` leads, to four bytes at least; 0: nowhere. */
static size_t follow(struct lake_bytes header, size_t at)
{
    if (at == SIZE_MAX || at + 4 > header.size)
        return 0;
    size_t to = at + base_load_u32le(header.data + at);
    return to > at && to <= header.size - 4 ? to : 0;
}

/* Where field `index` of the flatbuffer table at `table` lies; SIZE_MAX when it has none. */
static size_t field_at(struct lake_bytes header, size_t table, size_t index)
{
    size_t slot = 4 + 2 * index;
    int64_t vtable = (int64_t)table - (int32_t)base_load_u32le(header.data + table);
    if (vtable < 0 || (uint64_t)vtable + slot + 2 > header.size ||
        base_load_u16le(header.data + vtable) < slot + 2)
        return SIZE_MAX;
    size_t at = base_load_u16le(header.data + (size_t)vtable + slot);
    return at == 0 || at > header.size - table ? SIZE_MAX : table + at;
}

/* Appends the header to `out`, with what it needs to be aligned; its body's size, 0 if unknown. */
static lake_status align_header(struct lake_bytes header, struct base_buffer *out,
                                uint64_t *body_bytes, struct lake_error *err)
{
    enum {
        HEADER = 2,
        BODY_LENGTH = 3,
        NODES = 1,
        BUFFERS = 2,
        ITEM_BYTES = 16
    };
    size_t start = out->size;
    size_t root = follow(header, 0);
    size_t body = root == 0 ? SIZE_MAX : field_at(header, root, BODY_LENGTH);
    size_t batch = root == 0 ? 0 : follow(header, field_at(header, root, HEADER));
    *body_bytes =
        body == SIZE_MAX || body + 8 > header.size ? 0 : base_load_u64le(header.data + body);
    lake_status status = base_buffer_append(out, header.data, header.size, err);
    for (size_t i = NODES; status == LAKE_OK && *body_bytes > 0 && batch > 0 && i <= BUFFERS; i++) {
        size_t field = field_at(header, batch, i);
        size_t vector = follow(header, field);
        if (vector == 0 || vector % 8 == 4)
            continue;
        uint64_t bytes = 4 + (uint64_t)base_load_u32le(header.data + vector) * ITEM_BYTES;
        if (bytes > header.size - vector)
            continue;
        size_t size = out->size - start;
        size_t pad = (4 - size % 8 + 8) % 8;
        status = base_buffer_append_zeros(out, pad, err);
        if (status == LAKE_OK)
            status = base_buffer_append(out, header.data + vector, (size_t)bytes, err);
        if (status == LAKE_OK)
            base_store_u32le(out->data + start + field, (uint32_t)(size + pad - field));
    }
    return status != LAKE_OK
               ? status
               : base_buffer_append_zeros(out, (8 - (out->size - start) % 8) % 8, err);
}

static lake_status align_messages(struct lake_bytes bytes, struct base_buffer *out,
                                  struct lake_error *err)
{
    lake_status status = LAKE_OK;
    size_t at = 0;
    while (status == LAKE_OK && bytes.size - at >= 8) {
        size_t start = out->size;
        size_t size = base_load_u32le(bytes.data + at + 4);
        uint64_t body;
        if (size < 8 || size > bytes.size - at - 8)
            break;
        struct lake_bytes header = {bytes.data + at + 8, size};
        status = base_buffer_append(out, bytes.data + at, 8, err);
        if (status == LAKE_OK)
            status = align_header(header, out, &body, err);
        at += 8 + size;
        if (status != LAKE_OK || body > bytes.size - at)
            break;
        base_store_u32le(out->data + start + 4, (uint32_t)(out->size - start - 8));
        status = base_buffer_append(out, bytes.data + at, (size_t)body, err);
        at += (size_t)body;
    }
    return status == LAKE_OK && at < bytes.size
               ? base_buffer_append(out, bytes.data + at, bytes.size - at, err)
               : status;
}

static lake_status read_arrow(struct lake_bytes bytes, struct lance_deletions *deletions,
                              struct lake_error *err)
{
    struct ArrowArrayStream stream = {.release = NULL};
    struct arrow_ipc_limits limits = arrow_ipc_limits_default();
    limits.allow_compressed = true;
    limits.max_body_bytes = MAX_FILE_BYTES;
    lake_status status = arrow_ipc_open_bytes(bytes, &limits, &stream, err);
    if (status != LAKE_OK) {
        return lake_fail_wrap(err, LAKE_DATA_LOSS, "a deletion file is not an Arrow file");
    }
    status = check_arrow_schema(&stream, err);
    while (status == LAKE_OK) {
        struct ArrowArray batch = {.release = NULL};
        if (stream.get_next(&stream, &batch) != 0) {
            const char *why = stream.get_last_error(&stream);
            status = lake_fail(err, LAKE_DATA_LOSS, "a deletion file cannot be decoded: %s",
                               why == NULL ? "no reason given" : why);
            break;
        }
        if (batch.release == NULL) {
            break;
        }
        status = mark_batch(&batch, deletions, err);
        batch.release(&batch);
    }
    stream.release(&stream);
    return status;
}

static lake_status decode_arrow(struct lake_bytes bytes, struct lance_deletions *deletions,
                                struct lake_error *err)
{
    struct base_buffer aligned;
    base_buffer_init(&aligned, 2 * MAX_FILE_BYTES);
    lake_status status = align_messages(skip_file_magic(bytes), &aligned, err);
    if (status == LAKE_OK)
        status = read_arrow(base_buffer_view(&aligned), deletions, err);
    base_buffer_fini(&aligned);
    return status;
}

/* ---- both ---- */

static void count_deleted(struct lance_deletions *deletions)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < (deletions->row_count + 63) / 64; i++) {
        count += (uint64_t)__builtin_popcountll(deletions->words[i]);
    }
    deletions->deleted_count = count;
}

static lake_status deletions_new(uint64_t row_count, struct lance_deletions **out,
                                 struct lake_error *err)
{
    if (row_count > MAX_ROW_COUNT) {
        return lake_fail(err, LAKE_DATA_LOSS, "a fragment claims %" PRIu64 " rows", row_count);
    }
    struct lance_deletions *deletions = base_calloc_array(1, sizeof(*deletions));
    if (deletions != NULL) {
        atomic_init(&deletions->references, 1);
        deletions->row_count = row_count;
        deletions->words = base_calloc_array((size_t)(row_count + 63) / 64 + 1, sizeof(uint64_t));
    }
    if (deletions == NULL || deletions->words == NULL) {
        base_free(deletions);
        return base_fail_no_memory(err, (size_t)row_count / 8);
    }
    *out = deletions;
    return LAKE_OK;
}

static lake_status decode(struct lake_bytes bytes, const LancePb__DeletionFile *file,
                          struct lance_deletions *deletions, struct lake_error *err)
{
    lake_status status = file->file_type == 1 ? lance_roaring_decode(bytes, deletions->row_count,
                                                                     deletions->words, err)
                                              : decode_arrow(bytes, deletions, err);
    if (status != LAKE_OK) {
        return status;
    }
    count_deleted(deletions);
    if (file->num_deleted_rows != 0 && file->num_deleted_rows != deletions->deleted_count) {
        return lake_fail(err, LAKE_DATA_LOSS,
                         "a deletion file names %" PRIu64 " rows, the manifest says %" PRIu64,
                         deletions->deleted_count, file->num_deleted_rows);
    }
    return LAKE_OK;
}

void lance_deletion_key(uint64_t fragment_id, const LancePb__DeletionFile *file,
                        char out[LANCE_DELETION_KEY_BYTES])
{
    (void)snprintf(out, LANCE_DELETION_KEY_BYTES,
                   "_deletions/%" PRIu64 "-%" PRIu64 "-%" PRIu64 ".%s", fragment_id,
                   file->read_version, file->id, file->file_type == 1 ? "bin" : "arrow");
}

lake_status lance_deletions_read(struct storage_store *store, uint64_t fragment_id,
                                 const LancePb__DeletionFile *file, uint64_t row_count,
                                 struct lance_deletions **out, struct lake_error *err)
{
    char key[LANCE_DELETION_KEY_BYTES];
    struct base_buffer bytes;
    struct lance_deletions *deletions = NULL;
    if (file->file_type > 1) {
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "fragment %" PRIu64 " has a deletion file of the unknown kind %" PRIu32,
                         fragment_id, file->file_type);
    }
    lance_deletion_key(fragment_id, file, key);
    base_buffer_init(&bytes, MAX_FILE_BYTES);
    lake_status status = storage_read_all(store, base_str_of(key), &bytes, err);
    if (status != LAKE_OK) {
        status = lake_fail_wrap(err, status == LAKE_NOT_FOUND ? LAKE_DATA_LOSS : status,
                                "the deletion file %s of fragment %" PRIu64 " cannot be read", key,
                                fragment_id);
        goto out;
    }
    status = deletions_new(row_count, &deletions, err);
    if (status == LAKE_OK) {
        status = decode(base_buffer_view(&bytes), file, deletions, err);
        if (status != LAKE_OK) {
            status = lake_fail_wrap(err, status, "the deletion file %s is unusable", key);
        }
    }
    if (status == LAKE_OK) {
        *out = deletions;
        deletions = NULL;
    }
out:
    lance_deletions_unref(deletions);
    base_buffer_fini(&bytes);
    return status;
}

struct lance_deletions *lance_deletions_ref(struct lance_deletions *deletions)
{
    atomic_fetch_add_explicit(&deletions->references, 1, memory_order_relaxed);
    return deletions;
}

void lance_deletions_unref(struct lance_deletions *deletions)
{
    if (deletions != NULL &&
        atomic_fetch_sub_explicit(&deletions->references, 1, memory_order_acq_rel) == 1) {
        base_free(deletions->words);
        base_free(deletions);
    }
}
