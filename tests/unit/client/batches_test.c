/* libs: meta query */
/* append_batches against real servers (SDK-4, NAT-6). */
#include "client_fixture.h"

#define MIB            ((size_t)1024 * 1024)
#define OPERATION_ID_1 "01890a5d-ac96-774b-bcce-b302099a8057" /* of 2023: only its shape counts */

static lake_status append_ids(struct fixture *fixture, const char *table, int64_t from,
                              int64_t count, const char *operation_id,
                              struct lake_insert_result *result)
{
    struct ArrowSchema schema;
    struct ArrowArray batch;
    id_batch(&schema, &batch, from, count);
    const struct ArrowArray *batches[] = {&batch};
    lake_status status = lake_append_batches(fixture->client, table, &schema, batches, 1,
                                             operation_id, result, &fixture->err);
    assert_non_null(batch.release); /* still the caller's */
    batch.release(&batch);
    schema.release(&schema);
    return status;
}

static void several_batches_are_one_version(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema[3];
    struct ArrowArray batches[3];
    const struct ArrowArray *pointers[3];
    struct lake_insert_result result = LAKE_INSERT_RESULT_INIT;
    CREATE(fixture, "batches.several", "id:int64");
    for (int i = 0; i < 3; i++) {
        id_batch(&schema[i], &batches[i], i * 1000, 1000 >> i);
        pointers[i] = &batches[i];
    }
    OK(fixture, lake_append_batches(fixture->client, "batches.several", &schema[0], pointers, 3,
                                    NULL, &result, &fixture->err));
    assert_int_equal(result.version, 2);
    assert_int_equal(result.row_count, 1750);
    assert_int_equal(result.operation_id[14], '7');
    lake_insert_result_fini(&result);
    for (int i = 0; i < 3; i++) {
        batches[i].release(&batches[i]);
        schema[i].release(&schema[i]);
    }
    assert_int_equal(count_rows(fixture, "batches.several"), 1750);
    assert_int_equal(query_number(fixture, "SELECT sum(id)::BIGINT FROM batches.several"),
                     999 * 500 + 1000 * 500 + 499 * 250 + 2000 * 250 + 249 * 125);
}

static void rows_and_batches_have_their_limits(void **state)
{
    struct fixture *fixture = *state;
    CREATE(fixture, "batches.limits", "id:int64");
    OK(fixture, append_ids(fixture, "batches.limits", 0, 10000, NULL, NULL));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "10000",
          append_ids(fixture, "batches.limits", 0, 10001, NULL, NULL));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "batch 1 is empty",
          append_ids(fixture, "batches.limits", 0, 0, NULL, NULL));
    struct ArrowSchema schema;
    struct ArrowArray batch;
    id_batch(&schema, &batch, 0, 5001);
    const struct ArrowArray *two[] = {&batch, &batch};
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "10000",
          lake_append_batches(fixture->client, "batches.limits", &schema, two, 2, NULL, NULL,
                              &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not 0",
          lake_append_batches(fixture->client, "batches.limits", &schema, two, 0, NULL, NULL,
                              &fixture->err));
    const struct ArrowArray *second_missing[] = {&batch, NULL};
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "batch 2",
          lake_append_batches(fixture->client, "batches.limits", &schema, second_missing, 2, NULL,
                              NULL, &fixture->err));
    batch.release(&batch);
    schema.release(&schema);
    assert_int_equal(count_rows(fixture, "batches.limits"), 10000);
}

static void a_schema_that_differs_is_named_by_its_path(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *columns[2];
        const char *path;
    } wrong[] = {
        {{"id:int32", "s:struct<a: int32, b: utf8>"}, "id"},
        {{"id:int64!", "s:struct<a: int32, b: utf8>"}, "id"},
        {{"id:int64", "s:struct<a: int64, b: utf8>"}, "s.a"},
        {{"id:int64", "t:struct<a: int32, b: utf8>"}, "s"},
        {{"s:struct<a: int32, b: utf8>", "id:int64"}, "id"},
    };
    CREATE(fixture, "batches.schema", "id:int64", "s:struct<a: int32, b: utf8>");
    for (size_t i = 0; i < BASE_ARRAY_LEN(wrong); i++) {
        struct ArrowSchema schema;
        struct ArrowArray batch;
        OK(fixture, lake_schema_parse(wrong[i].columns, 2, &schema, &fixture->err));
        assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
        const struct ArrowArray *batches[] = {&batch};
        FAILS(fixture, LAKE_INVALID_ARGUMENT, wrong[i].path,
              lake_append_batches(fixture->client, "batches.schema", &schema, batches, 1, NULL,
                                  NULL, &fixture->err));
        batch.release(&batch);
        schema.release(&schema);
    }
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "namespace.table",
          append_ids(fixture, "nodot", 0, 1, NULL, NULL));
    FAILS(fixture, LAKE_NOT_FOUND, "batches.missing",
          append_ids(fixture, "batches.missing", 0, 1, NULL, NULL));
}

/* ---- idempotence (NAT-6) ---- */

static void the_same_operation_id_gives_the_first_version(void **state)
{
    struct fixture *fixture = *state;
    struct lake_insert_result first = LAKE_INSERT_RESULT_INIT;
    struct lake_insert_result again = LAKE_INSERT_RESULT_INIT;
    CREATE(fixture, "batches.again", "id:int64");
    OK(fixture, append_ids(fixture, "batches.again", 0, 3, NULL, &first));
    OK(fixture, append_ids(fixture, "batches.again", 7, 1, NULL, NULL));
    OK(fixture, append_ids(fixture, "batches.again", 0, 3, first.operation_id, &again));
    assert_false(first.replayed);
    assert_true(again.replayed);
    assert_int_equal(again.version, first.version);
    assert_int_equal(again.row_count, 3);
    assert_string_equal(again.operation_id, first.operation_id);
    FAILS(fixture, LAKE_ALREADY_EXISTS, first.operation_id,
          append_ids(fixture, "batches.again", 1, 3, first.operation_id, NULL));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not a UUIDv7",
          append_ids(fixture, "batches.again", 1, 3, "01890a5d-ac96-474b-bcce-b302099a8057", NULL));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "not a UUIDv7",
          append_ids(fixture, "batches.again", 1, 3, "once", NULL));
    FAILS(fixture, LAKE_FAILED_PRECONDITION, "expired",
          append_ids(fixture, "batches.again", 1, 3, OPERATION_ID_1, NULL));
    assert_int_equal(count_rows(fixture, "batches.again"), 4);
    lake_insert_result_fini(&first);
    lake_insert_result_fini(&again);
}

static void a_table_made_anew_is_found_behind_a_stale_schema(void **state)
{
    struct fixture *fixture = *state;
    lake_client *other = NULL;
    struct ArrowSchema schema;
    static const char *const text_column[] = {"id:utf8"};
    static const char *const id_column[] = {"id:int64"};
    OK(fixture, lake_connect(fixture->address, NULL, &other, &fixture->err));
    OK(fixture, lake_schema_parse(text_column, 1, &schema, &fixture->err));
    OK(fixture, lake_create_table(other, "batches.anew", &schema, &fixture->err));
    schema.release(&schema);
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "differ at 'id'",
          append_ids(fixture, "batches.anew", 0, 1, NULL, NULL));
    OK(fixture, lake_drop_table(other, "batches.anew", &fixture->err));
    OK(fixture, lake_schema_parse(id_column, 1, &schema, &fixture->err));
    OK(fixture, lake_create_table(other, "Batches.Anew", &schema, &fixture->err));
    schema.release(&schema);
    OK(fixture, append_ids(fixture, "batches.anew", 0, 1, NULL, NULL));
    lake_client_unref(other);
}

/* ---- slices, nulls, dictionaries ---- */

/* Rows of (id, label), labels of a growing width with every third one null. */
static void labelled_batch(struct ArrowSchema *schema, struct ArrowArray *batch, int64_t rows)
{
    static const char *const columns[] = {"id:int64", "label:utf8", "flag:bool", "v:float[2]",
                                          "l:list<int32>"};
    char label[64];
    assert_int_equal(lake_schema_parse(columns, 5, schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(batch, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(batch), 0);
    for (int64_t i = 0; i < rows; i++) {
        snprintf(label, sizeof(label), "%0*lld", (int)(i % 40) + 1, (long long)i);
        ArrowArrayAppendInt(batch->children[0], i);
        if (i % 3 == 0)
            ArrowArrayAppendNull(batch->children[1], 1);
        else
            ArrowArrayAppendString(batch->children[1], ArrowCharView(label));
        ArrowArrayAppendInt(batch->children[2], i % 7 == 0);
        ArrowArrayAppendDouble(batch->children[3]->children[0], (double)i);
        ArrowArrayAppendDouble(batch->children[3]->children[0], (double)-i);
        ArrowArrayFinishElement(batch->children[3]);
        for (int64_t k = 0; k < i % 4; k++)
            ArrowArrayAppendInt(batch->children[4]->children[0], i);
        ArrowArrayFinishElement(batch->children[4]);
        assert_int_equal(ArrowArrayFinishElement(batch), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), 0);
}

static void check_slice(struct fixture *fixture, int64_t from, int64_t count)
{
    char sql[512];
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM batches.slices WHERE id >= %lld AND id < %lld AND "
             "(label IS NULL) = (id %% 3 = 0) AND (label IS NULL OR (length(label) = greatest("
             "id %% 40 + 1, length(id::VARCHAR)) AND label::BIGINT = id)) AND flag = (id %% 7 = 0) "
             "AND v[1] = id AND v[2] = -id AND len(l) = id %% 4 AND coalesce(list_sum(l), 0) = "
             "id * (id %% 4)",
             (long long)from, (long long)(from + count));
    assert_int_equal(query_number(fixture, sql), count);
}

static void slices_bring_exactly_their_rows(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    struct ArrowArray whole_batch;
    labelled_batch(&schema, &whole_batch, 30000);
    OK(fixture, lake_create_table(fixture->client, "batches.slices", &schema, &fixture->err));
    static const struct {
        int64_t from, count;
    } slices[] = {{0, 10}, {13, 1}, {1001, 777}, {29999, 1}, {3, 5}};
    struct ArrowArray batch = whole_batch; /* a view: the offset of a record batch as a whole */
    const struct ArrowArray *batches[] = {&batch};
    for (size_t i = 0; i < BASE_ARRAY_LEN(slices); i++) {
        batch.offset = slices[i].from;
        batch.length = slices[i].count;
        if (i == 4) /* overlaps the first slice: a table of its own */
            OK(fixture, lake_drop_table(fixture->client, "batches.slices", &fixture->err));
        if (i == 4)
            OK(fixture,
               lake_create_table(fixture->client, "batches.slices", &schema, &fixture->err));
        OK(fixture, lake_append_batches(fixture->client, "batches.slices", &schema, batches, 1,
                                        NULL, NULL, &fixture->err));
        check_slice(fixture, slices[i].from, slices[i].count);
    }
    whole_batch.release(&whole_batch);
    schema.release(&schema);
}

static void rows_that_are_null_as_a_whole_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    uint8_t validity[] = {0xFD};
    CREATE(fixture, "batches.nulls", "id:int64");
    id_batch(&schema, &batch, 0, 3);
    const void *kept = batch.buffers[0];
    const struct ArrowArray *batches[] = {&batch};
    batch.buffers[0] = validity;
    batch.null_count = -1;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "null as a whole",
          lake_append_batches(fixture->client, "batches.nulls", &schema, batches, 1, NULL, NULL,
                              &fixture->err));
    validity[0] = 0xFF;
    OK(fixture, lake_append_batches(fixture->client, "batches.nulls", &schema, batches, 1, NULL,
                                    NULL, &fixture->err));
    batch.buffers[0] = kept;
    batch.null_count = 0;
    batch.release(&batch);
    schema.release(&schema);
}

static void broken_arrays_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    labelled_batch(&schema, &batch, 20);
    OK(fixture, lake_create_table(fixture->client, "batches.broken", &schema, &fixture->err));
    const struct ArrowArray *batches[] = {&batch};
    int32_t *offsets = (int32_t *)(uintptr_t)batch.children[1]->buffers[1];
    char *data = (char *)(uintptr_t)batch.children[1]->buffers[2];
    int32_t kept = offsets[2];
    offsets[2] = -5;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "label",
          lake_append_batches(fixture->client, "batches.broken", &schema, batches, 1, NULL, NULL,
                              &fixture->err));
    offsets[2] = kept;
    data[0] = (char)0xFF;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "UTF-8",
          lake_append_batches(fixture->client, "batches.broken", &schema, batches, 1, NULL, NULL,
                              &fixture->err));
    batch.release(&batch);
    schema.release(&schema);
}

/* `count` dictionary columns, each with its own values. */
static void dictionary_batch(struct ArrowSchema *schema, struct ArrowArray *batch, int count)
{
    static char columns[17][64];
    const char *pointers[17];
    for (int i = 0; i < count; i++) {
        snprintf(columns[i], sizeof(columns[i]), "d%d:dictionary<int8, utf8>", i);
        pointers[i] = columns[i];
    }
    assert_int_equal(lake_schema_parse(pointers, (size_t)count, schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(batch, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(batch), 0);
    for (int i = 0; i < count; i++) {
        char value[32];
        for (int v = 0; v < 3; v++) {
            snprintf(value, sizeof(value), "value-%d-%d", i, v);
            ArrowArrayAppendString(batch->children[i]->dictionary, ArrowCharView(value));
        }
    }
    for (int row = 0; row < 6; row++) {
        for (int i = 0; i < count; i++) {
            if (row == 5)
                ArrowArrayAppendNull(batch->children[i], 1);
            else
                ArrowArrayAppendInt(batch->children[i], (row + i) % 3);
        }
        assert_int_equal(ArrowArrayFinishElement(batch), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), 0);
}

static void sixteen_dictionaries_work_and_seventeen_do_not(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    const struct ArrowArray *batches[] = {&batch, &batch};
    dictionary_batch(&schema, &batch, 16);
    OK(fixture, lake_create_table(fixture->client, "batches.sixteen", &schema, &fixture->err));
    OK(fixture, lake_append_batches(fixture->client, "batches.sixteen", &schema, batches, 2, NULL,
                                    NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT count(*) FROM batches.sixteen WHERE "
                                           "d0 = 'value-0-1' AND d15 = 'value-15-1'"),
                     4);
    assert_int_equal(query_number(fixture, "SELECT count(*) FROM batches.sixteen WHERE d7 IS NULL"),
                     2);
    batch.release(&batch);
    schema.release(&schema);
    dictionary_batch(&schema, &batch, 17);
    OK(fixture, lake_create_table(fixture->client, "batches.seventeen", &schema, &fixture->err));
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "more than 16 dictionary",
          lake_append_batches(fixture->client, "batches.seventeen", &schema, batches, 1, NULL, NULL,
                              &fixture->err));
    batch.release(&batch);
    schema.release(&schema);
}

/* Those inside other columns count as well. */
static void nested_dictionaries_count_too(void **state)
{
    struct fixture *fixture = *state;
    char column[1024] = "s:list<struct<";
    const char *columns[] = {column};
    for (int i = 0; i < 17; i++) {
        char field[64];
        struct ArrowSchema schema;
        struct ArrowArray batch;
        const struct ArrowArray *batches[] = {&batch};
        snprintf(field, sizeof(field), "%sd%d: dictionary<int8, utf8>", i == 0 ? "" : ", ", i);
        strncat(column, field, sizeof(column) - strlen(column) - 1);
        if (i < 15)
            continue;
        size_t end = strlen(column);
        snprintf(column + end, sizeof(column) - end, ">>");
        assert_int_equal(lake_schema_parse(columns, 1, &schema, NULL), LAKE_OK);
        column[end] = '\0';
        assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
        assert_int_equal(ArrowArrayStartAppending(&batch), 0);
        assert_int_equal(ArrowArrayFinishElement(batch.children[0]), 0); /* an empty list */
        assert_int_equal(ArrowArrayFinishElement(&batch), 0);
        assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), 0);
        OK(fixture, lake_create_table(fixture->client, "batches.nested", &schema, &fixture->err));
        lake_status status = lake_append_batches(fixture->client, "batches.nested", &schema,
                                                 batches, 1, NULL, NULL, &fixture->err);
        assert_int_equal(status, i < 16 ? LAKE_OK : LAKE_INVALID_ARGUMENT);
        if (i == 16)
            assert_non_null(strstr(fixture->err.message, "more than 16 dictionary"));
        assert_int_equal(count_rows(fixture, "batches.nested"), i < 16 ? 1 : 0);
        OK(fixture, lake_drop_table(fixture->client, "batches.nested", &fixture->err));
        batch.release(&batch);
        schema.release(&schema);
    }
}

/* ---- 64 MiB ---- */

static lake_status append_bytes(struct fixture *fixture, const char *operation_id, size_t size)
{
    static const char *const columns[] = {"b:binary"};
    static uint8_t bytes[64 * 1024 * 1024 + 64];
    struct ArrowSchema schema;
    struct ArrowArray batch;
    assert_int_equal(lake_schema_parse(columns, 1, &schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(&batch), 0);
    struct ArrowBufferView view = {.data.as_uint8 = bytes, .size_bytes = (int64_t)size};
    assert_int_equal(ArrowArrayAppendBytes(batch.children[0], view), 0);
    assert_int_equal(ArrowArrayFinishElement(&batch), 0);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), 0);
    const struct ArrowArray *batches[] = {&batch};
    lake_status status = lake_append_batches(fixture->client, "batches.size", &schema, batches, 1,
                                             operation_id, NULL, &fixture->err);
    batch.release(&batch);
    schema.release(&schema);
    return status;
}

/* The largest append is found by halving: what the client lets through, the servers take. */
static void sixty_four_mib_encoded_work_and_a_byte_more_does_not(void **state)
{
    struct fixture *fixture = *state;
    struct base_uuid uuid;
    char refused_id[BASE_UUID_TEXT_BYTES];
    size_t good = 64 * MIB - 1024;
    size_t bad = 64 * MIB;
    CREATE(fixture, "batches.size", "b:binary");
    OK(fixture, base_uuid7_new(&uuid, &fixture->err));
    base_uuid_format(&uuid, refused_id);
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "67108864", append_bytes(fixture, NULL, bad));
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "67108864", append_bytes(fixture, NULL, bad + 1));
    while (bad - good > 1) {
        /* An ID whose append was measured and refused has done nothing: it serves for the next. */
        size_t middle = good + (bad - good) / 2;
        lake_status status = append_bytes(fixture, NULL, middle);
        if (status == LAKE_OK)
            good = middle;
        else
            bad = middle;
        assert_true(status == LAKE_OK || status == LAKE_RESOURCE_EXHAUSTED);
        if (status == LAKE_OK) { /* each is 64 MiB on disk */
            OK(fixture, lake_drop_table(fixture->client, "batches.size", &fixture->err));
            CREATE(fixture, "batches.size", "b:binary");
        }
    }
    assert_true(64 * MIB - good < 2048); /* headers, offsets and padding take the rest */
    OK(fixture, append_bytes(fixture, refused_id, good));
    assert_int_equal(query_number(fixture, "SELECT octet_length(b) FROM batches.size"),
                     (int64_t)good);
}

/* What the rows refer to counts, not what the caller's arrays hold. */
static void a_small_slice_of_a_large_array_is_small(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    CREATE(fixture, "batches.small", "id:int64");
    id_batch(&schema, &batch, 0, 9 * 1024 * 1024); /* 72 MiB */
    const struct ArrowArray *batches[] = {&batch};
    batch.offset = 9 * 1024 * 1024 - 10;
    batch.length = 10;
    OK(fixture, lake_append_batches(fixture->client, "batches.small", &schema, batches, 1, NULL,
                                    NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT min(id) FROM batches.small"),
                     9 * 1024 * 1024 - 10);
    batch.release(&batch);
    schema.release(&schema);
}

/* Ten thousand batches that share 8 KiB of a dictionary refer to 80 MiB, and would be sent once. */
static void the_batches_together_refer_to_64_mib_at_most(void **state)
{
    struct fixture *fixture = *state;
    static const char *const columns[] = {"d:dictionary<int8, utf8>"};
    static const struct ArrowArray *batches[10000];
    static char value[8192];
    struct ArrowSchema schema;
    struct ArrowArray batch;
    memset(value, 'x', sizeof(value) - 1);
    assert_int_equal(lake_schema_parse(columns, 1, &schema, NULL), LAKE_OK);
    OK(fixture, lake_create_table(fixture->client, "batches.shared", &schema, &fixture->err));
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(&batch), 0);
    ArrowArrayAppendString(batch.children[0]->dictionary, ArrowCharView(value));
    ArrowArrayAppendInt(batch.children[0], 0);
    ArrowArrayFinishElement(&batch);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), 0);
    for (size_t i = 0; i < BASE_ARRAY_LEN(batches); i++)
        batches[i] = &batch;
    FAILS(fixture, LAKE_RESOURCE_EXHAUSTED, "67108864",
          lake_append_batches(fixture->client, "batches.shared", &schema, batches, 10000, NULL,
                              NULL, &fixture->err));
    OK(fixture, lake_append_batches(fixture->client, "batches.shared", &schema, batches, 8000, NULL,
                                    NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT sum(length(d))::BIGINT FROM batches.shared"),
                     8000 * 8191);
    batch.release(&batch);
    schema.release(&schema);
}

static void ten_thousand_batches_work_and_one_more_does_not(void **state)
{
    struct fixture *fixture = *state;
    static const struct ArrowArray *batches[10001];
    struct ArrowSchema schema;
    struct ArrowArray batch;
    CREATE(fixture, "batches.many", "id:int64");
    id_batch(&schema, &batch, 7, 1);
    for (size_t i = 0; i < BASE_ARRAY_LEN(batches); i++)
        batches[i] = &batch;
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "1 to 10000 batches, not 10001",
          lake_append_batches(fixture->client, "batches.many", &schema, batches, 10001, NULL, NULL,
                              &fixture->err));
    OK(fixture, lake_append_batches(fixture->client, "batches.many", &schema, batches, 10000, NULL,
                                    NULL, &fixture->err));
    assert_int_equal(query_number(fixture, "SELECT sum(id)::BIGINT FROM batches.many"), 70000);
    batch.release(&batch);
    schema.release(&schema);
}

/* No table has list views: what several views share is never written out once for each. */
static void list_views_are_refused_before_anything_is_sent(void **state)
{
    struct fixture *fixture = *state;
    static const enum ArrowType types[] = {NANOARROW_TYPE_LIST_VIEW,
                                           NANOARROW_TYPE_LARGE_LIST_VIEW};
    CREATE(fixture, "batches.lists", "v:list<int32>");
    for (size_t i = 0; i < BASE_ARRAY_LEN(types); i++) {
        struct ArrowSchema schema;
        struct ArrowArray batch;
        const struct ArrowArray *batches[] = {&batch};
        ArrowSchemaInit(&schema);
        assert_int_equal(ArrowSchemaSetTypeStruct(&schema, 1), 0);
        assert_int_equal(ArrowSchemaSetType(schema.children[0], types[i]), 0);
        assert_int_equal(ArrowSchemaSetName(schema.children[0], "v"), 0);
        assert_int_equal(ArrowSchemaSetType(schema.children[0]->children[0], NANOARROW_TYPE_INT32),
                         0);
        assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), 0);
        FAILS(fixture, LAKE_INVALID_ARGUMENT, "which holds the same values",
              lake_create_table(fixture->client, "batches.views", &schema, &fixture->err));
        FAILS(fixture, LAKE_INVALID_ARGUMENT, "differ at 'v'",
              lake_append_batches(fixture->client, "batches.lists", &schema, batches, 1, NULL, NULL,
                                  &fixture->err));
        batch.release(&batch);
        schema.release(&schema);
    }
    assert_int_equal(count_rows(fixture, "batches.lists"), 0);
}

/* ---- views ---- */

/* Row i: "text i of a view, which does not hold it" and a list of that and "short". */
static void view_batch(struct ArrowSchema *schema, struct ArrowArray *batch, int64_t rows)
{
    static const char *const columns[] = {"t:utf8_view", "l:list<binary_view>"};
    assert_int_equal(lake_schema_parse(columns, 2, schema, NULL), LAKE_OK);
    assert_int_equal(ArrowArrayInitFromSchema(batch, schema, NULL), 0);
    assert_int_equal(ArrowArrayStartAppending(batch), 0);
    for (int64_t i = 0; i < rows; i++) {
        char memory[64];
        struct ArrowArray *items = batch->children[1]->children[0];
        int size =
            snprintf(memory, sizeof(memory), "text %d of a view, which does not hold it", (int)i);
        const struct ArrowStringView text = {memory, size};
        assert_int_equal(ArrowArrayAppendString(batch->children[0], text), 0);
        assert_int_equal(ArrowArrayAppendString(items, text), 0);
        assert_int_equal(ArrowArrayAppendString(items, ArrowCharView("short")), 0);
        assert_int_equal(ArrowArrayFinishElement(batch->children[1]), 0);
        assert_int_equal(ArrowArrayFinishElement(batch), 0);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(batch, NULL), 0);
}

/* As the columns that the table has for them; without memory no row is there and nothing is lost.
 */
static void views_come_as_what_they_refer_to(void **state)
{
    struct fixture *fixture = *state;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    view_batch(&schema, &batch, 3);
    const struct ArrowArray *pointers[] = {&batch, &batch};
    CREATE(fixture, "batches.views", "t:large_utf8", "l:list<large_binary>");
    CREATE(fixture, "batches.other", "t:binary", "l:list<binary>");
    FAILS(fixture, LAKE_INVALID_ARGUMENT, "'t'",
          lake_append_batches(fixture->client, "batches.other", &schema, pointers, 1, NULL, NULL,
                              &fixture->err));
    OK(fixture, lake_append_batches(fixture->client, "batches.views", &schema, pointers, 2, NULL,
                                    NULL, &fixture->err));
    int64_t rows = 6;
    int failures = 0;
    for (uint64_t nth = 1; nth <= 40; nth++) {
        base_fault_fail_nth_alloc(nth);
        lake_status status = lake_append_batches(fixture->client, "batches.views", &schema,
                                                 pointers, 2, NULL, NULL, &fixture->err);
        base_fault_fail_nth_alloc(0);
        failures += status != LAKE_OK;
        int64_t now = count_rows(fixture, "batches.views");
        assert_true(now == rows || (now == rows + 6 && status != LAKE_RESOURCE_EXHAUSTED));
        rows = now;
    }
    assert_true(failures > 10);
    assert_int_equal(query_number(fixture,
                                  "SELECT count(*) FROM batches.views WHERE length(l) = 2 AND t = "
                                  "'text 2 of a view, which does not hold it' AND l[1] = t::BLOB "
                                  "AND l[2] = 'short'::BLOB"),
                     rows / 3);
    batch.release(&batch);
    schema.release(&schema);
}

static void a_query_only_client_appends(void **state)
{
    struct fixture *fixture = *state;
    struct fixture query_only = {0};
    CREATE(fixture, "batches.remote", "id:int64");
    OK(&query_only,
       lake_connect_query_only(fixture->address, NULL, &query_only.client, &query_only.err));
    OK(&query_only, append_ids(&query_only, "batches.remote", 0, 5, NULL, NULL));
    lake_client_unref(query_only.client);
    assert_int_equal(count_rows(fixture, "batches.remote"), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_batches_are_one_version),
        cmocka_unit_test(rows_and_batches_have_their_limits),
        cmocka_unit_test(a_schema_that_differs_is_named_by_its_path),
        cmocka_unit_test(the_same_operation_id_gives_the_first_version),
        cmocka_unit_test(a_table_made_anew_is_found_behind_a_stale_schema),
        cmocka_unit_test(slices_bring_exactly_their_rows),
        cmocka_unit_test(rows_that_are_null_as_a_whole_are_refused),
        cmocka_unit_test(broken_arrays_are_refused),
        cmocka_unit_test(sixteen_dictionaries_work_and_seventeen_do_not),
        cmocka_unit_test(nested_dictionaries_count_too),
        cmocka_unit_test(sixty_four_mib_encoded_work_and_a_byte_more_does_not),
        cmocka_unit_test(a_small_slice_of_a_large_array_is_small),
        cmocka_unit_test(the_batches_together_refer_to_64_mib_at_most),
        cmocka_unit_test(ten_thousand_batches_work_and_one_more_does_not),
        cmocka_unit_test(list_views_are_refused_before_anything_is_sent),
        cmocka_unit_test(views_come_as_what_they_refer_to),
        cmocka_unit_test(a_query_only_client_appends),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
