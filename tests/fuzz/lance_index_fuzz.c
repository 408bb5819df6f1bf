/* libs: lance */
/*
 * Indices: any bytes as an index's files are refused, or answer every question with rows that are
 * in order and no more than asked for. The first byte says the kind of index, or 3: one bitmap of a
 * Bitmap, 4: the index section of a manifest. Of an index u32 bytes of its table follow, the table,
 * and the pages.
 */
#include "index.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROWS 5000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct lake_bytes table_bytes;
static struct lake_bytes page_bytes;

static struct lake_bytes bytes_of(struct lake_str key)
{
    return base_str_has_suffix(key, "page_data.lance") ? page_bytes : table_bytes;
}

static lake_status memory_stat(void *context, struct lake_str key, struct storage_object_info *out,
                               struct lake_error *err)
{
    (void)context;
    (void)err;
    *out = (struct storage_object_info){.size_bytes = bytes_of(key).size};
    return LAKE_OK;
}

static lake_status memory_read_range(void *context, struct lake_str key, uint64_t offset,
                                     size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    struct lake_bytes bytes = bytes_of(key);
    (void)context;
    if (offset > bytes.size || size_bytes > bytes.size - offset)
        return lake_fail(err, LAKE_OUT_OF_RANGE, "beyond the end");
    memcpy(out, bytes.data + offset, size_bytes);
    return LAKE_OK;
}

static void memory_free(void *context)
{
    (void)context;
}

static struct storage_store *memory_store(void)
{
    static const struct storage_methods methods = {
        .stat = memory_stat, .read_range = memory_read_range, .free = memory_free};
    static struct storage_store *store;
    if (store == NULL && storage_store_new(&methods, NULL, "memory:", &store, NULL) != LAKE_OK)
        abort();
    return store;
}

static void check_rows(struct lance_row_set *rows)
{
    uint64_t end = 0, count = 0;
    lance_row_set_sort(rows);
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->runs[i].count == 0 || (i > 0 && rows->runs[i].start <= end))
            abort();
        end = rows->runs[i].start + rows->runs[i].count;
        count += rows->runs[i].count;
    }
    if (count != rows->row_count || count > rows->max_rows)
        abort();
}

static void ask(const struct lance_index *index, enum lance_filter_op op, struct lance_value value)
{
    const struct lance_filter filter = {.op = op, .values = &value, .value_count = 1};
    struct lance_predicate *predicate = NULL;
    if (lance_predicate_new(&filter, index->values, &predicate, NULL) != LAKE_OK ||
        predicate == NULL)
        return;
    struct lance_row_set rows;
    const struct lance_index_question question = {
        .predicates = &predicate, .predicate_count = 1, .max_read_rows = MAX_ROWS};
    lance_row_set_init(&rows, index->kind == LANCE_INDEX_ZONE_MAP ? UINT64_MAX : MAX_ROWS);
    if (lance_index_ask(index, &question, &rows, NULL) == LAKE_OK)
        check_rows(&rows);
    lance_row_set_fini(&rows);
    lance_predicate_free(predicate);
}

static void fuzz_index(enum lance_index_kind kind)
{
    static char *const types[] = {[LANCE_INDEX_BTREE] = "/lance.table.BTreeIndexDetails",
                                  [LANCE_INDEX_BITMAP] = "/lance.table.BitmapIndexDetails",
                                  [LANCE_INDEX_ZONE_MAP] = "/lance.table.ZoneMapIndexDetails"};
    static const enum lance_filter_op ops[] = {LANCE_EQ, LANCE_LE, LANCE_GT,     LANCE_NE,
                                               LANCE_IN, LANCE_LT, LANCE_IS_NULL};
    static const struct lance_value values[] = {
        {.kind = LANCE_VALUE_INT64, .i64 = 7},
        {.kind = LANCE_VALUE_DOUBLE, .f64 = 7},
        {.kind = LANCE_VALUE_BYTES, .bytes = {(const uint8_t *)"k7", 2}}};
    struct lance_index *index = NULL;
    LancePb__IndexMetadata entry;
    LancePb__Any details;
    lance_pb__index_metadata__init(&entry);
    lance_pb__any__init(&details);
    details.type_url =
        (ProtobufCBinaryData){.len = strlen(types[kind]), .data = (uint8_t *)types[kind]};
    entry.index_details = &details;
    if (lance_index_open(memory_store(), "_indices/x", &entry, NULL, &index, NULL) != LAKE_OK)
        return;
    for (size_t i = 0; i < BASE_ARRAY_LEN(ops); i++)
        for (size_t j = 0; j < BASE_ARRAY_LEN(values); j++)
            ask(index, ops[i], values[j]);
    lance_index_unref(index);
}

static void fuzz_bitmap(struct lake_bytes bytes)
{
    struct lance_row_set rows;
    lance_row_set_init(&rows, MAX_ROWS);
    if (lance_index_bitmap_parse(bytes, &rows, NULL) == LAKE_OK)
        check_rows(&rows);
    lance_row_set_fini(&rows);
}

static void fuzz_section(struct lake_bytes bytes)
{
    struct base_arena *arena = NULL;
    LancePb__IndexSection *section = NULL;
    if (base_arena_new((size_t)16 << 20, &arena, NULL) != LAKE_OK)
        abort();
    if (lance_index_section_parse(bytes, arena, &section, NULL) == LAKE_OK && section != NULL) {
        for (size_t i = 0; i < section->n_indices; i++) {
            char key[LANCE_INDEX_KEY_BYTES];
            uint64_t *words = NULL;
            if (lance_index_key(section->indices[i], key, NULL) == LAKE_OK &&
                !storage_key_valid(base_str_of(key)))
                abort();
            if (lance_index_kind_of(section->indices[i]) != LANCE_INDEX_OTHER &&
                lance_index_kind_name(section->indices[i]).size == 0)
                abort();
            if (lance_fragment_bitmap_decode(section->indices[i], 100, &words, NULL) == LAKE_OK)
                base_free(words);
        }
    }
    base_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_cursor cursor = base_cursor_of((struct lake_bytes){data, size});
    uint8_t kind;
    uint32_t bytes;
    if (!base_cursor_u8(&cursor, &kind))
        return 0;
    struct lake_bytes rest = {data + 1, size - 1};
    if (kind % 5 == 3) {
        fuzz_bitmap(rest);
    } else if (kind % 5 == 4) {
        fuzz_section(rest);
    } else if (base_cursor_u32le(&cursor, &bytes) &&
               base_cursor_take(&cursor, bytes, &table_bytes) &&
               base_cursor_take(&cursor, base_cursor_left(&cursor), &page_bytes)) {
        fuzz_index((enum lance_index_kind)(kind % 5 + 1));
    }
    return 0;
}
