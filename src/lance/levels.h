/*
 * Repetition and definition levels and the layers they stand for (facts: format section 4.1).
 *
 * Layers are numbered leaf first. Definition 0 is valid everywhere; each nullable layer takes the
 * next level, a list that may be null and empty takes two, null first. Repetition counts the lists
 * that start at an entry: 0 continues the innermost list, the number of lists is a new row.
 */
#ifndef LANCE_LEVELS_H
#define LANCE_LEVELS_H

#include "leaf.h"

/* What reading has gathered for one layer: Arrow validity, and offsets if it is a list. */
struct lance_layer_out {
    bool is_list;
    uint64_t length;
    uint64_t null_count;
    struct lance_bits valid;   /* only kept once null_count > 0 */
    struct base_buffer starts; /* lists: where each list starts among the items, int64 */
    uint64_t item_count;       /* lists: items so far, which is where the last list ends */
};

struct lance_layers {
    size_t count;
    struct lance_layer_out layers[LANCE_MAX_LAYERS];
    struct base_buffer work; /* copies of levels while they are unravelled */
};
void lance_layers_init(struct lance_layers *layers, const bool *is_list, size_t count);
void lance_layers_fini(struct lance_layers *layers);
void lance_layers_clear(struct lance_layers *layers);

/* Highest definition level that still owns a value slot: the levels before the first list. */
uint32_t lance_visible_level(const uint8_t *layers, size_t count);
uint32_t lance_max_rep_level(const uint8_t *layers, size_t count);

/* Appends whole rows of one page, whose layers are `page_layers`. `rep` and `def` are NULL where
 * the page has none; without `rep` there is one entry a row. DATA_LOSS for impossible levels. */
lake_status lance_layers_append(struct lance_layers *layers, const uint8_t *page_layers,
                                const uint16_t *rep, const uint16_t *def, uint64_t entries,
                                struct lake_error *err);

#endif
