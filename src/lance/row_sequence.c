#include "row_sequence.h"

#include "table.h"
#include "wire.h"

enum segment_kind { /* the numbers are those of the oneof U64Segment */
    SEGMENT_RANGE = 1,
    SEGMENT_RANGE_WITH_HOLES = 2,
    SEGMENT_RANGE_WITH_BITMAP = 3,
    SEGMENT_SORTED_ARRAY = 4,
    SEGMENT_ARRAY = 5
};

/* Whole numbers as offsets of 2 or 4 bytes from a base, or as they are. */
struct encoded_array {
    uint64_t base;
    struct lake_bytes bytes;
    size_t width;
    uint64_t count;
};

struct segment {
    enum segment_kind kind;
    uint64_t start; /* of a range; `end` is not part of it */
    uint64_t end;
    struct encoded_array array; /* the holes, or the numbers themselves */
    struct lake_bytes bitmap;   /* a bit for each number of the range, lowest first */
};

static lake_status broken(struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "a sequence of row ids is damaged");
}

/* ---- segments ---- */

/* EncodedU64Array: 1 {1 base, 2 u16 offsets} | 2 {1 base, 2 u32 offsets} | 3 {2 u64 numbers} */
static bool parse_array(struct lake_bytes message, struct encoded_array *out)
{
    struct base_cursor outer = base_cursor_of(message);
    struct lance_wire_field form, field;
    bool failed;
    while (lance_wire_next(&outer, &form, &failed)) {
        if (form.wire_type != 2 || form.number < 1 || form.number > 3) {
            return false;
        }
        struct base_cursor inner = base_cursor_of(form.bytes);
        *out = (struct encoded_array){.width = (size_t)1 << form.number};
        while (lance_wire_next(&inner, &field, &failed)) {
            if (field.number == 1 && field.wire_type == 0) {
                out->base = field.value;
            } else if (field.number == 2 && field.wire_type == 2) {
                out->bytes = field.bytes;
            }
        }
        if (failed || out->bytes.size % out->width != 0) {
            return false;
        }
        out->count = out->bytes.size / out->width;
    }
    return !failed;
}

static uint64_t array_at(const struct encoded_array *array, uint64_t i)
{
    const uint8_t *at = array->bytes.data + i * array->width;
    if (array->width == 2) {
        return array->base + base_load_u16le(at);
    }
    return array->width == 4 ? array->base + base_load_u32le(at) : base_load_u64le(at);
}

/* Ascending numbers from `start` on, all below `end`: what may be searched by halving. */
static bool ascends_within(const struct encoded_array *array, uint64_t start, uint64_t end)
{
    uint64_t least = start;
    for (uint64_t i = 0; i < array->count; i++) {
        uint64_t number = array_at(array, i);
        if (number < least || number >= end) {
            return false;
        }
        least = number + 1;
    }
    return true;
}

static bool parse_range(const struct lance_wire_field *outer, struct segment *out)
{
    struct base_cursor cursor = base_cursor_of(outer->bytes);
    struct lance_wire_field field;
    bool failed;
    bool good = true;
    while (good && lance_wire_next(&cursor, &field, &failed)) {
        if (field.number == 1 && field.wire_type == 0) {
            out->start = field.value;
        } else if (field.number == 2 && field.wire_type == 0) {
            out->end = field.value;
        } else if (field.number == 3 && field.wire_type == 2) {
            if (out->kind == SEGMENT_RANGE_WITH_HOLES) {
                good = parse_array(field.bytes, &out->array);
            } else {
                out->bitmap = field.bytes;
            }
        }
    }
    return good && !failed && out->start <= out->end;
}

/* `ascends`: it is known already that what is searched by halving ascends. */
static bool parse_segment(struct lake_bytes message, bool ascends, struct segment *out)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    bool good = false;
    *out = (struct segment){.kind = SEGMENT_RANGE};
    while (lance_wire_next(&cursor, &field, &failed)) {
        if (field.wire_type != 2 || field.number < SEGMENT_RANGE || field.number > SEGMENT_ARRAY) {
            return false;
        }
        *out = (struct segment){.kind = (enum segment_kind)field.number};
        good = out->kind >= SEGMENT_SORTED_ARRAY ? parse_array(field.bytes, &out->array)
                                                 : parse_range(&field, out);
        if (!good) {
            return false;
        }
    }
    uint64_t length = out->end - out->start;
    if (good && out->kind == SEGMENT_RANGE_WITH_HOLES) {
        good = ascends || ascends_within(&out->array, out->start, out->end);
    } else if (good && out->kind == SEGMENT_SORTED_ARRAY) {
        good = ascends || ascends_within(&out->array, 0, UINT64_MAX);
    } else if (good && out->kind == SEGMENT_RANGE_WITH_BITMAP) {
        good = out->bitmap.size >= length / 8 + (length % 8 != 0);
    }
    return good && !failed;
}

static bool bit_at(struct lake_bytes bitmap, uint64_t i)
{
    return (bitmap.data[i / 8] >> (i % 8) & 1) != 0;
}

static uint64_t segment_count(const struct segment *segment)
{
    uint64_t length = segment->end - segment->start;
    uint64_t set = 0;
    switch (segment->kind) {
    case SEGMENT_RANGE:
        return length;
    case SEGMENT_RANGE_WITH_HOLES:
        return length - segment->array.count;
    case SEGMENT_RANGE_WITH_BITMAP:
        for (uint64_t i = 0; i < length / 8; i++) {
            set += (uint64_t)__builtin_popcount(segment->bitmap.data[i]);
        }
        for (uint64_t i = length / 8 * 8; i < length; i++) {
            set += bit_at(segment->bitmap, i);
        }
        return set;
    default:
        return segment->array.count;
    }
}

/* How many holes come before the `nth` number of the range that is none. */
static uint64_t holes_before(const struct segment *segment, uint64_t nth)
{
    uint64_t low = 0;
    uint64_t high = segment->array.count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t numbers = array_at(&segment->array, middle) - segment->start - middle;
        if (numbers <= nth) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void emit_with_holes(const struct segment *segment, uint64_t skip, uint64_t take,
                            uint64_t *out)
{
    uint64_t hole = holes_before(segment, skip);
    uint64_t value = segment->start + skip + hole;
    for (uint64_t i = 0; i < take; i++, value++) {
        while (hole < segment->array.count && array_at(&segment->array, hole) == value) {
            hole++;
            value++;
        }
        out[i] = value;
    }
}

static void emit_with_bitmap(const struct segment *segment, uint64_t skip, uint64_t take,
                             uint64_t *out)
{
    uint64_t length = segment->end - segment->start;
    uint64_t seen = 0;
    uint64_t i = 0;
    while (i + 8 <= length) { /* whole bytes before the first number that is wanted */
        uint64_t set = (uint64_t)__builtin_popcount(segment->bitmap.data[i / 8]);
        if (seen + set > skip) {
            break;
        }
        seen += set;
        i += 8;
    }
    uint64_t written = 0;
    for (; i < length && written < take; i++) {
        if (bit_at(segment->bitmap, i) && seen++ >= skip) {
            out[written++] = segment->start + i;
        }
    }
}

/* Numbers [skip, skip + take) of the segment, which are there. */
static void emit(const struct segment *segment, uint64_t skip, uint64_t take, uint64_t *out)
{
    switch (segment->kind) {
    case SEGMENT_RANGE:
        for (uint64_t i = 0; i < take; i++) {
            out[i] = segment->start + skip + i;
        }
        return;
    case SEGMENT_RANGE_WITH_HOLES:
        emit_with_holes(segment, skip, take, out);
        return;
    case SEGMENT_RANGE_WITH_BITMAP:
        emit_with_bitmap(segment, skip, take, out);
        return;
    default:
        for (uint64_t i = 0; i < take; i++) {
            out[i] = array_at(&segment->array, skip + i);
        }
        return;
    }
}

/* ---- sequences ---- */

/* What is left to read. */
struct reading {
    uint64_t skip;
    uint64_t count;
    uint64_t *out;
};

/* How many of a part's `there` numbers are wanted; *skip of them come first. */
static uint64_t advance(struct reading *reading, uint64_t there, uint64_t *skip)
{
    *skip = BASE_MIN(reading->skip, there);
    uint64_t take = BASE_MIN(there - *skip, reading->count);
    reading->skip -= *skip;
    reading->count -= take;
    return take;
}

static lake_status finish(const struct reading *reading, bool failed, struct lake_error *err)
{
    if (failed) {
        return broken(err);
    }
    return reading->count == 0 ? LAKE_OK
                               : lake_fail(err, LAKE_DATA_LOSS,
                                           "a sequence of row ids is shorter than its fragment");
}

/* A part of either sequence: a segment, or { 1 span: a segment, of which only how many numbers it
 * has matters, 2 version }. */
struct part {
    struct segment segment;
    uint64_t count;
    uint64_t version; /* of all rows of a run */
};

static bool parse_run(struct lake_bytes message, struct part *out)
{
    struct base_cursor cursor = base_cursor_of(message);
    struct lance_wire_field field;
    bool failed;
    out->count = out->version = 0;
    while (lance_wire_next(&cursor, &field, &failed)) {
        if (field.number == 1 && field.wire_type == 2) {
            if (!parse_segment(field.bytes, false, &out->segment)) {
                return false;
            }
            out->count = segment_count(&out->segment);
        } else if (field.number == 2 && field.wire_type == 0) {
            out->version = field.value;
        }
    }
    return !failed;
}

static bool parse_ids(struct lake_bytes message, bool ascends, struct part *out)
{
    bool good = parse_segment(message, ascends, &out->segment);
    out->count = good ? segment_count(&out->segment) : 0;
    return good;
}

enum sequence_kind {
    IDS,
    IDS_THAT_ASCEND, /* where they must */
    VERSIONS
};

static lake_status read_parts(struct lake_bytes sequence, enum sequence_kind kind,
                              struct reading reading, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(sequence);
    struct lance_wire_field field;
    bool failed = false;
    while (reading.count > 0 && lance_wire_next(&cursor, &field, &failed)) {
        struct part part;
        uint64_t skip;
        if (field.number != 1 || field.wire_type != 2) {
            continue;
        }
        if (kind == VERSIONS ? !parse_run(field.bytes, &part)
                             : !parse_ids(field.bytes, kind == IDS_THAT_ASCEND, &part)) {
            return broken(err);
        }
        uint64_t take = advance(&reading, part.count, &skip);
        if (kind != VERSIONS) {
            emit(&part.segment, skip, take, reading.out);
        }
        for (uint64_t i = 0; kind == VERSIONS && i < take; i++) {
            reading.out[i] = part.version;
        }
        reading.out += take;
    }
    return finish(&reading, failed, err);
}

lake_status lance_row_ids_read(struct lance_row_ids ids, uint64_t start, uint64_t count,
                               uint64_t *out, struct lake_error *err)
{
    return read_parts(ids.bytes, ids.checked ? IDS_THAT_ASCEND : IDS,
                      (struct reading){start, count, out}, err);
}

lake_status lance_row_versions_read(struct lake_bytes sequence, uint64_t start, uint64_t count,
                                    uint64_t *out, struct lake_error *err)
{
    return read_parts(sequence, VERSIONS, (struct reading){start, count, out}, err);
}

lake_status lance_row_ids_check(struct lance_row_ids *ids, struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(ids->bytes);
    struct lance_wire_field field;
    bool failed = false;
    while (lance_wire_next(&cursor, &field, &failed)) {
        struct segment segment;
        if (field.number == 1 && field.wire_type == 2 &&
            !parse_segment(field.bytes, false, &segment)) {
            return broken(err);
        }
    }
    if (failed) {
        return broken(err);
    }
    ids->checked = true;
    return LAKE_OK;
}

/* ---- finding ---- */

struct finding {
    const uint64_t *ids; /* ascending */
    size_t id_count;
    struct lance_row_id_hit *hits;
    size_t hit_count;
    uint64_t first_row; /* of the segment */
};

/* The first of the ids that is not below `id`. */
static size_t first_id(const struct finding *finding, uint64_t id)
{
    size_t low = 0;
    size_t high = finding->id_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (finding->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How many numbers of an ascending array are below `number`. */
static uint64_t count_below(const struct encoded_array *array, uint64_t number)
{
    uint64_t low = 0;
    uint64_t high = array->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (array_at(array, middle) < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool array_has(const struct encoded_array *array, uint64_t at, uint64_t number)
{
    return at < array->count && array_at(array, at) == number;
}

/* False for an id that is in the sequence twice. */
static bool hit(struct finding *finding, size_t index, uint64_t rank)
{
    if (finding->hit_count == finding->id_count) {
        return false;
    }
    finding->hits[finding->hit_count++] =
        (struct lance_row_id_hit){index, finding->first_row + rank};
    return true;
}

static bool find_in_range(struct finding *finding, const struct segment *segment)
{
    uint64_t counted = 0; /* bits of the bitmap that were looked at, */
    uint64_t set = 0;     /* and those of them that are set */
    bool good = true;
    for (size_t i = first_id(finding, segment->start);
         good && i < finding->id_count && finding->ids[i] < segment->end; i++) {
        uint64_t at = finding->ids[i] - segment->start;
        if (segment->kind == SEGMENT_RANGE) {
            good = hit(finding, i, at);
        } else if (segment->kind == SEGMENT_RANGE_WITH_HOLES) {
            uint64_t holes = count_below(&segment->array, finding->ids[i]);
            if (!array_has(&segment->array, holes, finding->ids[i])) {
                good = holes <= at && hit(finding, i, at - holes);
            }
        } else if (bit_at(segment->bitmap, at)) {
            for (; counted + 8 <= at; counted += 8) {
                set += (uint64_t)__builtin_popcount(segment->bitmap.data[counted / 8]);
            }
            uint64_t before = 0;
            for (uint64_t bit = counted; bit < at; bit++) {
                before += bit_at(segment->bitmap, bit);
            }
            good = hit(finding, i, set + before);
        }
    }
    return good;
}

static bool find_in_array(struct finding *finding, const struct segment *segment)
{
    const struct encoded_array *array = &segment->array;
    bool good = true;
    if (segment->kind == SEGMENT_SORTED_ARRAY && array->count > 0) {
        for (size_t i = first_id(finding, array_at(array, 0)); good && i < finding->id_count; i++) {
            uint64_t at = count_below(array, finding->ids[i]);
            if (at == array->count) {
                break;
            }
            good = !array_has(array, at, finding->ids[i]) || hit(finding, i, at);
        }
        return good;
    }
    for (uint64_t at = 0; good && at < array->count; at++) {
        uint64_t number = array_at(array, at);
        for (size_t i = first_id(finding, number);
             good && i < finding->id_count && finding->ids[i] == number; i++) {
            good = hit(finding, i, at);
        }
    }
    return good;
}

lake_status lance_row_ids_find(struct lance_row_ids in, const uint64_t *ids, size_t id_count,
                               struct lance_row_id_hit *hits, size_t *hit_count,
                               struct lake_error *err)
{
    struct base_cursor cursor = base_cursor_of(in.bytes);
    struct finding finding = {.ids = ids, .id_count = id_count, .hits = hits};
    struct lance_wire_field field;
    bool failed = false;
    while (lance_wire_next(&cursor, &field, &failed)) {
        struct segment segment;
        if (field.number != 1 || field.wire_type != 2) {
            continue;
        }
        if (!parse_segment(field.bytes, in.checked, &segment)) {
            return broken(err);
        }
        bool good = segment.kind >= SEGMENT_SORTED_ARRAY ? find_in_array(&finding, &segment)
                                                         : find_in_range(&finding, &segment);
        if (!good ||
            !base_u64_add(finding.first_row, segment_count(&segment), &finding.first_row)) {
            return broken(err);
        }
    }
    if (failed) {
        return broken(err);
    }
    *hit_count = finding.hit_count;
    return LAKE_OK;
}

/* ---- whole sequences ---- */

static lake_status too_long(struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "a sequence of row ids is longer than its fragment");
}

lake_status lance_row_ids_decode(struct lake_bytes sequence, uint64_t row_count, uint64_t *out,
                                 struct lake_error *err)
{
    uint64_t more;
    struct lance_row_ids ids = {.bytes = sequence};
    lake_status status = lance_row_ids_check(&ids, err);
    if (status == LAKE_OK) {
        status = lance_row_ids_read(ids, 0, row_count, out, err);
    }
    return status == LAKE_OK && lance_row_ids_read(ids, row_count, 1, &more, NULL) == LAKE_OK
               ? too_long(err)
               : status;
}

lake_status lance_row_versions_decode(struct lake_bytes sequence, uint64_t row_count, uint64_t *out,
                                      struct lake_error *err)
{
    uint64_t more;
    lake_status status = lance_row_versions_read(sequence, 0, row_count, out, err);
    return status == LAKE_OK &&
                   lance_row_versions_read(sequence, row_count, 1, &more, NULL) == LAKE_OK
               ? too_long(err)
               : status;
}
