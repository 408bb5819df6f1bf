/* libs: lance */
/* The conflict matrix, cell by cell, with messages made by hand. */
#include "table_fixture.h"

/* A transaction of the operation that touches fragment `id` (where it touches any). */
static LancePb__Transaction *make(struct base_arena *arena, uint32_t operation, uint64_t id)
{
    struct base_buffer bytes;
    LancePb__Transaction *out = NULL;
    base_buffer_init(&bytes, 64);
    assert_int_equal(base_buffer_append_varint(&bytes, operation << 3 | 2, NULL), LAKE_OK);
    assert_int_equal(base_buffer_append_varint(&bytes, 0, NULL), LAKE_OK);
    assert_int_equal(lance_transaction_parse(base_buffer_view(&bytes), arena, &out, NULL), LAKE_OK);
    base_buffer_fini(&bytes);
    assert_int_equal(lance_transaction_operation(out), operation);
    LancePb__DataFragment *fragment = base_arena_alloc(arena, sizeof(*fragment));
    LancePb__DataFragment **list = base_arena_calloc_array(arena, 1, sizeof(void *));
    lance_pb__data_fragment__init(fragment);
    fragment->has_id = true;
    fragment->id = id;
    list[0] = fragment;
    if (out->delete_rows != NULL) {
        out->delete_rows->n_updated_fragments = 1;
        out->delete_rows->updated_fragments = list;
    }
    if (out->update != NULL) {
        out->update->n_removed_fragment_ids = 1;
        out->update->removed_fragment_ids = base_arena_calloc_array(arena, 1, sizeof(uint64_t));
        out->update->removed_fragment_ids[0] = id;
    }
    if (out->rewrite != NULL) {
        LancePb__RewriteGroup *group = base_arena_alloc(arena, sizeof(*group));
        lance_pb__rewrite_group__init(group);
        group->n_old_fragments = 1;
        group->old_fragments = list;
        out->rewrite->n_groups = 1;
        out->rewrite->groups = base_arena_calloc_array(arena, 1, sizeof(void *));
        out->rewrite->groups[0] = group;
    }
    if (out->create_index != NULL) {
        LancePb__IndexMetadata *index = base_arena_alloc(arena, sizeof(*index));
        uint64_t words = UINT64_C(1) << id;
        lance_pb__index_metadata__init(index);
        index->has_name = true;
        index->name = lance_pb_text("by_id");
        base_buffer_init(&bytes, 1000);
        assert_int_equal(lance_roaring_encode(&words, 64, &bytes, NULL), LAKE_OK);
        index->has_fragment_bitmap = true;
        index->fragment_bitmap.len = bytes.size;
        uint8_t *copy = base_arena_alloc(arena, bytes.size);
        memcpy(copy, bytes.data, bytes.size);
        index->fragment_bitmap.data = copy;
        base_buffer_fini(&bytes);
        out->create_index->n_new_indices = 1;
        out->create_index->new_indices = base_arena_calloc_array(arena, 1, sizeof(void *));
        out->create_index->new_indices[0] = index;
    }
    if (out->merge != NULL) {
        out->merge->has_preserves_nullability = out->merge->preserves_nullability = true;
    }
    if (out->project != NULL) {
        out->project->has_preserves_nullability = out->project->preserves_nullability = true;
    }
    return out;
}

static enum lance_verdict verdict_of(const LancePb__Transaction *ours,
                                     const LancePb__Transaction *theirs)
{
    enum lance_verdict verdict = LANCE_INCOMPATIBLE;
    assert_int_equal(lance_transaction_conflict(ours, theirs, 63, &verdict, NULL), LAKE_OK);
    return verdict;
}

static enum lance_verdict expected_of(char cell, bool same_fragment)
{
    switch (cell) {
    case 'o':
        return LANCE_REBASE;
    case 'R':
        return LANCE_RETRY;
    case 'F':
        return same_fragment ? LANCE_RETRY : LANCE_REBASE;
    case 'r':
        return same_fragment ? LANCE_REBASE_ROWS : LANCE_REBASE;
    default:
        return LANCE_INCOMPATIBLE;
    }
}

/* As the format's description has it: o on top, R retry, X incompatible, F retry on the same
 * fragments, r by rows. */
static void every_cell_of_the_matrix_is_as_the_format_says(void **state)
{
    (void)state;
    static const uint32_t columns[] = {100, 101, 108, 102, 103, 104, 105, 109, 106, 110};
    static const struct {
        uint32_t operation;
        const char *cells;
    } rows[] = {
        {100, "oooXooooXo"}, /* Append */
        {101, "orrXoFRoXo"}, /* Delete */
        {108, "orrXoFRoXo"}, /* Update */
        {102, "oooRoooooo"}, /* Overwrite */
        {103, "oooXRFooXo"}, /* CreateIndex, of the same name */
        {104, "oFFXFFRoXo"}, /* Rewrite */
        {105, "RRRXoRRXXo"}, /* Merge */
        {109, "oooXooRRXo"}, /* Project */
        {106, "oooooooooo"}, /* Restore */
        {107, "oooXooooXo"}, /* ReserveFragments */
        {110, "oooooooooo"}, /* UpdateConfig, of other keys */
    };
    struct base_arena *arena;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    for (size_t r = 0; r < BASE_ARRAY_LEN(rows); r++) {
        for (size_t c = 0; c < BASE_ARRAY_LEN(columns); c++) {
            for (uint64_t id = 4; id < 6; id++) {
                LancePb__Transaction *ours = make(arena, rows[r].operation, 4);
                LancePb__Transaction *theirs = make(arena, columns[c], id);
                enum lance_verdict expected = expected_of(rows[r].cells[c], id == 4);
                if (verdict_of(ours, theirs) != expected) {
                    fail_msg("operation %u over %u, fragments 4 and %u: %d, not %d",
                             rows[r].operation, columns[c], (unsigned)id, verdict_of(ours, theirs),
                             expected);
                }
            }
        }
    }
    base_arena_free(arena);
}

static void what_is_not_known_conflicts_with_everything_but_a_replacement(void **state)
{
    (void)state;
    static const uint32_t unknown[] = {115, 116, 150, 199};
    struct base_arena *arena;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    LancePb__Transaction none;
    lance_pb__transaction__init(&none);
    for (uint32_t own = 100; own <= 110; own++) {
        bool replaces = own == LANCE_OP_OVERWRITE || own == LANCE_OP_RESTORE;
        LancePb__Transaction *ours = make(arena, own, 1);
        assert_int_equal(verdict_of(ours, &none), LANCE_INCOMPATIBLE);
        for (size_t i = 0; i < BASE_ARRAY_LEN(unknown); i++) {
            if (unknown[i] != 115 ||
                (!replaces && own != LANCE_OP_RESERVE_FRAGMENTS && own != LANCE_OP_UPDATE_CONFIG)) {
                assert_int_equal(verdict_of(ours, make(arena, unknown[i], 2)), LANCE_INCOMPATIBLE);
            }
        }
    }
    base_arena_free(arena);
}

/* A Merge or Project that does not promise to keep nulls possible meets every writer of values. */
static void a_schema_change_that_may_forbid_nulls_is_retried(void **state)
{
    (void)state;
    static const uint32_t writers[] = {100, 108, 105, 111};
    struct base_arena *arena;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    for (size_t i = 0; i < BASE_ARRAY_LEN(writers); i++) {
        LancePb__Transaction *merge = make(arena, 105, 1);
        LancePb__Transaction *project = make(arena, 109, 1);
        LancePb__Transaction *writer = make(arena, writers[i], 2);
        merge->merge->preserves_nullability = false;
        project->project->preserves_nullability = false;
        if (writers[i] != 111) { /* not an operation of ours */
            assert_int_equal(verdict_of(writer, merge), LANCE_RETRY);
            assert_int_equal(verdict_of(writer, project),
                             writers[i] == 105 ? LANCE_INCOMPATIBLE : LANCE_RETRY);
        }
        assert_int_equal(verdict_of(project, writer), LANCE_RETRY);
    }
    base_arena_free(arena);
}

static LancePb__UpdateMap *map_of(struct base_arena *arena, const char *key)
{
    LancePb__UpdateMap *map = base_arena_alloc(arena, sizeof(*map));
    LancePb__UpdateMapEntry *entry = base_arena_alloc(arena, sizeof(*entry));
    lance_pb__update_map__init(map);
    lance_pb__update_map_entry__init(entry);
    entry->has_key = true;
    entry->key = lance_pb_text(key);
    map->entries = base_arena_calloc_array(arena, 1, sizeof(void *));
    map->entries[0] = entry;
    map->n_entries = 1;
    return map;
}

static void configuration_conflicts_by_key(void **state)
{
    (void)state;
    struct base_arena *arena;
    struct lake_error err;
    const struct lance_key_value pairs[] = {{"a", "1"}, {"b", "2"}};
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    LancePb__Transaction *overwrite = make(arena, 102, 1);
    LancePb__Transaction *a = make(arena, 110, 1);
    LancePb__Transaction *c = make(arena, 110, 1);
    overwrite->overwrite->n_config_upsert_values = 2;
    assert_int_equal(
        lance_entries_of(arena, pairs, 2, &overwrite->overwrite->config_upsert_values, &err),
        LAKE_OK);
    a->update_config->config = map_of(arena, "a");
    c->update_config->config = map_of(arena, "c");
    assert_int_equal(verdict_of(overwrite, a), LANCE_INCOMPATIBLE);
    assert_int_equal(verdict_of(overwrite, c), LANCE_REBASE);
    assert_int_equal(verdict_of(a, overwrite), LANCE_INCOMPATIBLE);
    assert_int_equal(verdict_of(c, overwrite), LANCE_REBASE);
    assert_int_equal(verdict_of(a, c), LANCE_REBASE);
    assert_int_equal(verdict_of(a, a), LANCE_INCOMPATIBLE);
    c->update_config->config->replace = true;
    assert_int_equal(verdict_of(a, c), LANCE_INCOMPATIBLE);
    c->update_config->config->replace = false;
    c->update_config->schema_metadata = map_of(arena, "m");
    assert_int_equal(verdict_of(c, overwrite), LANCE_INCOMPATIBLE);
    base_arena_free(arena);
}

static void an_update_of_columns_meets_their_drop(void **state)
{
    (void)state;
    struct base_arena *arena;
    uint32_t modified[] = {3};
    LancePb__Field field;
    LancePb__Field *schema[] = {&field};
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    LancePb__Transaction *update = make(arena, 108, 1);
    LancePb__Transaction *project = make(arena, 109, 1);
    lance_pb__field__init(&field);
    field.has_id = true;
    field.id = 3;
    update->update->n_fields_modified = 1;
    update->update->fields_modified = modified;
    project->project->n_schema = 1;
    project->project->schema = schema;
    assert_int_equal(verdict_of(update, project), LANCE_REBASE);
    field.id = 4;
    assert_int_equal(verdict_of(update, project), LANCE_RETRY);
    base_arena_free(arena);
}

/* An index without a bitmap may cover any fragment. */
static void an_index_of_unknown_coverage_meets_a_rewrite(void **state)
{
    (void)state;
    struct base_arena *arena;
    assert_int_equal(base_arena_new(1 << 20, &arena, NULL), LAKE_OK);
    LancePb__Transaction *rewrite = make(arena, 104, 1);
    LancePb__Transaction *index = make(arena, 103, 2);
    assert_int_equal(verdict_of(rewrite, index), LANCE_REBASE);
    index->create_index->new_indices[0]->has_fragment_bitmap = false;
    assert_int_equal(verdict_of(rewrite, index), LANCE_RETRY);
    base_arena_free(arena);
}

static void bitmaps_are_written_as_they_are_read(void **state)
{
    struct fixture *f = *state;
    enum {
        BITS = 200000
    };
    static const struct {
        uint32_t every;
        uint32_t from;
        uint32_t to;
    } shapes[] = {{1, 0, 0},          {1, 0, 1},       {1, 199999, 200000}, {1, 0, 200000},
                  {7, 65536, 140000}, {16, 0, 200000}, {15, 0, 65536},      {1, 60000, 70000}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(shapes); i++) {
        uint64_t in[BITS / 64 + 1] = {0};
        uint64_t out[BITS / 64 + 1] = {0};
        struct base_buffer bytes;
        for (uint32_t bit = shapes[i].from; bit < shapes[i].to; bit += shapes[i].every) {
            in[bit / 64] |= UINT64_C(1) << (bit % 64);
        }
        base_buffer_init(&bytes, 1 << 20);
        OK(lance_roaring_encode(in, BITS, &bytes, &f->err));
        OK(lance_roaring_decode(base_buffer_view(&bytes), BITS, out, &f->err));
        assert_memory_equal(in, out, sizeof(in));
        base_buffer_fini(&bytes);
    }
}

static void row_ids_are_written_as_they_are_read(void **state)
{
    struct fixture *f = *state;
    static const uint64_t ids[][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                      {10, 11, 12, 13, 5, 6, 7, 8},
                                      {9, 3, UINT64_C(1) << 40, 0, 8, 100, 7, 6},
                                      {5, 5, 5, 6, 7, 1, 1, 2}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(ids); i++) {
        for (size_t count = 1; count <= 8; count++) {
            uint64_t out[8];
            struct base_buffer bytes;
            base_buffer_init(&bytes, 1 << 16);
            OK(lance_row_ids_encode(ids[i], count, &bytes, &f->err));
            OK(lance_row_ids_decode(base_buffer_view(&bytes), count, out, &f->err));
            assert_memory_equal(out, ids[i], count * sizeof(uint64_t));
            assert_int_equal(
                lance_row_ids_decode(base_buffer_view(&bytes), count + 1, out, &f->err),
                LAKE_DATA_LOSS);
            base_buffer_clear(&bytes);
            OK(lance_row_versions_encode(ids[i], count, &bytes, &f->err));
            OK(lance_row_versions_decode(base_buffer_view(&bytes), count, out, &f->err));
            assert_memory_equal(out, ids[i], count * sizeof(uint64_t));
            base_buffer_fini(&bytes);
        }
    }
}

/* Forms that the reference writes and we do not: holes, bitmaps, arrays with a base. */
static void foreign_forms_of_row_ids_are_read(void **state)
{
    struct fixture *f = *state;
    static const uint8_t holes[] = {0x0a, 16,   0x12, 14,   0x08, 10,   0x10, 15, 0x1a,
                                    8,    0x0a, 6,    0x08, 11,   0x12, 2,    0,  0};
    static const uint8_t bitmap[] = {0x0a, 9, 0x1a, 7, 0x08, 10, 0x10, 15, 0x1a, 1, 0x15};
    static const uint8_t sorted[] = {0x0a, 12,   0x22, 10, 0x0a, 8,    0x08,
                                     100,  0x12, 4,    1,  0,    0x2c, 1};
    uint64_t out[4];
    OK(lance_row_ids_decode((struct lake_bytes){holes, sizeof(holes)}, 4, out, &f->err));
    assert_int_equal(out[0], 10);
    assert_int_equal(out[1], 12);
    assert_int_equal(out[3], 14);
    OK(lance_row_ids_decode((struct lake_bytes){bitmap, sizeof(bitmap)}, 3, out, &f->err));
    assert_int_equal(out[0], 10);
    assert_int_equal(out[1], 12);
    assert_int_equal(out[2], 14);
    OK(lance_row_ids_decode((struct lake_bytes){sorted, sizeof(sorted)}, 2, out, &f->err));
    assert_int_equal(out[0], 101);
    assert_int_equal(out[1], 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_of_the_matrix_is_as_the_format_says),
        cmocka_unit_test(what_is_not_known_conflicts_with_everything_but_a_replacement),
        cmocka_unit_test(a_schema_change_that_may_forbid_nulls_is_retried),
        cmocka_unit_test(configuration_conflicts_by_key),
        cmocka_unit_test(an_update_of_columns_meets_their_drop),
        cmocka_unit_test(an_index_of_unknown_coverage_meets_a_rewrite),
        cmocka_unit_test_setup_teardown(bitmaps_are_written_as_they_are_read, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(row_ids_are_written_as_they_are_read, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(foreign_forms_of_row_ids_are_read, fixture_set_up,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
