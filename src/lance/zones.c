#include "zones.h"

#include <math.h>
#include <string.h>

/* The buffer: magic, then u32 version, kind, rows of a zone, zones, bytes of a Bloom filter, runs
 * or 0; the zones, 24 bytes each; the filters. All little endian. */
#define MAGIC        "LAKEZONE"
#define VERSION      1
#define HEADER_BYTES 32
#define ZONE_BYTES   24
#define MAX_ZONES    ((uint64_t)1 << 24)

#define BLOOM_BYTES     1024 /* while a filter is filled; it may be folded to less */
#define MIN_BLOOM_BYTES 32
#define BLOOM_PROBES    4
#define TRIAL_ZONES     4    /* after which filters that tell nothing apart are given up */
#define MAX_FILL        0.5  /* of a filter's bits */
#define FOLDED_FILL     0.25 /* a filter may be folded to */
#define WORTHWHILE      1.5  /* bits of all filters together, against those of one */
#define TIGHT           8    /* zones whose bounds are this part of the column's need no filter */

#define MIN_RUN_ROWS 64 /* runs shorter than this on average are not counted to the end */

_Static_assert(sizeof(struct lance_zone) == ZONE_BYTES, "zones are stored as they are");

static enum lance_zone_kind kind_of(const struct lance_leaf_type *type)
{
    const char *format = type->arrow == NULL ? "" : type->arrow->format;
    if (type->kind == LANCE_LEAF_VARIABLE)
        return LANCE_ZONES_BYTES;
    if (type->kind != LANCE_LEAF_FIXED || type->item_bits > 64)
        return LANCE_ZONES_NONE;
    switch (format[0]) {
    case 'b':
    case 'C':
    case 'S':
    case 'I':
    case 'L':
        return LANCE_ZONES_UNSIGNED;
    case 'c':
    case 's':
    case 'i':
    case 'l':
    case 't': /* dates, times, timestamps, durations; intervals have formats of their own below */
        return strncmp(format, "ti", 2) == 0 ? LANCE_ZONES_NONE : LANCE_ZONES_SIGNED;
    case 'f':
    case 'g':
        return LANCE_ZONES_FLOAT;
    default:
        return LANCE_ZONES_NONE;
    }
}

void lance_zones_free(struct lance_zones *zones)
{
    if (zones != NULL) {
        base_free(zones->zones);
        base_free(zones->blooms);
        base_free(zones);
    }
}

/* ---- Bloom filters ---- */

uint64_t lance_zone_hash(uint64_t value)
{
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93ULL;
    value = (value ^ value >> 32) * 0xD6E8FEB86659FD93ULL;
    return value ^ value >> 32;
}

uint64_t lance_zone_hash_bytes(struct lake_bytes value)
{
    uint64_t hash = value.size, rest = 0;
    const uint8_t *at = value.data;
    for (size_t left = value.size; left > 0;) {
        size_t take = BASE_MIN(left, (size_t)8);
        rest = 0;
        memcpy(&rest, at, take);
        hash = lance_zone_hash(hash ^ rest);
        at += take;
        left -= take;
    }
    return lance_zone_hash(hash);
}

static inline size_t probe(uint64_t hash, unsigned i, size_t bytes)
{
    return (size_t)((uint32_t)hash + i * (uint32_t)(hash >> 32 | 1)) & (bytes * 8 - 1);
}

bool lance_zones_may_have(const struct lance_zones *zones, size_t zone, uint64_t hash)
{
    if (zones->bloom_bytes == 0)
        return true;
    const uint8_t *bloom = zones->blooms + zone * zones->bloom_bytes;
    for (unsigned i = 0; i < BLOOM_PROBES; i++) {
        size_t bit = probe(hash, i, zones->bloom_bytes);
        if ((bloom[bit / 8] >> (bit % 8) & 1) == 0)
            return false;
    }
    return true;
}

static void bloom_add(uint8_t *bloom, uint64_t hash)
{
    for (unsigned i = 0; i < BLOOM_PROBES; i++) {
        size_t bit = probe(hash, i, BLOOM_BYTES);
        bloom[bit / 8] |= (uint8_t)(1U << (bit % 8));
    }
}

/* The part of the bits that are set in the filters on average, and in all of them together. */
static void bloom_fill(const uint8_t *blooms, size_t count, size_t bytes, double *mean,
                       double *together)
{
    uint8_t all[BLOOM_BYTES] = {0};
    for (size_t i = 0; i < count * bytes; i++)
        all[i % bytes] |= blooms[i];
    *mean = (double)lance_bits_count_set(blooms, 0, count * bytes * 8) /
            (double)(BASE_MAX(count, (size_t)1) * bytes * 8);
    *together = (double)lance_bits_count_set(all, 0, bytes * 8) / (double)(bytes * 8);
}

/* ---- building ---- */

void lance_zone_builder_init(struct lance_zone_builder *builder, const struct lance_leaf_type *type)
{
    *builder = (struct lance_zone_builder){.type = type, .kind = kind_of(type)};
    builder->no_blooms = builder->kind == LANCE_ZONES_NONE || builder->kind == LANCE_ZONES_FLOAT ||
                         (builder->kind != LANCE_ZONES_BYTES && type->item_bits < 32);
    builder->no_runs = builder->kind == LANCE_ZONES_FLOAT;
    base_buffer_init(&builder->zones, (size_t)MAX_ZONES * ZONE_BYTES);
    base_buffer_init(&builder->blooms, (size_t)MAX_ZONES * BLOOM_BYTES);
    base_buffer_init(&builder->work, SIZE_MAX / 2);
}

void lance_zone_builder_fini(struct lance_zone_builder *builder)
{
    base_buffer_fini(&builder->zones);
    base_buffer_fini(&builder->blooms);
    base_buffer_fini(&builder->work);
}

uint64_t lance_zone_prefix(struct lake_bytes value)
{
    uint8_t first[8] = {0};
    if (value.size > 0)
        memcpy(first, value.data, BASE_MIN(value.size, sizeof(first)));
    return __builtin_bswap64(base_load_u64le(first));
}

static struct lake_bytes string_at(const struct lance_leaf_values *values, uint64_t i)
{
    uint64_t start, end;
    lance_leaf_values_range(values, i, &start, &end);
    return (struct lake_bytes){values->data.data + start, (size_t)(end - start)};
}

/* A double from what range_float gives. */
static double float_of_order(int64_t order, uint64_t bits)
{
    if (bits == 32) {
        int32_t small = (int32_t)order;
        uint32_t pattern = (uint32_t)small ^ ((uint32_t)(small >> 31) >> 1);
        float value;
        memcpy(&value, &pattern, sizeof(value));
        return (double)value;
    }
    uint64_t pattern = (uint64_t)order ^ ((uint64_t)(order >> 63) >> 1);
    double value;
    memcpy(&value, &pattern, sizeof(value));
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Bounds of `count` (not 0) fixed values without nulls among them. */
static void range_of(const struct lance_zone_builder *builder, const uint8_t *values,
                     uint64_t count, uint64_t *low, uint64_t *high)
{
    uint32_t bits = (uint32_t)builder->type->item_bits;
    size_t index = lance_kernel_index(bits);
    int64_t lowest, highest;
    if (builder->kind == LANCE_ZONES_SIGNED) {
        lance_kernels()->range_signed[index](values, count, &lowest, &highest);
        *low = (uint64_t)lowest;
        *high = (uint64_t)highest;
    } else if (builder->kind == LANCE_ZONES_UNSIGNED) {
        uint64_t turn = (uint64_t)1 << (bits - 1), mask = turn | (turn - 1);
        lance_kernels()->range_unsigned[index](values, count, &lowest, &highest);
        *low = ((uint64_t)lowest ^ turn) & mask;
        *high = ((uint64_t)highest ^ turn) & mask;
    } else {
        lance_kernels()->range_float[index](values, count, &lowest, &highest);
        double least = float_of_order(lowest, bits), greatest = float_of_order(highest, bits);
        /* A NaN with its sign set comes out lowest, yet is the greatest of all. */
        *low = bits_of(isnan(least) && lowest < 0 ? -INFINITY : least);
        *high = bits_of(isnan(least) ? NAN : greatest);
    }
}

static void note_range(struct lance_zone *zone, enum lance_zone_kind kind, bool first, uint64_t low,
                       uint64_t high)
{
    bool lower, higher;
    if (kind == LANCE_ZONES_FLOAT) {
        double a, b, c, d;
        memcpy(&a, &low, sizeof(a));
        memcpy(&b, &zone->low, sizeof(b));
        memcpy(&c, &high, sizeof(c));
        memcpy(&d, &zone->high, sizeof(d));
        lower = isnan(b) ? !isnan(a) : a < b;
        higher = isnan(d) ? false : isnan(c) || c > d;
    } else if (kind == LANCE_ZONES_SIGNED) {
        lower = (int64_t)low < (int64_t)zone->low;
        higher = (int64_t)high > (int64_t)zone->high;
    } else {
        lower = low < zone->low;
        higher = high > zone->high;
    }
    if (first || lower)
        zone->low = low;
    if (first || higher)
        zone->high = high;
}

/* Fixed values of rows [start, start + count) that are not null, contiguous. */
static lake_status valid_values(struct lance_zone_builder *builder,
                                const struct lance_leaf_values *values, const uint16_t *def,
                                uint64_t start, uint64_t count, const uint8_t **out,
                                uint64_t *valid, struct lake_error *err)
{
    size_t width = (size_t)builder->type->item_bits / 8;
    *out = values->fixed.data + start * width;
    *valid = count;
    if (def == NULL)
        return LAKE_OK;
    base_buffer_clear(&builder->work);
    lake_status status = base_buffer_reserve(&builder->work, (size_t)count * width, err);
    *valid = 0;
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++) {
        if (def[start + i] == 0)
            memcpy(builder->work.data + width * (*valid)++, *out + i * width, width);
    }
    *out = builder->work.data;
    return status;
}

static void add_hashes(struct lance_zone_builder *builder, const uint8_t *values, uint64_t count)
{
    uint8_t *bloom = builder->blooms.data + builder->blooms.size - BLOOM_BYTES;
    size_t width = (size_t)builder->type->item_bits / 8;
    bool negative = builder->kind == LANCE_ZONES_SIGNED;
    uint64_t before = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = width == 8 ? base_load_u64le(values + 8 * i)
                         : negative ? (uint64_t)(int64_t)(int32_t)base_load_u32le(values + 4 * i)
                                    : base_load_u32le(values + 4 * i);
        if (i == 0 || value != before)
            bloom_add(bloom, lance_zone_hash(value));
        before = value;
    }
}

/* How often a value differs from the one before it. */
static uint64_t count_changes(const uint8_t *values, size_t width, uint64_t count)
{
    uint64_t changes = 0;
    for (uint64_t i = 1; i < count; i++) {
        const uint8_t *at = values + i * width;
        switch (width) {
        case 1:
            changes += at[0] != at[-1];
            break;
        case 2:
            changes += base_load_u16le(at) != base_load_u16le(at - 2);
            break;
        case 4:
            changes += base_load_u32le(at) != base_load_u32le(at - 4);
            break;
        default:
            changes += base_load_u64le(at) != base_load_u64le(at - 8);
        }
    }
    return changes;
}

/* The runs of rows that are null or not. */
static uint64_t count_null_runs(const uint16_t *def, uint64_t start, uint64_t count)
{
    uint64_t runs = 1;
    for (uint64_t i = start + 1; def != NULL && i < start + count; i++)
        runs += (def[i] == 0) != (def[i - 1] == 0);
    return runs;
}

/* Rows [start, start + count) to the zone, which is the last one. */
static lake_status add_fixed(struct lance_zone_builder *builder,
                             const struct lance_leaf_values *values, const uint16_t *def,
                             uint64_t start, uint64_t count, struct lance_zone *zone,
                             struct lake_error *err)
{
    const uint8_t *from;
    uint64_t valid, low, high;
    lake_status status = valid_values(builder, values, def, start, count, &from, &valid, err);
    if (status == LAKE_OK && !builder->no_runs)
        builder->runs += count_null_runs(def, start, count) +
                         count_changes(from, (size_t)builder->type->item_bits / 8, valid);
    if (status != LAKE_OK || valid == 0) {
        zone->null_count += (uint32_t)count;
        return status;
    }
    range_of(builder, from, valid, &low, &high);
    note_range(zone, builder->kind, zone->row_count == zone->null_count, low, high);
    zone->null_count += (uint32_t)(count - valid);
    if (!builder->no_blooms)
        add_hashes(builder, from, valid);
    return LAKE_OK;
}

static void add_each(struct lance_zone_builder *builder, const struct lance_leaf_values *values,
                     const uint16_t *def, uint64_t start, uint64_t count, struct lance_zone *zone)
{
    bool first = zone->row_count == zone->null_count;
    struct lake_bytes before = {0};
    uint64_t bit_before = 2;
    builder->runs += count_null_runs(def, start, count);
    for (uint64_t i = start; i < start + count; i++) {
        if (def != NULL && def[i] != 0) {
            zone->null_count++;
            continue;
        }
        if (builder->kind != LANCE_ZONES_BYTES) { /* booleans */
            uint64_t bit = values->booleans.bytes.data[i / 8] >> (i % 8) & 1;
            note_range(zone, builder->kind, first, bit, bit);
            builder->runs += bit != bit_before && bit_before != 2;
            bit_before = bit;
            first = false;
            continue;
        }
        struct lake_bytes value = string_at(values, i);
        uint64_t prefix = lance_zone_prefix(value);
        note_range(zone, builder->kind, first, prefix, prefix);
        bool repeated = before.data != NULL && before.size == value.size &&
                        (value.size == 0 || memcmp(before.data, value.data, value.size) == 0);
        if (!builder->no_blooms && !repeated)
            bloom_add(builder->blooms.data + builder->blooms.size - BLOOM_BYTES,
                      lance_zone_hash_bytes(value));
        builder->runs += !repeated && before.data != NULL;
        before = value;
        first = false;
    }
}

/* Called when a zone is full: filters that tell nothing apart are not worth filling. */
static void judge_blooms(struct lance_zone_builder *builder)
{
    size_t count = builder->zones.size / ZONE_BYTES;
    double mean, together;
    if (builder->no_blooms)
        return;
    const uint8_t *last = builder->blooms.data + builder->blooms.size - BLOOM_BYTES;
    bloom_fill(last, 1, BLOOM_BYTES, &mean, &together);
    builder->no_blooms = mean > MAX_FILL;
    if (count == TRIAL_ZONES) {
        bloom_fill(builder->blooms.data, count, BLOOM_BYTES, &mean, &together);
        builder->no_blooms = builder->no_blooms || together < mean * WORTHWHILE;
    }
    if (builder->no_blooms)
        base_buffer_fini(&builder->blooms);
}

static lake_status new_zone(struct lance_zone_builder *builder, struct lake_error *err)
{
    lake_status status = base_buffer_append_zeros(&builder->zones, ZONE_BYTES, err);
    if (status == LAKE_OK && !builder->no_blooms)
        status = base_buffer_append_zeros(&builder->blooms, BLOOM_BYTES, err);
    return status;
}

lake_status lance_zone_builder_add(struct lance_zone_builder *builder,
                                   const struct lance_leaf_values *values, const uint16_t *def,
                                   struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (builder->kind == LANCE_ZONES_NONE)
        return LAKE_OK;
    for (uint64_t start = 0; status == LAKE_OK && start < values->count;) {
        struct lance_zone *zone = (struct lance_zone *)(void *)builder->zones.data;
        size_t count = builder->zones.size / ZONE_BYTES;
        if (count == 0 || zone[count - 1].row_count == LANCE_ZONE_ROWS) {
            status = new_zone(builder, err);
            continue;
        }
        zone += count - 1;
        uint64_t rows = BASE_MIN(values->count - start, LANCE_ZONE_ROWS - zone->row_count);
        if (builder->kind == LANCE_ZONES_BYTES || builder->type->item_bits == 1)
            add_each(builder, values, def, start, rows, zone);
        else
            status = add_fixed(builder, values, def, start, rows, zone, err);
        zone->row_count += (uint32_t)rows;
        start += rows;
        builder->rows += rows;
        builder->no_runs = builder->no_runs || builder->runs > builder->rows / MIN_RUN_ROWS + 1;
        if (zone->row_count == LANCE_ZONE_ROWS)
            judge_blooms(builder);
    }
    return status;
}

/* ---- the buffer ---- */

/* True when the zones' bounds overlap so little that they say as much as filters would. */
static bool bounds_suffice(const struct lance_zone_builder *builder)
{
    const struct lance_zone *zones = (const struct lance_zone *)(const void *)builder->zones.data;
    size_t count = builder->zones.size / ZONE_BYTES;
    struct lance_zone all = {0};
    double widths = 0, width;
    bool is_signed = builder->kind == LANCE_ZONES_SIGNED;
    for (size_t i = 0; i < count; i++) {
        if (zones[i].null_count == zones[i].row_count)
            continue;
        note_range(&all, builder->kind, all.row_count == 0, zones[i].low, zones[i].high);
        all.row_count = 1;
        widths += is_signed ? (double)(int64_t)zones[i].high - (double)(int64_t)zones[i].low
                            : (double)(zones[i].high - zones[i].low);
    }
    width = is_signed ? (double)(int64_t)all.high - (double)(int64_t)all.low
                      : (double)(all.high - all.low);
    return widths / (double)count <= width / TIGHT;
}

/* Halves all filters as long as they stay loosely filled; bits keep their number modulo the size.
 */
static uint32_t fold_blooms(struct lance_zone_builder *builder, double fill)
{
    size_t count = builder->zones.size / ZONE_BYTES, bytes = BLOOM_BYTES;
    uint8_t *blooms = builder->blooms.data;
    while (bytes > MIN_BLOOM_BYTES && fill * 2 <= FOLDED_FILL) {
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < bytes / 2; k++)
                blooms[i * (bytes / 2) + k] =
                    (uint8_t)(blooms[i * bytes + k] | blooms[i * bytes + bytes / 2 + k]);
        bytes /= 2;
        fill *= 2;
    }
    builder->blooms.size = count * bytes;
    return (uint32_t)bytes;
}

lake_status lance_zone_builder_print(struct lance_zone_builder *builder, struct base_buffer *out,
                                     struct lake_error *err)
{
    size_t count = builder->zones.size / ZONE_BYTES;
    uint32_t bloom_bytes = 0;
    uint8_t header[HEADER_BYTES] = MAGIC;
    if (count == 0)
        return LAKE_OK;
    if (!builder->no_blooms && count > 1 && !bounds_suffice(builder)) {
        double mean, together;
        bloom_fill(builder->blooms.data, count, BLOOM_BYTES, &mean, &together);
        if (mean <= MAX_FILL && together >= mean * WORTHWHILE)
            bloom_bytes = fold_blooms(builder, mean);
    }
    base_store_u32le(header + 8, VERSION);
    base_store_u32le(header + 12, (uint32_t)builder->kind);
    base_store_u32le(header + 16, LANCE_ZONE_ROWS);
    base_store_u32le(header + 20, (uint32_t)count);
    base_store_u32le(header + 24, bloom_bytes);
    base_store_u32le(header + 28, builder->no_runs ? 0 : (uint32_t)builder->runs);
    lake_status status = base_buffer_append(out, header, sizeof(header), err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, builder->zones.data, builder->zones.size, err);
    if (status == LAKE_OK && bloom_bytes > 0)
        status = base_buffer_append(out, builder->blooms.data, builder->blooms.size, err);
    return status;
}

static lake_status broken(const char *what, struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "a column's statistics are broken: %s", what);
}

static lake_status check_zones(const struct lance_zones *zones, uint64_t row_count,
                               struct lake_error *err)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < zones->count; i++) {
        const struct lance_zone *zone = &zones->zones[i];
        if (zone->row_count == 0 || zone->null_count > zone->row_count ||
            (i + 1 < zones->count ? zone->row_count != zones->zone_rows
                                  : zone->row_count > zones->zone_rows))
            return broken("a zone's rows", err);
        rows += zone->row_count;
    }
    if (zones->runs > rows)
        return broken("runs", err);
    return rows == row_count ? LAKE_OK : broken("rows of all zones", err);
}

lake_status lance_zones_parse(struct lake_bytes bytes, uint64_t row_count, struct lance_zones **out,
                              struct lake_error *err)
{
    if (bytes.size < HEADER_BYTES || memcmp(bytes.data, MAGIC, 8) != 0 ||
        base_load_u32le(bytes.data + 8) != VERSION)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "a column's buffer is not known");
    uint32_t kind = base_load_u32le(bytes.data + 12), rows = base_load_u32le(bytes.data + 16);
    uint64_t count = base_load_u32le(bytes.data + 20), bloom = base_load_u32le(bytes.data + 24);
    if (kind < LANCE_ZONES_SIGNED || kind > LANCE_ZONES_BYTES || rows == 0 || count > MAX_ZONES ||
        bloom > BLOOM_BYTES || (bloom & (bloom - 1)) != 0 ||
        bytes.size != HEADER_BYTES + count * (ZONE_BYTES + bloom))
        return broken("their header", err);
    struct lance_zones *zones = base_calloc_array(1, sizeof(*zones));
    if (zones == NULL)
        return base_fail_no_memory(err, sizeof(*zones));
    *zones = (struct lance_zones){.kind = (enum lance_zone_kind)kind,
                                  .zone_rows = rows,
                                  .count = (size_t)count,
                                  .bloom_bytes = (uint32_t)bloom,
                                  .runs = base_load_u32le(bytes.data + 28)};
    zones->zones = base_alloc_array((size_t)count + 1, ZONE_BYTES);
    zones->blooms = base_alloc_array((size_t)count + 1, (size_t)bloom + 1);
    lake_status status = LAKE_OK;
    if (zones->zones == NULL || zones->blooms == NULL)
        status = base_fail_no_memory(err, bytes.size);
    if (status == LAKE_OK && count > 0) {
        memcpy(zones->zones, bytes.data + HEADER_BYTES, (size_t)count * ZONE_BYTES);
        if (bloom > 0)
            memcpy(zones->blooms, bytes.data + HEADER_BYTES + count * ZONE_BYTES,
                   (size_t)(count * bloom));
    }
    if (status == LAKE_OK)
        status = check_zones(zones, row_count, err);
    if (status == LAKE_OK)
        *out = zones;
    else
        lance_zones_free(zones);
    return status;
}
