/*
 * Filters against statistics: whether any row of a zone can pass. Bounds may be wider than the
 * values are, so "yes" is always allowed and "no" is certain.
 */
#include "predicate.h"
#include "zones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static wide wide_of(enum lance_zone_kind kind, uint64_t bits)
{
    return kind == LANCE_ZONES_SIGNED ? (wide)(int64_t)bits : (wide)bits;
}

/* `zones` NULL: there is no Bloom filter to ask. */
static bool has_hash(const struct lance_zones *zones, size_t index, wide value)
{
    return zones == NULL || lance_zones_may_have(zones, index, lance_zone_hash((uint64_t)value));
}

static bool integers_may_pass(const struct lance_predicate *predicate, wide low, wide high,
                              const struct lance_zones *zones, size_t index)
{
    if (predicate->op == LANCE_IN) {
        for (size_t i = 0; i < predicate->count; i++) {
            wide value = predicate->set[i];
            if (value >= low && value <= high && has_hash(zones, index, value))
                return true;
        }
        return false;
    }
    if (predicate->never)
        return false;
    if (predicate->negated)
        return low < predicate->low || high > predicate->high;
    if (high < predicate->low || low > predicate->high)
        return false;
    return predicate->op != LANCE_EQ || has_hash(zones, index, predicate->low);
}

/* The engine's total order: NaN is the greatest and equals itself. */
static int compare_floats(double a, double b)
{
    if (isnan(a) || isnan(b))
        return (int)isnan(a) - (int)isnan(b);
    return (a > b) - (a < b);
}

static bool floats_may_pass(const struct lance_predicate *predicate, double low, double high)
{
    double x = predicate->op == LANCE_IN ? 0 : predicate->floats[0];
    switch (predicate->op) {
    case LANCE_EQ:
        return compare_floats(low, x) <= 0 && compare_floats(x, high) <= 0;
    case LANCE_NE:
        return compare_floats(low, x) != 0 || compare_floats(high, x) != 0;
    case LANCE_LT:
        return compare_floats(low, x) < 0;
    case LANCE_LE:
        return compare_floats(low, x) <= 0;
    case LANCE_GT:
        return compare_floats(high, x) > 0;
    case LANCE_GE:
        return compare_floats(high, x) >= 0;
    default:
        for (size_t i = 0; i < predicate->count; i++)
            if (compare_floats(low, predicate->floats[i]) <= 0 &&
                compare_floats(predicate->floats[i], high) <= 0)
                return true;
        return false;
    }
}

/* Bounds are prefixes: what has an equal prefix may lie on either side. */
static bool bytes_may_pass(const struct lance_predicate *predicate, const struct lance_zones *zones,
                           size_t index)
{
    const struct lance_zone *zone = &zones->zones[index];
    if (predicate->op == LANCE_EQ || predicate->op == LANCE_IN) {
        for (size_t i = 0; i < predicate->count; i++) {
            uint64_t prefix = lance_zone_prefix(predicate->bytes[i]);
            if (prefix >= zone->low && prefix <= zone->high &&
                lance_zones_may_have(zones, index, lance_zone_hash_bytes(predicate->bytes[i])))
                return true;
        }
        return false;
    }
    uint64_t prefix = lance_zone_prefix(predicate->bytes[0]);
    switch (predicate->op) {
    case LANCE_LT:
    case LANCE_LE:
        return zone->low <= prefix;
    case LANCE_GT:
    case LANCE_GE:
        return zone->high >= prefix;
    default:
        return true;
    }
}

/* False: no row of the zone can pass. */
static bool may_pass_zone(const struct lance_predicate *predicate, const struct lance_zones *zones,
                          size_t index)
{
    const struct lance_zone *zone = &zones->zones[index];
    enum lance_zone_kind kind = zones->kind;
    bool integers = kind == LANCE_ZONES_SIGNED || kind == LANCE_ZONES_UNSIGNED;
    if (predicate->op == LANCE_IS_NULL)
        return zone->null_count > 0;
    if (zone->null_count == zone->row_count)
        return false;
    if (predicate->has_dictionary || predicate->kind == ON_NULLNESS)
        return true;
    if (predicate->kind == ON_INTEGER)
        return !integers || integers_may_pass(predicate, wide_of(kind, zone->low),
                                              wide_of(kind, zone->high), zones, index);
    if (predicate->kind == ON_FLOAT) {
        double low, high;
        memcpy(&low, &zone->low, sizeof(low));
        memcpy(&high, &zone->high, sizeof(high));
        return kind != LANCE_ZONES_FLOAT || floats_may_pass(predicate, low, high);
    }
    return kind != LANCE_ZONES_BYTES || bytes_may_pass(predicate, zones, index);
}

/* ---- bounds that are values ---- */

static bool is_null(const struct ArrowArray *array, uint64_t row)
{
    const uint8_t *bits = array->null_count == 0 ? NULL : array->buffers[0];
    uint64_t at = (uint64_t)array->offset + row;
    return bits != NULL && (bits[at / 8] >> (at % 8) & 1) == 0;
}

/* A bound that is null or NaN says nothing: then NaN, too, is among the values. */
static bool float_bounds_may_pass(const struct lance_predicate *predicate,
                                  const struct lance_bounds *bounds, bool no_low, bool no_high)
{
    double low = no_low ? NAN : lance_predicate_load_float(predicate, bounds->low, bounds->at);
    double high = no_high ? NAN : lance_predicate_load_float(predicate, bounds->high, bounds->at);
    bool open = isnan(low) || bounds->nan_count > 0;
    return floats_may_pass(predicate, isnan(low) ? -INFINITY : low, open ? NAN : high);
}

static bool byte_bounds_may_pass(const struct lance_predicate *predicate,
                                 const struct lance_bounds *bounds, bool no_low, bool no_high)
{
    struct lake_bytes low = {NULL, 0}, high = {NULL, 0};
    bool negated = predicate->op == LANCE_NE;
    bool below = predicate->op == LANCE_LT || predicate->op == LANCE_LE;
    bool above = predicate->op == LANCE_GT || predicate->op == LANCE_GE;
    if (!no_low)
        low = lance_predicate_load_bytes(predicate, bounds->low, bounds->at);
    if (!no_high)
        high = lance_predicate_load_bytes(predicate, bounds->high, bounds->at);
    for (size_t i = 0; i < predicate->count && !negated; i++) {
        int from_low = no_low ? 1 : lance_compare_bytes(predicate->bytes[i], low);
        int from_high = no_high ? -1 : lance_compare_bytes(predicate->bytes[i], high);
        if ((above || from_low >= 0) && (below || from_high <= 0))
            return true;
    }
    return negated;
}

bool lance_predicate_may_pass_bounds(const struct lance_predicate *predicate,
                                     const struct lance_bounds *bounds)
{
    bool no_low = is_null(bounds->low, bounds->at), no_high = is_null(bounds->high, bounds->at);
    if (predicate->op == LANCE_IS_NULL)
        return bounds->null_count > 0;
    if (bounds->null_count >= bounds->row_count && no_high)
        return false;
    if (predicate->kind == ON_NULLNESS)
        return true;
    if (predicate->kind == ON_FLOAT)
        return float_bounds_may_pass(predicate, bounds, no_low, no_high);
    if (predicate->kind == ON_BYTES)
        return byte_bounds_may_pass(predicate, bounds, no_low, no_high);
    wide least = (wide)((unsigned_wide)1 << 127);
    wide low = no_low ? least : lance_predicate_load_wide(predicate, bounds->low, bounds->at);
    wide high =
        no_high ? -(least + 1) : lance_predicate_load_wide(predicate, bounds->high, bounds->at);
    return integers_may_pass(predicate, low, high, NULL, 0);
}

/* The end of the zone that row `row` is in; *may_pass false when one of the column's filters
 * rejects the zone. */
static uint64_t look_at(const struct lance_pruned_column *column, uint64_t row, bool *may_pass)
{
    const struct lance_zones *zones = column->zones;
    size_t zone = (size_t)(row / zones->zone_rows);
    *may_pass = true;
    if (zone >= zones->count)
        return UINT64_MAX;
    for (size_t i = 0; *may_pass && i < column->predicate_count; i++)
        *may_pass = may_pass_zone(column->predicates[i], zones, zone);
    return ((uint64_t)zone + 1) * zones->zone_rows;
}

void lance_prune(const struct lance_pruned_column *columns, size_t count, uint64_t start,
                 uint64_t end, uint64_t *first, uint64_t *last)
{
    uint64_t row = start;
    bool found = false;
    while (row < end) {
        uint64_t next = UINT64_MAX;
        bool all_pass = true;
        for (size_t i = 0; i < count; i++) {
            bool may_pass;
            uint64_t zone_end = look_at(&columns[i], row, &may_pass);
            if (!may_pass) { /* the longest way out of the rejected zones */
                next = all_pass ? zone_end : BASE_MAX(next, zone_end);
                all_pass = false;
            } else if (all_pass) {
                next = BASE_MIN(next, zone_end);
            }
        }
        if (found && !all_pass)
            break;
        if (!found && all_pass)
            *first = row;
        found = found || all_pass;
        row = next;
    }
    *last = BASE_MIN(row, end);
    if (!found)
        *first = end;
}
