/* Levels to layers, on examples worked out by hand from the format's rules. */
#include "levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t start_of(const struct lance_layer_out *layer, size_t i)
{
    return (int64_t)base_load_u64le(layer->starts.data + 8 * i);
}

static bool valid_at(const struct lance_layer_out *layer, size_t i)
{
    return layer->null_count == 0 || (layer->valid.bytes.data[i / 8] >> (i % 8) & 1) != 0;
}

static void nulls_of_an_outer_struct_are_nulls_of_its_child(void **state)
{
    /* struct?<int?>: {1}, null, {null} */
    const uint8_t page[2] = {LANCE_NULLABLE_ITEM, LANCE_NULLABLE_ITEM};
    const uint16_t def[3] = {0, 2, 1};
    const bool lists[2] = {false, false};
    struct lance_layers layers;
    (void)state;
    lance_layers_init(&layers, lists, 2);
    assert_int_equal(lance_layers_append(&layers, page, NULL, def, 3, NULL), LAKE_OK);
    assert_int_equal(layers.layers[0].length, 3);
    assert_int_equal(layers.layers[0].null_count, 2);
    assert_int_equal(layers.layers[1].null_count, 1);
    assert_true(valid_at(&layers.layers[1], 0));
    assert_false(valid_at(&layers.layers[1], 1));
    assert_true(valid_at(&layers.layers[1], 2));
    lance_layers_fini(&layers);
}

static void lists_may_be_null_empty_or_hold_nulls(void **state)
{
    /* list?<int?>: [1, null], null, [], [2] with layers [3, 6]: item null 1, list null 2, empty 3
     */
    const uint8_t page[2] = {LANCE_NULLABLE_ITEM, LANCE_NULL_AND_EMPTY_LIST};
    const uint16_t rep[5] = {1, 0, 1, 1, 1}, def[5] = {0, 1, 2, 3, 0};
    const bool lists[2] = {false, true};
    struct lance_layers layers;
    (void)state;
    assert_int_equal(lance_visible_level(page, 2), 1);
    lance_layers_init(&layers, lists, 2);
    assert_int_equal(lance_layers_append(&layers, page, rep, def, 5, NULL), LAKE_OK);
    const struct lance_layer_out *items = &layers.layers[0], *list = &layers.layers[1];
    assert_int_equal(items->length, 3);
    assert_int_equal(items->null_count, 1);
    assert_false(valid_at(items, 1));
    assert_int_equal(list->length, 4);
    assert_int_equal(list->null_count, 1);
    assert_false(valid_at(list, 1));
    const int64_t starts[4] = {0, 2, 2, 2};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(start_of(list, i), starts[i]);
    assert_int_equal(list->item_count, 3);
    lance_layers_fini(&layers);
}

static void inner_lists_below_outer_lists_are_counted_once(void **state)
{
    /* list<list?<int>>: [[1, 2], null], [], [[3]]; layers [1, 4, 5]: inner null 1, outer empty 2 */
    const uint8_t page[3] = {LANCE_ALL_VALID_ITEM, LANCE_NULLABLE_LIST, LANCE_EMPTYABLE_LIST};
    const uint16_t rep[5] = {2, 0, 1, 2, 2}, def[5] = {0, 0, 1, 2, 0};
    const bool lists[3] = {false, true, true};
    struct lance_layers layers;
    (void)state;
    lance_layers_init(&layers, lists, 3);
    assert_int_equal(lance_layers_append(&layers, page, rep, def, 5, NULL), LAKE_OK);
    assert_int_equal(layers.layers[0].length, 3);
    assert_int_equal(layers.layers[1].length, 3);
    assert_int_equal(layers.layers[1].null_count, 1);
    assert_int_equal(start_of(&layers.layers[1], 2), 2);
    assert_int_equal(layers.layers[2].length, 3);
    assert_int_equal(start_of(&layers.layers[2], 1), 2);
    assert_int_equal(start_of(&layers.layers[2], 2), 2);
    assert_int_equal(layers.layers[2].item_count, 3);
    lance_layers_fini(&layers);
}

static void a_page_without_nulls_joins_one_with_them(void **state)
{
    const uint8_t plain[1] = {LANCE_ALL_VALID_ITEM}, nullable[1] = {LANCE_NULLABLE_ITEM};
    const uint16_t def[2] = {1, 0};
    const bool lists[1] = {false};
    struct lance_layers layers;
    (void)state;
    lance_layers_init(&layers, lists, 1);
    assert_int_equal(lance_layers_append(&layers, plain, NULL, NULL, 10, NULL), LAKE_OK);
    assert_int_equal(lance_layers_append(&layers, nullable, NULL, def, 2, NULL), LAKE_OK);
    assert_int_equal(lance_layers_append(&layers, plain, NULL, NULL, 3, NULL), LAKE_OK);
    assert_int_equal(layers.layers[0].length, 15);
    assert_int_equal(layers.layers[0].null_count, 1);
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(valid_at(&layers.layers[0], i), i != 10);
    lance_layers_fini(&layers);
}

static void impossible_levels_are_refused(void **state)
{
    const uint8_t page[2] = {LANCE_NULLABLE_ITEM, LANCE_NULLABLE_LIST};
    const bool lists[2] = {false, true};
    const uint16_t zeros[2] = {0, 0}, first[2] = {1, 0}, high[2] = {2, 0}, deep[2] = {0, 3};
    const uint16_t hidden[2] = {0, 2};
    struct lance_layers layers;
    (void)state;
    lance_layers_init(&layers, lists, 2);
    /* an item before any list; repetition and definition above the maximum; no repetition at all;
     * an item that continues a list but says there is none */
    assert_int_equal(lance_layers_append(&layers, page, zeros, zeros, 2, NULL), LAKE_DATA_LOSS);
    assert_int_equal(lance_layers_append(&layers, page, high, zeros, 2, NULL), LAKE_DATA_LOSS);
    assert_int_equal(lance_layers_append(&layers, page, first, deep, 2, NULL), LAKE_DATA_LOSS);
    assert_int_equal(lance_layers_append(&layers, page, NULL, zeros, 2, NULL), LAKE_DATA_LOSS);
    assert_int_equal(lance_layers_append(&layers, page, first, hidden, 2, NULL), LAKE_DATA_LOSS);
    lance_layers_fini(&layers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nulls_of_an_outer_struct_are_nulls_of_its_child),
        cmocka_unit_test(lists_may_be_null_empty_or_hold_nulls),
        cmocka_unit_test(inner_lists_below_outer_lists_are_counted_once),
        cmocka_unit_test(a_page_without_nulls_joins_one_with_them),
        cmocka_unit_test(impossible_levels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
