#include "levels.h"

#include <string.h>

#define NO_LEVEL UINT16_MAX

void lance_layers_init(struct lance_layers *layers, const bool *is_list, size_t count)
{
    *layers = (struct lance_layers){.count = count};
    base_buffer_init(&layers->work, (size_t)1 << 40);
    for (size_t i = 0; i < count; i++) {
        layers->layers[i].is_list = is_list[i];
        lance_bits_init(&layers->layers[i].valid);
        base_buffer_init(&layers->layers[i].starts, (size_t)1 << 40);
    }
}

void lance_layers_fini(struct lance_layers *layers)
{
    for (size_t i = 0; i < layers->count; i++) {
        lance_bits_fini(&layers->layers[i].valid);
        base_buffer_fini(&layers->layers[i].starts);
    }
    base_buffer_fini(&layers->work);
}

void lance_layers_clear(struct lance_layers *layers)
{
    for (size_t i = 0; i < layers->count; i++) {
        struct lance_layer_out *layer = &layers->layers[i];
        layer->length = layer->null_count = layer->item_count = 0;
        lance_bits_clear(&layer->valid);
        base_buffer_clear(&layer->starts);
    }
}

uint32_t lance_visible_level(const uint8_t *layers, size_t count)
{
    uint32_t level = 0;
    for (size_t i = 0; i < count && !lance_layer_is_list(layers[i]); i++)
        level += lance_layer_def_levels(layers[i]);
    return level;
}

static uint32_t max_def_level(const uint8_t *layers, size_t count)
{
    uint32_t level = 0;
    for (size_t i = 0; i < count; i++)
        level += lance_layer_def_levels(layers[i]);
    return level;
}

uint32_t lance_max_rep_level(const uint8_t *layers, size_t count)
{
    uint32_t level = 0;
    for (size_t i = 0; i < count; i++)
        level += lance_layer_is_list(layers[i]);
    return level;
}

/* ---- validity ---- */

/* Eight levels to eight bits: 1 where level <= limit. */
static inline uint8_t pack_valid(const uint16_t *def, uint16_t limit)
{
    uint8_t bits = 0;
    for (unsigned i = 0; i < 8; i++)
        bits |= (uint8_t)((unsigned)(def[i] <= limit) << i);
    return bits;
}

static uint64_t count_above(const uint16_t *def, uint64_t count, uint16_t limit)
{
    uint64_t above = 0;
    for (uint64_t i = 0; i < count; i++)
        above += def[i] > limit;
    return above;
}

static lake_status start_validity(struct lance_layer_out *layer, struct lake_error *err)
{
    if (layer->null_count > 0 || layer->length == layer->valid.count)
        return LAKE_OK;
    return lance_bits_append_run(&layer->valid, true, layer->length - layer->valid.count, err);
}

/* Appends `count` slots whose levels are all visible; valid where def <= limit. */
static lake_status append_validity(struct lance_layer_out *layer, const uint16_t *def,
                                   uint64_t count, uint16_t limit, struct lake_error *err)
{
    enum {
        STEP = 1024
    };
    uint8_t bits[STEP / 8];
    uint64_t nulls = count_above(def, count, limit);
    lake_status status = LAKE_OK;
    if (nulls == 0 && layer->null_count == 0) {
        layer->length += count;
        return LAKE_OK;
    }
    status = start_validity(layer, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i += STEP) {
        uint64_t n = BASE_MIN(count - i, (uint64_t)STEP), k = 0;
        for (; k + 8 <= n; k += 8)
            bits[k / 8] = pack_valid(def + i + k, limit);
        if (k < n)
            bits[k / 8] = 0;
        for (; k < n; k++)
            bits[k / 8] |= (uint8_t)((unsigned)(def[i + k] <= limit) << (k % 8));
        status = lance_bits_append(&layer->valid, bits, 0, n, err);
    }
    layer->null_count += nulls;
    layer->length += count;
    return status;
}

static lake_status append_valid(struct lance_layer_out *layer, uint64_t count,
                                struct lake_error *err)
{
    lake_status status = LAKE_OK;
    if (layer->null_count > 0)
        status = lance_bits_append_run(&layer->valid, true, count, err);
    layer->length += count;
    return status;
}

/* ---- unravelling ---- */

/* The entries that are left at a layer, compacted in place as lists are closed over them. */
struct entries {
    uint16_t *rep; /* NULL without lists */
    uint16_t *def;
    uint16_t *visible; /* room for as many */
    uint64_t count;
};

static lake_status unravel_item(struct lance_layer_out *layer, struct entries *entries,
                                uint8_t kind, uint32_t level, uint32_t visible_level,
                                struct lake_error *err)
{
    const uint16_t *def = entries->def;
    uint64_t count = entries->count, kept = 0;
    if (entries->rep != NULL)
        kept = count - count_above(def, count, (uint16_t)visible_level);
    if (entries->rep != NULL && kept < count && kind != LANCE_ALL_VALID_ITEM) {
        uint64_t next = 0;
        for (uint64_t i = 0; i < count; i++) {
            entries->visible[next] = def[i];
            next += def[i] <= visible_level;
        }
        def = entries->visible;
    }
    count = entries->rep != NULL ? kept : count;
    /* Below a null struct a child that is never null itself stays valid: its value is hidden. */
    if (kind == LANCE_ALL_VALID_ITEM)
        return append_valid(layer, count, err);
    return append_validity(layer, def, count, (uint16_t)level, err);
}

struct list_levels {
    uint32_t null;       /* level of a null list, NO_LEVEL if there are none */
    uint32_t empty;      /* level of an empty list */
    uint32_t highest;    /* highest level of this list layer */
    uint32_t here_limit; /* above it there is no list in this layer */
    uint32_t child_visible;
};

static lake_status impossible(struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS, "levels continue a list that does not exist");
}

static lake_status unravel_list(struct lance_layer_out *layer, struct entries *entries,
                                const struct list_levels *levels, struct lake_error *err)
{
    uint64_t kept = 0, lists = 0;
    uint16_t *validity = entries->visible; /* 0 valid, 1 null */
    lake_status status =
        base_buffer_reserve(&layer->starts, (size_t)entries->count * sizeof(int64_t), err);
    if (status != LAKE_OK)
        return status;
    for (uint64_t i = 0; i < entries->count; i++) {
        uint16_t rep = entries->rep[i], def = entries->def[i];
        if (rep == 0) {
            if (def > levels->child_visible || kept == 0)
                return impossible(err);
            layer->item_count++;
            continue;
        }
        entries->rep[kept] = (uint16_t)(rep - 1);
        entries->def[kept++] = def;
        if (def > levels->here_limit)
            continue;
        base_store_u64le(layer->starts.data + layer->starts.size, layer->item_count);
        layer->starts.size += sizeof(int64_t);
        bool null = def == levels->null || def > levels->highest;
        validity[lists++] = null && levels->null != NO_LEVEL;
        layer->item_count += !null && def != levels->empty;
    }
    entries->count = kept;
    if (levels->null == NO_LEVEL)
        return append_valid(layer, lists, err);
    return append_validity(layer, validity, lists, 0, err);
}

static lake_status check_levels(const uint16_t *levels, uint64_t count, uint32_t max,
                                const char *what, struct lake_error *err)
{
    int64_t low, high;
    const uint8_t *bytes = (const uint8_t *)(const void *)levels;
    lance_kernels()->range_unsigned[lance_kernel_index(16)](bytes, count, &low, &high);
    uint32_t highest = count == 0 ? 0 : (uint16_t)((uint16_t)high ^ 0x8000U);
    if (highest > max)
        return lake_fail(err, LAKE_DATA_LOSS, "a %s level %u where the page's layers allow %u",
                         what, highest, max);
    return LAKE_OK;
}

static lake_status copy_levels(struct lance_layers *layers, const uint16_t *rep,
                               const uint16_t *def, uint64_t count, struct entries *out,
                               struct lake_error *err)
{
    size_t bytes, all;
    if (count > SIZE_MAX / 2 || !base_size_mul((size_t)count, sizeof(uint16_t), &bytes) ||
        !base_size_mul(bytes, 3, &all))
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "too many levels in one read");
    base_buffer_clear(&layers->work);
    lake_status status = base_buffer_reserve(&layers->work, all, err);
    if (status != LAKE_OK)
        return status;
    uint16_t *work = (uint16_t *)(void *)layers->work.data;
    *out = (struct entries){.def = work, .visible = work + count, .count = count};
    if (def != NULL)
        memcpy(out->def, def, bytes);
    else
        memset(out->def, 0, bytes);
    if (rep != NULL) {
        out->rep = work + 2 * count;
        memcpy(out->rep, rep, bytes);
    }
    return LAKE_OK;
}

/* Sum of the levels of the items directly above layer `i`, until the next list. */
static uint32_t items_above(const uint8_t *page_layers, size_t count, size_t i)
{
    uint32_t levels = 0;
    for (i++; i < count && !lance_layer_is_list(page_layers[i]); i++)
        levels += lance_layer_def_levels(page_layers[i]);
    return levels;
}

static lake_status unravel(struct lance_layers *layers, const uint8_t *page_layers,
                           struct entries *entries, struct lake_error *err)
{
    uint32_t level = 0, visible = lance_visible_level(page_layers, layers->count);
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < layers->count; i++) {
        uint8_t kind = page_layers[i];
        struct lance_layer_out *layer = &layers->layers[i];
        if (!lance_layer_is_list(kind)) {
            status = unravel_item(layer, entries, kind, level, visible, err);
            level += lance_layer_def_levels(kind);
            continue;
        }
        bool nulls = kind == LANCE_NULLABLE_LIST || kind == LANCE_NULL_AND_EMPTY_LIST;
        bool empties = kind == LANCE_EMPTYABLE_LIST || kind == LANCE_NULL_AND_EMPTY_LIST;
        struct list_levels list = {.null = nulls ? level + 1 : NO_LEVEL,
                                   .empty = empties ? level + 1 + nulls : NO_LEVEL,
                                   .highest = level + lance_layer_def_levels(kind),
                                   .child_visible = visible};
        list.here_limit = list.highest + items_above(page_layers, layers->count, i);
        status = unravel_list(layer, entries, &list, err);
        level = list.highest;
        visible = list.here_limit;
    }
    return status;
}

/* The list at the top, when it is the only one: an entry that starts a row starts a list, whatever
 * its definition level. Without a branch an entry. */
static lake_status unravel_top_list(struct lance_layers *layers, const uint8_t *page_layers,
                                    const uint16_t *rep, const uint16_t *def, uint64_t count,
                                    struct lake_error *err)
{
    size_t top = layers->count - 1;
    uint8_t kind = page_layers[top];
    struct lance_layer_out *layer = &layers->layers[top];
    uint32_t visible = lance_visible_level(page_layers, layers->count);
    bool nulls = kind == LANCE_NULLABLE_LIST || kind == LANCE_NULL_AND_EMPTY_LIST;
    lake_status status =
        base_buffer_reserve(&layer->starts, (size_t)count * sizeof(int64_t) + 8, err);
    if (status == LAKE_OK)
        status = base_buffer_reserve(&layers->work, (size_t)count * sizeof(uint16_t) + 2, err);
    if (status != LAKE_OK)
        return status;
    uint8_t *starts = layer->starts.data + layer->starts.size;
    uint16_t *is_null = (uint16_t *)(void *)layers->work.data;
    uint64_t lists = 0, items = layer->item_count, hidden = 0;
    for (uint64_t i = 0; def == NULL && i < count; i++) {
        base_store_u64le(starts + 8 * lists, items + i);
        lists += rep[i];
    }
    for (uint64_t i = 0; def != NULL && i < count; i++) {
        uint64_t has_item = def[i] <= visible;
        base_store_u64le(starts + 8 * lists, items);
        is_null[lists] = def[i] == visible + 1;
        lists += rep[i];
        items += has_item;
        hidden += !has_item & !rep[i]; /* a list without items has one entry */
    }
    if (hidden > 0)
        return impossible(err);
    layer->starts.size += (size_t)lists * sizeof(int64_t);
    layer->item_count = def == NULL ? items + count : items;
    return nulls && def != NULL ? append_validity(layer, is_null, lists, 0, err)
                                : append_valid(layer, lists, err);
}

/* The items below such a list, and then the list. */
static lake_status append_top_list(struct lance_layers *layers, const uint8_t *page_layers,
                                   const uint16_t *rep, const uint16_t *def, uint64_t count,
                                   struct lake_error *err)
{
    struct entries work = {.rep =
                               (uint16_t *)(uintptr_t)rep, /* not written to: no list is closed */
                           .def = (uint16_t *)(uintptr_t)def,
                           .count = count};
    uint32_t level = 0, visible = lance_visible_level(page_layers, layers->count);
    base_buffer_clear(&layers->work);
    lake_status status =
        def == NULL ? LAKE_OK
                    : base_buffer_reserve(&layers->work, (size_t)count * sizeof(uint16_t), err);
    work.visible = (uint16_t *)(void *)layers->work.data;
    for (size_t i = 0; status == LAKE_OK && i + 1 < layers->count; i++) {
        struct lance_layer_out *layer = &layers->layers[i];
        status = def == NULL ? append_valid(layer, count, err)
                             : unravel_item(layer, &work, page_layers[i], level, visible, err);
        level += lance_layer_def_levels(page_layers[i]);
    }
    return status != LAKE_OK ? status : unravel_top_list(layers, page_layers, rep, def, count, err);
}

lake_status lance_layers_append(struct lance_layers *layers, const uint8_t *page_layers,
                                const uint16_t *rep, const uint16_t *def, uint64_t entries,
                                struct lake_error *err)
{
    struct entries work = {0};
    uint32_t max_rep = lance_max_rep_level(page_layers, layers->count);
    lake_status status;
    if (entries == 0)
        return LAKE_OK;
    if ((rep != NULL) != (max_rep > 0))
        return lake_fail(err, LAKE_DATA_LOSS,
                         "the page's repetition levels do not match its lists");
    if (rep == NULL && def == NULL) {
        status = LAKE_OK;
        for (size_t i = 0; status == LAKE_OK && i < layers->count; i++)
            status = append_valid(&layers->layers[i], entries, err);
        return status;
    }
    if (rep != NULL) {
        status = check_levels(rep, entries, max_rep, "repetition", err);
        if (status == LAKE_OK && rep[0] != max_rep)
            status = impossible(err);
        if (status != LAKE_OK)
            return status;
    }
    if (def != NULL) {
        uint32_t max_def = max_def_level(page_layers, layers->count);
        status = check_levels(def, entries, max_def, "definition", err);
        if (status != LAKE_OK)
            return status;
    }
    if (max_rep == 1 && lance_layer_is_list(page_layers[layers->count - 1]))
        return append_top_list(layers, page_layers, rep, def, entries, err);
    status = copy_levels(layers, rep, def, entries, &work, err);
    return status != LAKE_OK ? status : unravel(layers, page_layers, &work, err);
}
