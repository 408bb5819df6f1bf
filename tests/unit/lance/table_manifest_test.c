/* The manifest file: framing, flags, what is carried over, and hostile bytes. */
#include "table_data.h"

#include <stdlib.h>

/* A manifest with one column, as another writer may have made it. */
struct draft {
    LancePb__Manifest pb;
    LancePb__Field field;
    LancePb__Field *fields[1];
    LancePb__DataStorageFormat format;
    LancePb__DataFragment fragments[2];
    LancePb__DataFragment *fragment_list[2];
    LancePb__DataFile file;
    LancePb__DataFile *files[1];
    int32_t field_ids[1];
    int32_t columns[1];
};

static void draft_init(struct draft *draft)
{
    memset(draft, 0, sizeof(*draft));
    lance_pb__manifest__init(&draft->pb);
    lance_pb__field__init(&draft->field);
    lance_pb__data_storage_format__init(&draft->format);
    lance_pb__data_file__init(&draft->file);
    draft->field.has_name = draft->field.has_logical_type = draft->field.has_parent_id = true;
    draft->field.name = lance_pb_text("x");
    draft->field.logical_type = lance_pb_text("int64");
    draft->field.parent_id = -1;
    draft->fields[0] = &draft->field;
    draft->pb.n_fields = 1;
    draft->pb.fields = draft->fields;
    draft->pb.has_version = true;
    draft->pb.version = 3;
    draft->format.has_version = true;
    draft->format.version = lance_pb_text("2.2");
    draft->pb.data_format = &draft->format;
    draft->file.has_path = true;
    draft->file.path = lance_pb_text("a.lance");
    draft->file.n_fields = draft->file.n_column_indices = 1;
    draft->file.fields = draft->field_ids;
    draft->file.column_indices = draft->columns;
    draft->files[0] = &draft->file;
    for (size_t i = 0; i < 2; i++) {
        LancePb__DataFragment *fragment = &draft->fragments[i];
        lance_pb__data_fragment__init(fragment);
        fragment->has_id = true;
        fragment->id = i;
        fragment->has_physical_rows = true;
        fragment->physical_rows = 10;
        fragment->n_files = 1;
        fragment->files = draft->files;
        draft->fragment_list[i] = fragment;
    }
    draft->pb.n_fragments = 2;
    draft->pb.fragments = draft->fragment_list;
}

static lake_status parse_draft(struct draft *draft, struct lance_manifest **out,
                               struct lake_error *err)
{
    struct base_buffer bytes;
    base_buffer_init(&bytes, 1 << 20);
    struct lake_bytes none = {NULL, 0};
    assert_int_equal(lance_manifest_encode(&draft->pb, none, none, &bytes, NULL), LAKE_OK);
    lake_status status = lance_manifest_parse(base_buffer_view(&bytes), 3, out, err);
    base_buffer_fini(&bytes);
    return status;
}

static void assert_draft(struct draft *draft, lake_status expected)
{
    struct lance_manifest *manifest = NULL;
    struct lake_error err = {0};
    lake_status status = parse_draft(draft, &manifest, &err);
    if (status != expected) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, expected);
    lance_manifest_unref(manifest);
}

static void a_manifest_comes_back_as_it_was_written(void **state)
{
    (void)state;
    struct draft draft;
    struct lance_manifest *manifest = NULL;
    struct base_buffer bytes;
    draft_init(&draft);
    base_buffer_init(&bytes, 1 << 20);
    struct lake_bytes index = base_bytes_of_str(LAKE_STR("index section"));
    struct lake_bytes transaction = base_bytes_of_str(LAKE_STR("transaction"));
    assert_int_equal(lance_manifest_encode(&draft.pb, index, transaction, &bytes, NULL), LAKE_OK);
    /* the layout that the specification gives, read by hand */
    assert_int_equal(base_load_u32le(bytes.data), index.size);
    assert_memory_equal(bytes.data + 4, index.data, index.size);
    const uint8_t *footer = bytes.data + bytes.size - 16;
    assert_memory_equal(footer + 8, "\0\0\2\0LANC", 8);
    uint64_t position = base_load_u64le(footer);
    assert_int_equal(position + 4 + base_load_u32le(bytes.data + position), bytes.size - 16);
    assert_int_equal(lance_manifest_parse(base_buffer_view(&bytes), 3, &manifest, NULL), LAKE_OK);
    assert_int_equal(manifest->pb->version, 3);
    assert_int_equal(manifest->pb->n_fragments, 2);
    assert_true(base_bytes_equal(manifest->index_section, index));
    assert_true(base_bytes_equal(manifest->transaction, transaction));
    assert_string_equal(manifest->storage_version, "2.2");
    assert_string_equal(manifest->schema.arrow.children[0]->format, "l");
    lance_manifest_unref(manifest);
    base_buffer_fini(&bytes);
}

/* Offset 0 is an offset: a section that comes first must not be lost. */
static void sections_at_offset_zero_are_kept(void **state)
{
    (void)state;
    struct draft draft;
    struct lance_manifest *manifest = NULL;
    struct base_buffer bytes;
    struct lake_bytes none = {NULL, 0};
    for (int which = 0; which < 2; which++) {
        struct lake_bytes first = base_bytes_of_str(LAKE_STR("first"));
        draft_init(&draft);
        base_buffer_init(&bytes, 1 << 20);
        assert_int_equal(lance_manifest_encode(&draft.pb, which == 0 ? first : none,
                                               which == 1 ? first : none, &bytes, NULL),
                         LAKE_OK);
        assert_int_equal(lance_manifest_parse(base_buffer_view(&bytes), 3, &manifest, NULL),
                         LAKE_OK);
        assert_int_equal(manifest->index_section.data != NULL, which == 0);
        assert_int_equal(manifest->transaction.data != NULL, which == 1);
        lance_manifest_unref(manifest);
        base_buffer_fini(&bytes);
    }
}

static void unknown_reader_flags_are_refused_by_number(void **state)
{
    (void)state;
    static const int refused[] = {3, 5, 6, 12, 13, 15, 16, 17, 18, 40, 63};
    struct draft draft;
    for (int bit = 0; bit < 64; bit++) {
        bool expected = true;
        for (size_t i = 0; i < BASE_ARRAY_LEN(refused); i++) {
            expected = expected && refused[i] != bit;
        }
        if (bit > 18) {
            expected = false;
        }
        struct lance_manifest *manifest = NULL;
        struct lake_error err = {0};
        char number[8];
        draft_init(&draft);
        draft.pb.has_reader_feature_flags = true;
        draft.pb.reader_feature_flags = UINT64_C(1) << bit;
        lake_status status = parse_draft(&draft, &manifest, &err);
        assert_int_equal(status, expected ? LAKE_OK : LAKE_UNIMPLEMENTED);
        if (!expected) {
            (void)snprintf(number, sizeof(number), "bit %d", bit);
            assert_non_null(strstr(err.message, number));
        }
        lance_manifest_unref(manifest);
    }
}

static void a_writer_refuses_what_it_does_not_keep_up(void **state)
{
    (void)state;
    static const int refused[] = {6, 11, 12, 13, 14, 16, 17, 18, 63};
    static const int accepted[] = {0, 1, 3, 4, 5, 7, 8, 9, 10, 15};
    struct draft draft;
    struct lance_manifest *manifest = NULL;
    for (size_t i = 0; i < BASE_ARRAY_LEN(refused) + BASE_ARRAY_LEN(accepted); i++) {
        bool ok = i >= BASE_ARRAY_LEN(refused);
        int bit = ok ? accepted[i - BASE_ARRAY_LEN(refused)] : refused[i];
        draft_init(&draft);
        draft.pb.has_writer_feature_flags = true;
        draft.pb.writer_feature_flags = UINT64_C(1) << bit;
        assert_int_equal(parse_draft(&draft, &manifest, NULL), LAKE_OK);
        assert_int_equal(lance_manifest_check_writable(manifest, NULL),
                         ok ? LAKE_OK : LAKE_UNIMPLEMENTED);
        lance_manifest_unref(manifest);
    }
}

static void storage_versions_other_than_2_0_to_2_2_are_refused(void **state)
{
    (void)state;
    static const char *const versions[] = {"2.3", "0.1", "stable", "3.0", "2.10"};
    struct draft draft;
    for (size_t i = 0; i < BASE_ARRAY_LEN(versions); i++) {
        draft_init(&draft);
        draft.format.version = lance_pb_text(versions[i]);
        assert_draft(&draft, LAKE_UNIMPLEMENTED);
    }
    draft_init(&draft);
    draft.format.version = lance_pb_text("2.1");
    assert_draft(&draft, LAKE_OK);
    draft_init(&draft); /* without data_format the files say it */
    draft.pb.data_format = NULL;
    draft.file.has_file_major_version = draft.file.has_file_minor_version = true;
    draft.file.file_major_version = 2;
    draft.file.file_minor_version = 3;
    assert_draft(&draft, LAKE_UNIMPLEMENTED);
    draft.file.file_minor_version = 1;
    assert_draft(&draft, LAKE_OK);
}

/* Release 0.16 could append files of 0.1 to a table of 2.0. Those list no columns. */
static void a_file_of_storage_version_0_1_is_refused_by_name(void **state)
{
    struct draft draft;
    struct lance_manifest *manifest = NULL;
    struct lake_error err = {0};
    (void)state;
    draft_init(&draft);
    draft.file.n_column_indices = 0;
    draft.file.has_file_minor_version = true;
    draft.file.file_minor_version = 2;
    assert_int_equal(parse_draft(&draft, &manifest, &err), LAKE_UNIMPLEMENTED);
    assert_non_null(strstr(err.message, "storage version 0.1"));
    draft.file.file_minor_version = 3;
    assert_draft(&draft, LAKE_DATA_LOSS);
}

static void contents_that_contradict_the_format_are_refused(void **state)
{
    (void)state;
    struct draft draft;
    draft_init(&draft);
    draft.pb.version = 4; /* under the name of version 3 */
    assert_draft(&draft, LAKE_DATA_LOSS);
    draft_init(&draft);
    draft.fragments[1].id = 0;
    assert_draft(&draft, LAKE_DATA_LOSS);
    draft_init(&draft); /* compaction leaves ids out of order */
    draft.fragments[0].id = 7;
    assert_draft(&draft, LAKE_OK);
    draft.fragments[0].id = UINT32_MAX;
    assert_draft(&draft, LAKE_OK);
    draft.fragments[0].id++; /* above what an address can name */
    assert_draft(&draft, LAKE_DATA_LOSS);
    draft.fragments[0].id = UINT64_MAX;
    assert_draft(&draft, LAKE_DATA_LOSS);
    draft_init(&draft);
    draft.file.n_column_indices = 0;
    assert_draft(&draft, LAKE_DATA_LOSS);
    draft_init(&draft);
    draft.fragments[0].physical_rows = UINT64_C(1) << 33;
    assert_draft(&draft, LAKE_DATA_LOSS);
}

/* Every shortened or changed file is an error or a manifest, never a crash (seen by sanitizers). */
static void damaged_files_are_errors(void **state)
{
    (void)state;
    struct draft draft;
    struct base_buffer bytes;
    struct lance_manifest *manifest = NULL;
    uint64_t seed = 11;
    draft_init(&draft);
    base_buffer_init(&bytes, 1 << 20);
    assert_int_equal(lance_manifest_encode(&draft.pb, base_bytes_of_str(LAKE_STR("i")),
                                           base_bytes_of_str(LAKE_STR("t")), &bytes, NULL),
                     LAKE_OK);
    for (size_t cut = 0; cut < bytes.size; cut++) {
        uint8_t *exact = malloc(cut + 1); /* so that a read past the end is seen */
        memcpy(exact, bytes.data, cut);
        assert_int_equal(lance_manifest_parse((struct lake_bytes){exact, cut}, 3, &manifest, NULL),
                         LAKE_DATA_LOSS);
        free(exact);
    }
    size_t refused = 0;
    for (size_t round = 0; round < 20000; round++) {
        uint8_t *copy = malloc(bytes.size);
        memcpy(copy, bytes.data, bytes.size);
        for (int i = 0; i < 3; i++) {
            copy[random_next(&seed) % bytes.size] = (uint8_t)random_next(&seed);
        }
        if (lance_manifest_parse((struct lake_bytes){copy, bytes.size}, 3, &manifest, NULL) ==
            LAKE_OK) {
            lance_manifest_unref(manifest);
        } else {
            refused++;
        }
        free(copy);
    }
    assert_true(refused > 10000);
    base_buffer_fini(&bytes);
}

/* Field 24 (not declared here) goes with writer flag bit 15: dropping it would free field ids. */
static void fields_that_are_not_known_are_carried_over(void **state)
{
    (void)state;
    struct draft draft;
    struct lance_manifest *manifest = NULL;
    struct base_buffer bytes;
    struct base_buffer again;
    uint8_t value[] = {42};
    ProtobufCMessageUnknownField unknown = {
        .tag = 24, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = value};
    draft_init(&draft);
    draft.pb.base.n_unknown_fields = 1;
    draft.pb.base.unknown_fields = &unknown;
    base_buffer_init(&bytes, 1 << 20);
    base_buffer_init(&again, 1 << 20);
    struct lake_bytes none = {NULL, 0};
    assert_int_equal(lance_manifest_encode(&draft.pb, none, none, &bytes, NULL), LAKE_OK);
    assert_int_equal(lance_manifest_parse(base_buffer_view(&bytes), 3, &manifest, NULL), LAKE_OK);
    LancePb__Manifest next = *manifest->pb;
    assert_int_equal(lance_manifest_encode(&next, none, none, &again, NULL), LAKE_OK);
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.data, bytes.data, bytes.size);
    lance_manifest_unref(manifest);
    base_buffer_fini(&again);
    base_buffer_fini(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_comes_back_as_it_was_written),
        cmocka_unit_test(sections_at_offset_zero_are_kept),
        cmocka_unit_test(unknown_reader_flags_are_refused_by_number),
        cmocka_unit_test(a_writer_refuses_what_it_does_not_keep_up),
        cmocka_unit_test(storage_versions_other_than_2_0_to_2_2_are_refused),
        cmocka_unit_test(a_file_of_storage_version_0_1_is_refused_by_name),
        cmocka_unit_test(contents_that_contradict_the_format_are_refused),
        cmocka_unit_test(damaged_files_are_errors),
        cmocka_unit_test(fields_that_are_not_known_are_carried_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
