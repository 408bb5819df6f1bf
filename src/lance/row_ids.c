/*
 * Stable row ids: what a fragment says about the identity of its rows and the versions in which
 * they were made and last changed. Sequences are read into plain arrays and written in the shortest
 * of the forms that the format offers for runs and for arbitrary values.
 */
#include "table.h"

#include <string.h>

#define MAX_SEQUENCE_BYTES ((size_t)256 << 20)
#define LENGTH_DELIMITED   2

/* ---- writing ---- */

/* Puts what `buffer` holds from `start` on into a field of its own. */
static lake_status wrap(struct base_buffer *buffer, size_t start, uint32_t field,
                        struct lake_error *err)
{
    struct base_buffer inner;
    base_buffer_init(&inner, MAX_SEQUENCE_BYTES);
    lake_status status =
        base_buffer_append(&inner, buffer->data + start, buffer->size - start, err);
    if (status == LAKE_OK) {
        buffer->size = start;
        status = base_buffer_append_varint(buffer, field << 3 | LENGTH_DELIMITED, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append_varint(buffer, inner.size, err);
    }
    if (status == LAKE_OK) {
        status = base_buffer_append(buffer, inner.data, inner.size, err);
    }
    base_buffer_fini(&inner);
    return status;
}

static lake_status append_varint_field(struct base_buffer *out, uint32_t field, uint64_t value,
                                       struct lake_error *err)
{
    lake_status status = base_buffer_append_varint(out, field << 3, err);
    return status == LAKE_OK ? base_buffer_append_varint(out, value, err) : status;
}

/* U64Segment { range { start, end } } */
static lake_status append_range(struct base_buffer *out, uint64_t start, uint64_t end,
                                struct lake_error *err)
{
    size_t at = out->size;
    lake_status status = append_varint_field(out, 1, start, err);
    if (status == LAKE_OK) {
        status = append_varint_field(out, 2, end, err);
    }
    return status == LAKE_OK ? wrap(out, at, 1, err) : status;
}

/* U64Segment { array { u64 { values } } } */
static lake_status append_array(struct base_buffer *out, const uint64_t *values, size_t count,
                                struct lake_error *err)
{
    size_t at = out->size;
    lake_status status = base_buffer_append(out, values, count * sizeof(*values), err);
    for (size_t i = 0; status == LAKE_OK && i < 3; i++) {
        static const uint32_t fields[] = {2, 3, 5};
        status = wrap(out, at, fields[i], err);
    }
    return status;
}

static size_t run_length(const uint64_t *values, size_t count, uint64_t step)
{
    size_t length = 1;
    while (length < count && values[length] == values[length - 1] + step) {
        length++;
    }
    return length;
}

lake_status lance_row_ids_encode(const uint64_t *ids, size_t count, struct base_buffer *out,
                                 struct lake_error *err)
{
    size_t runs = 0;
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < count; i += run_length(ids + i, count - i, 1)) {
        runs++;
    }
    bool as_array = runs > count / 4 && runs > 1;
    for (size_t i = 0; i < count && status == LAKE_OK;) {
        size_t length = as_array ? count : run_length(ids + i, count - i, 1);
        size_t at = out->size;
        status = as_array ? append_array(out, ids, count, err)
                          : append_range(out, ids[i], ids[i] + length, err);
        if (status == LAKE_OK) {
            status = wrap(out, at, 1, err);
        }
        i += length;
    }
    return status;
}

/* RowDatasetVersionSequence { runs { span, version } }: only the length of a span counts. */
lake_status lance_row_versions_encode(const uint64_t *versions, size_t count,
                                      struct base_buffer *out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < count && status == LAKE_OK;) {
        size_t length = run_length(versions + i, count - i, 0);
        size_t at = out->size;
        status = append_range(out, 0, length, err);
        if (status == LAKE_OK) {
            status = wrap(out, at, 1, err);
        }
        if (status == LAKE_OK) {
            status = append_varint_field(out, 2, versions[i], err);
        }
        if (status == LAKE_OK) {
            status = wrap(out, at, 1, err);
        }
        i += length;
    }
    return status;
}

static lake_status keep_bytes(struct base_arena *arena, const struct base_buffer *buffer,
                              protobuf_c_boolean *has, ProtobufCBinaryData *out,
                              struct lake_error *err)
{
    uint8_t *copy = base_arena_alloc(arena, buffer->size + 1);
    if (copy == NULL) {
        return base_fail_no_memory(err, buffer->size);
    }
    if (buffer->size > 0) {
        memcpy(copy, buffer->data, buffer->size);
    }
    *has = true;
    *out = (ProtobufCBinaryData){.len = buffer->size, .data = copy};
    return LAKE_OK;
}

lake_status lance_row_ids_set(struct base_arena *arena, LancePb__DataFragment *fragment,
                              const struct lance_row_identity *rows, size_t count,
                              struct lake_error *err)
{
    struct base_buffer buffer;
    base_buffer_init(&buffer, MAX_SEQUENCE_BYTES);
    lake_status status = lance_row_ids_encode(rows->ids, count, &buffer, err);
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, &fragment->has_inline_row_ids,
                            &fragment->inline_row_ids, err);
    }
    base_buffer_clear(&buffer);
    if (status == LAKE_OK && rows->created != NULL) {
        status = lance_row_versions_encode(rows->created, count, &buffer, err);
        if (status == LAKE_OK) {
            status = keep_bytes(arena, &buffer, &fragment->has_inline_created_at_versions,
                                &fragment->inline_created_at_versions, err);
        }
    }
    base_buffer_clear(&buffer);
    if (status == LAKE_OK && rows->updated != NULL) {
        status = lance_row_versions_encode(rows->updated, count, &buffer, err);
        if (status == LAKE_OK) {
            status = keep_bytes(arena, &buffer, &fragment->has_inline_last_updated_at_versions,
                                &fragment->inline_last_updated_at_versions, err);
        }
    }
    base_buffer_fini(&buffer);
    return status;
}

static lake_status give_version(struct base_arena *arena, uint64_t row_count, uint64_t version,
                                protobuf_c_boolean *has, ProtobufCBinaryData *out,
                                struct lake_error *err)
{
    struct base_buffer buffer;
    if (*has) {
        return LAKE_OK;
    }
    base_buffer_init(&buffer, 256);
    lake_status status = append_range(&buffer, 0, row_count, err);
    if (status == LAKE_OK) {
        status = wrap(&buffer, 0, 1, err);
    }
    if (status == LAKE_OK) {
        status = append_varint_field(&buffer, 2, version, err);
    }
    if (status == LAKE_OK) {
        status = wrap(&buffer, 0, 1, err);
    }
    if (status == LAKE_OK) {
        status = keep_bytes(arena, &buffer, has, out, err);
    }
    base_buffer_fini(&buffer);
    return status;
}

lake_status lance_row_ids_give(struct base_arena *arena, LancePb__DataFragment *fragment,
                               uint64_t *next_row_id, uint64_t version, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    uint64_t rows = fragment->physical_rows;
    if (!fragment->has_inline_row_ids) {
        struct base_buffer buffer;
        base_buffer_init(&buffer, 256);
        status = append_range(&buffer, *next_row_id, *next_row_id + rows, err);
        if (status == LAKE_OK) {
            status = wrap(&buffer, 0, 1, err);
        }
        if (status == LAKE_OK) {
            status = keep_bytes(arena, &buffer, &fragment->has_inline_row_ids,
                                &fragment->inline_row_ids, err);
        }
        base_buffer_fini(&buffer);
        *next_row_id += rows;
    }
    if (status == LAKE_OK) {
        status = give_version(arena, rows, version, &fragment->has_inline_created_at_versions,
                              &fragment->inline_created_at_versions, err);
    }
    if (status == LAKE_OK) {
        status = give_version(arena, rows, version, &fragment->has_inline_last_updated_at_versions,
                              &fragment->inline_last_updated_at_versions, err);
    }
    return status;
}

/* ---- reading ---- */

static lake_status malformed(const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "a fragment's row ids are damaged: %s", what);
}

struct values {
    uint64_t *items; /* NULL: only counted */
    size_t count;
    size_t limit;
};

static bool add_value(struct values *out, uint64_t value)
{
    if (out->count == out->limit) {
        return false;
    }
    if (out->items != NULL) {
        out->items[out->count] = value;
    }
    out->count++;
    return true;
}

/* The fields of a small message: numbers in `numbers`, bytes in `bytes`, by field number. */
#define MAX_FIELD 6
struct fields {
    uint64_t numbers[MAX_FIELD];
    struct lake_bytes bytes[MAX_FIELD];
    uint32_t last; /* the last one seen with bytes */
};

static bool read_fields(struct lake_bytes message, struct fields *out)
{
    struct base_cursor cursor = base_cursor_of(message);
    memset(out, 0, sizeof(*out));
    while (base_cursor_left(&cursor) > 0) {
        uint32_t field;
        uint32_t type;
        if (!base_cursor_tag(&cursor, &field, &type)) {
            return false;
        }
        bool known = field < MAX_FIELD;
        if (known && type == 0) {
            if (!base_cursor_varint(&cursor, &out->numbers[field])) {
                return false;
            }
        } else if (known && type == LENGTH_DELIMITED) {
            if (!base_cursor_length_delimited(&cursor, &out->bytes[field])) {
                return false;
            }
            out->last = field;
            if (out->bytes[field].data == NULL) {
                out->bytes[field].data = (const uint8_t *)"";
            }
        } else if (!base_cursor_skip_field(&cursor, type)) {
            return false;
        }
    }
    return true;
}

/* EncodedU64Array: offsets of 2 or 4 bytes above a base, or whole values. */
static bool read_array(struct lake_bytes message, struct values *out)
{
    struct fields array;
    struct fields inner;
    if (!read_fields(message, &array) || array.last < 1 || array.last > 3 ||
        !read_fields(array.bytes[array.last], &inner)) {
        return false;
    }
    size_t width = array.last == 1 ? 2 : array.last == 2 ? 4 : 8;
    uint64_t base = array.last == 3 ? 0 : inner.numbers[1];
    struct lake_bytes items = inner.bytes[2];
    for (size_t i = 0; i + width <= items.size; i += width) {
        uint64_t value = width == 2   ? base_load_u16le(items.data + i)
                         : width == 4 ? base_load_u32le(items.data + i)
                                      : base_load_u64le(items.data + i);
        if (!add_value(out, base + value)) {
            return false;
        }
    }
    return items.size % width == 0;
}

static bool read_range(const struct fields *range, struct values *holes, struct values *out)
{
    struct lake_bytes bitmap = range->bytes[3];
    size_t hole = 0;
    for (uint64_t value = range->numbers[1]; value < range->numbers[2]; value++) {
        uint64_t at = value - range->numbers[1];
        if (holes != NULL && hole < holes->count && holes->items[hole] == value) {
            hole++;
            continue;
        }
        if (holes == NULL && bitmap.data != NULL) { /* bits: least significant first */
            if (at / 8 >= bitmap.size) {
                return false;
            }
            if ((bitmap.data[at / 8] >> (at % 8) & 1) == 0) {
                continue;
            }
        }
        if (!add_value(out, value)) {
            return false;
        }
    }
    return true;
}

/* U64Segment. A range with holes is bounded by the values it yields and the holes it stores. */
static lake_status read_segment(struct lake_bytes message, struct values *out,
                                struct lake_error *err)
{
    struct fields segment;
    struct fields range;
    bool good = read_fields(message, &segment);
    if (!good || segment.last < 1 || segment.last > 5) {
        return malformed("a segment of no known form", err);
    }
    struct lake_bytes inner = segment.bytes[segment.last];
    if (segment.last >= 4) {
        good = read_array(inner, out);
    } else if (!read_fields(inner, &range)) {
        good = false;
    } else if (segment.last == 2) {
        size_t limit = range.bytes[3].size; /* a hole takes two bytes or more */
        struct values holes = {base_alloc_array(limit + 1, sizeof(uint64_t)), 0, limit};
        if (holes.items == NULL) {
            return base_fail_no_memory(err, limit * sizeof(uint64_t));
        }
        good = (range.bytes[3].data == NULL || read_array(range.bytes[3], &holes)) &&
               read_range(&range, &holes, out);
        base_free(holes.items);
    } else {
        if (segment.last == 1) {
            range.bytes[3] = (struct lake_bytes){NULL, 0};
        }
        good = read_range(&range, NULL, out);
    }
    return good ? LAKE_OK : malformed("a segment contradicts itself or the row count", err);
}

lake_status lance_row_ids_decode(struct lake_bytes sequence, uint64_t row_count, uint64_t *out,
                                 struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(sequence);
    struct values values = {out, 0, (size_t)row_count};
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && base_cursor_left(&cursor) > 0) {
        uint32_t field;
        uint32_t type;
        struct lake_bytes segment;
        if (!base_cursor_tag(&cursor, &field, &type) || field != 1 || type != LENGTH_DELIMITED ||
            !base_cursor_length_delimited(&cursor, &segment)) {
            return malformed("a sequence of no known form", err);
        }
        status = read_segment(segment, &values, err);
    }
    if (status == LAKE_OK && values.count != row_count) {
        status = malformed("they are not as many as the rows", err);
    }
    return status;
}

lake_status lance_row_versions_decode(struct lake_bytes sequence, uint64_t row_count, uint64_t *out,
                                      struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(sequence);
    size_t at = 0;
    while (base_cursor_left(&cursor) > 0) {
        uint32_t field;
        uint32_t type;
        struct lake_bytes run;
        struct fields parts;
        if (!base_cursor_tag(&cursor, &field, &type) || field != 1 || type != LENGTH_DELIMITED ||
            !base_cursor_length_delimited(&cursor, &run) || !read_fields(run, &parts)) {
            return malformed("a sequence of versions of no known form", err);
        }
        struct values counted = {NULL, 0, (size_t)row_count - at};
        lake_status status = read_segment(parts.bytes[1], &counted, err);
        if (status != LAKE_OK) {
            return status;
        }
        for (size_t i = 0; i < counted.count; i++) {
            out[at++] = parts.numbers[2];
        }
    }
    return at == row_count ? LAKE_OK : malformed("versions are not as many as the rows", err);
}
