/*
 * Statistics for files whose writer left none: made from the rows that filtered scans decode
 * anyway, once, and kept with the opened file in the cache.
 *
 * A task observes the columns it filters on from its first row on. What it has seen to its end
 * without a gap it offers to the file's collector; the tasks of one scan or of several may come in
 * any order. When every zone is there the column has statistics like one that was written with
 * them, but for Bloom filters.
 */
#include "observe.h"

#include <string.h>

#define MIN_ZONES 4 /* of a column; fewer are read as quickly */

struct lance_zone_collector { /* of one column */
    size_t missing;           /* atomic: zones that nobody has offered */
    struct lance_zones *zones;
    uint8_t taken[]; /* atomic, by zone: somebody fills it or has */
};

void lance_zone_collector_free(struct lance_zone_collector *collector)
{
    if (collector != NULL) {
        if (collector->missing > 0) /* else they are the column's */
            lance_zones_free(collector->zones);
        base_free(collector);
    }
}

static struct lance_zone_collector *collector_new(enum lance_zone_kind kind, uint64_t row_count)
{
    size_t count = (size_t)((row_count + LANCE_ZONE_ROWS - 1) / LANCE_ZONE_ROWS);
    struct lance_zone_collector *collector = base_calloc_array(1, sizeof(*collector) + count);
    struct lance_zones *zones = base_calloc_array(1, sizeof(*zones));
    struct lance_zone *items = base_calloc_array(count, sizeof(*items));
    if (collector == NULL || zones == NULL || items == NULL) {
        base_free(collector);
        base_free(zones);
        base_free(items);
        return NULL;
    }
    *zones = (struct lance_zones){
        .kind = kind, .zone_rows = LANCE_ZONE_ROWS, .count = count, .zones = items};
    collector->zones = zones;
    collector->missing = count;
    return collector;
}

/* The column's collector, made by who comes first; NULL: there is no memory for it. */
static struct lance_zone_collector *collector_of(struct lance_file_column *column,
                                                 enum lance_zone_kind kind)
{
    struct lance_zone_collector *there = __atomic_load_n(&column->collector, __ATOMIC_ACQUIRE);
    if (there != NULL)
        return there;
    struct lance_zone_collector *made = collector_new(kind, column->row_count);
    if (made == NULL || __atomic_compare_exchange_n(&column->collector, &there, made, false,
                                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    lance_zone_collector_free(made);
    return there;
}

static void offer(struct lance_file_column *column, struct lance_zone_collector *collector,
                  size_t index, const struct lance_zone *zone)
{
    struct lance_zones *zones = collector->zones;
    uint64_t start = (uint64_t)index * LANCE_ZONE_ROWS;
    if (index >= zones->count ||
        zone->row_count != BASE_MIN(column->row_count - start, (uint64_t)LANCE_ZONE_ROWS) ||
        __atomic_exchange_n(&collector->taken[index], 1, __ATOMIC_ACQ_REL) != 0)
        return;
    zones->zones[index] = *zone;
    if (__atomic_sub_fetch(&collector->missing, 1, __ATOMIC_ACQ_REL) == 0)
        __atomic_store_n(&column->zones, zones, __ATOMIC_RELEASE);
}

void lance_observe_start(struct lance_observed *observed, struct lance_file *file, uint32_t index,
                         const struct ArrowSchema *type, uint64_t row)
{
    observed->builder.kind = LANCE_ZONES_NONE;
    if (index >= file->column_count ||
        file->columns[index].row_count < (uint64_t)MIN_ZONES * LANCE_ZONE_ROWS ||
        row % LANCE_ZONE_ROWS != 0 || lance_leaf_type_of(type, &observed->type, NULL) != LAKE_OK)
        return;
    lance_zone_builder_init(&observed->builder, &observed->type);
    observed->builder.no_blooms = true;
    observed->builder.no_runs = true;
    base_buffer_init(&observed->levels, SIZE_MAX / 2);
    observed->column = &file->columns[index];
    observed->start = observed->next = row;
}

/* Definition levels as the builder takes them: 1 for null. */
static lake_status null_levels(struct lance_observed *observed, const struct ArrowArray *array,
                               const uint16_t **out)
{
    uint64_t count = (uint64_t)array->length;
    const uint8_t *valid = array->buffers[0];
    *out = NULL;
    if (array->null_count == 0 || valid == NULL)
        return LAKE_OK;
    base_buffer_clear(&observed->levels);
    lake_status status = base_buffer_reserve(&observed->levels, (size_t)count * 2, NULL);
    uint16_t *levels = (uint16_t *)(void *)observed->levels.data;
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++)
        levels[i] = (valid[i / 8] >> (i % 8) & 1) == 0;
    *out = levels;
    return status;
}

void lance_observe_rows(struct lance_observed *observed, const struct ArrowArray *array,
                        uint64_t row)
{
    struct lance_leaf_values values = {.type = &observed->type, .count = (uint64_t)array->length};
    const uint16_t *def = NULL;
    if (observed->builder.kind == LANCE_ZONES_NONE)
        return;
    lake_status status = LAKE_CANCELLED; /* a gap */
    if (row == observed->next && array->offset == 0 && array->dictionary == NULL) {
        uint8_t *data = (uint8_t *)(uintptr_t)array->buffers[1]; /* only read */
        if (observed->type.kind == LANCE_LEAF_VARIABLE) {
            values.offsets.data = data;
            values.data.data = (uint8_t *)(uintptr_t)array->buffers[2];
        } else if (observed->type.item_bits == 1) {
            values.booleans.bytes.data = data;
        } else {
            values.fixed.data = data;
        }
        status = null_levels(observed, array, &def);
    }
    if (status == LAKE_OK)
        status = lance_zone_builder_add(&observed->builder, &values, def, NULL);
    observed->next += values.count;
    if (status != LAKE_OK)
        observed->builder.kind = LANCE_ZONES_NONE;
}

void lance_observe_end(struct lance_observed *observed, uint64_t end)
{
    struct lance_zone_builder *builder = &observed->builder;
    if (builder->kind != LANCE_ZONES_NONE && observed->next == end) {
        const struct lance_zone *zones =
            (const struct lance_zone *)(const void *)builder->zones.data;
        struct lance_zone_collector *collector = collector_of(observed->column, builder->kind);
        for (size_t i = 0; collector != NULL && i < builder->zones.size / sizeof(*zones); i++)
            offer(observed->column, collector, (size_t)(observed->start / LANCE_ZONE_ROWS) + i,
                  &zones[i]);
    }
    if (observed->column != NULL) {
        lance_zone_builder_fini(builder);
        base_buffer_fini(&observed->levels);
    }
    *observed = (struct lance_observed){.next = 0};
}
