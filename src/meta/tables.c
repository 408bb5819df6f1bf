/*
 * Creating and dropping tables. The commit point of both is one conditional change of the registry;
 * what lies on disk before (create) or after it (drop) is named by a pending record, so that a
 * crash at any step is put right without guessing whose a directory is.
 *
 *   create: pending "c/…" -> dataset (its sidecar first) -> registration, pending gone
 *   drop:   sidecar -> registration gone, pending "d/…" -> directory aside -> removed -> pending
 * gone
 *
 * The gate of the table is entered before the gate of the directory; a drop is in that of the
 * table's maintenance before.
 */
#include "meta_internal.h"

#include <inttypes.h>
#include <meta_store.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DIRECTORY_GATE  "directory" /* no table's key: those hold a '/' */
#define MAX_COLUMN_NAME 1024

lake_status meta_table_enter(struct meta_authority *authority, const struct meta_name *name,
                             const struct meta_wait *wait, struct meta_claim *claim,
                             struct lake_error *err)
{
    char key[META_KEY_BYTES];
    (void)meta_key(key, "t", name->namespace_key, name->table_key);
    return meta_gate_enter(&authority->gates, claim, key, wait, err);
}

/* ---- pending records ---- */

static lake_status pack_pending(const struct meta_name *name, const char *incarnation,
                                struct base_buffer *out, struct lake_error *err)
{
    MetaStorePb__PendingDirectory record = META_STORE_PB__PENDING_DIRECTORY__INIT;
    record.has_namespace_key = true;
    record.namespace_key = meta_pb_of_str(name->namespace_key);
    record.has_table_key = true;
    record.table_key = meta_pb_of_str(name->table_key);
    record.has_incarnation = true;
    record.incarnation = meta_pb_of_str(incarnation);
    record.has_recorded_unix_ms = true;
    record.recorded_unix_ms = base_clock_unix_ms();
    return meta_pb_pack(&record.base, out, err);
}

static lake_status parse_pending(struct lake_bytes value, struct meta_name *name,
                                 char incarnation[BASE_UUID_TEXT_BYTES], struct lake_error *err)
{
    MetaStorePb__PendingDirectory *record =
        meta_store_pb__pending_directory__unpack(NULL, value.size, value.data);
    struct base_uuid id;
    lake_status status = LAKE_OK;
    if (record == NULL || !base_uuid_parse(meta_str_of_pb(record->incarnation), &id) ||
        meta_name_parse(meta_str_of_pb(record->namespace_key), meta_str_of_pb(record->table_key),
                        name, NULL) != LAKE_OK)
        status = lake_fail(err, LAKE_DATA_LOSS, "a pending create or drop does not parse");
    else
        base_uuid_format(&id, incarnation);
    if (record != NULL)
        meta_store_pb__pending_directory__free_unpacked(record, NULL);
    return status;
}

/* The incarnation that the dataset in a table's directory says it is; "" when it says none.
 * NOT_FOUND: there is no version in it. */
static lake_status incarnation_on_disk(struct meta_authority *authority,
                                       const struct meta_name *name, char out[BASE_UUID_TEXT_BYTES],
                                       struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct lance_dataset *dataset = NULL;
    lake_status status = meta_table_store(authority, name, &store, err);
    if (status == LAKE_OK)
        status = lance_dataset_open(store, NULL, NULL, 0, &dataset, err);
    if (status == LAKE_OK) {
        const char *said = lance_dataset_config(dataset, META_CONFIG_INCARNATION);
        struct base_uuid id;
        out[0] = '\0';
        if (said != NULL && base_uuid_parse(base_str_of(said), &id))
            base_uuid_format(&id, out);
        lance_dataset_unref(dataset);
    }
    storage_store_unref(store);
    return status;
}

/* A failure that says nothing about what is on the disk: want of memory or of descriptors, say. */
static bool passes(lake_status status)
{
    return status == LAKE_RESOURCE_EXHAUSTED || status == LAKE_UNAVAILABLE;
}

/* Whether what lies in the table's directory is what the pending record is about. Before a create
 * wrote its record there was no directory, so an unreadable one is its; a drop only takes what says
 * that it is the dropped incarnation. */
static lake_status is_pending_ones(struct meta_authority *authority, const struct meta_name *name,
                                   const char *incarnation, bool create, bool *out,
                                   struct lake_error *err)
{
    char said[BASE_UUID_TEXT_BYTES];
    lake_status status = incarnation_on_disk(authority, name, said, err);
    if (passes(status))
        return status;
    *out = status == LAKE_OK ? strcmp(said, incarnation) == 0 : create;
    return LAKE_OK;
}

lake_status meta_table_finish_pending(struct meta_authority *authority, struct lake_bytes key,
                                      struct lake_bytes value, struct lake_error *err)
{
    struct meta_name name;
    char incarnation[BASE_UUID_TEXT_BYTES];
    lake_status status = parse_pending(value, &name, incarnation, err);
    bool create = key.size > 0 && key.data[0] == 'c';
    bool exists = false;
    if (status == LAKE_OK)
        status = meta_directory_exists(authority, &name, &exists, err);
    bool owned = false;
    if (status == LAKE_OK && exists)
        status = is_pending_ones(authority, &name, incarnation, create, &owned, err);
    if (status == LAKE_OK && owned)
        status = meta_directory_move_aside(authority, &name, incarnation, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.pending.after_move", err);
    if (status == LAKE_OK)
        status = meta_directory_remove_dropped(authority, incarnation, err);
    if (status == LAKE_OK) {
        struct kv_write gone = {KV_DELETE, key, {NULL, 0}};
        status = kv_commit(authority->kv, NULL, 0, &gone, 1, NULL, err);
    }
    return status;
}

static lake_status finish_pending_key(struct meta_authority *authority, struct lake_bytes key,
                                      struct lake_error *err)
{
    struct base_buffer value;
    base_buffer_init(&value, KV_MAX_VALUE_BYTES);
    lake_status status = kv_get(authority->kv, key, &value, err);
    if (status == LAKE_OK)
        status = meta_table_finish_pending(authority, key, base_buffer_view(&value), err);
    else if (status == LAKE_NOT_FOUND)
        status = LAKE_OK;
    base_buffer_fini(&value);
    return status;
}

/* ---- create ---- */

static int compare_names(const void *a, const void *b)
{
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

/* SQL matches names without case, so two that differ only there could not be told apart. `whose` is
 * the struct whose members the children are; NULL: the table's columns. */
static lake_status check_doubles(const struct ArrowSchema *schema, const char *whose,
                                 struct lake_error *err)
{
    size_t count = (size_t)schema->n_children;
    const char **names = base_alloc_array(count + 1, sizeof(*names));
    if (names == NULL)
        return base_fail_no_memory(err, count * sizeof(*names));
    for (size_t i = 0; i < count; i++)
        names[i] = schema->children[i]->name == NULL ? "" : schema->children[i]->name;
    qsort(names, count, sizeof(*names), compare_names);
    lake_status status = LAKE_OK;
    for (size_t i = 1; i < count && status == LAKE_OK; i++) {
        if (strcasecmp(names[i - 1], names[i]) == 0)
            status = lake_fail(
                err, LAKE_INVALID_ARGUMENT, "two %s%s are called \"%s\" (SQL does not see case)",
                whose == NULL ? "columns" : "members of ", whose == NULL ? "" : whose, names[i]);
    }
    base_free(names);
    return status;
}

static lake_status check_columns(const struct ArrowSchema *schema, struct lake_error *err)
{
    if (schema->n_children == 0)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "a table needs at least one column");
    for (int64_t i = 0; i < schema->n_children; i++) {
        const char *name = schema->children[i]->name;
        if (name == NULL || name[0] == '\0')
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "column %" PRId64 " has no name", i);
        if (!base_utf8_valid(base_str_of(name)) || strlen(name) > MAX_COLUMN_NAME)
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the name of column %" PRId64 " is not 1 to %d bytes of UTF-8", i,
                             MAX_COLUMN_NAME);
    }
    return check_doubles(schema, NULL, err);
}

/* The members of structs at any depth, of which decoding has set the bound. */
static lake_status check_members(const struct ArrowSchema *schema, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (int64_t i = 0; i < schema->n_children && status == LAKE_OK; i++) {
        const struct ArrowSchema *child = schema->children[i];
        if (strcmp(child->format, "+s") == 0)
            status = check_doubles(child, child->name == NULL ? "" : child->name, err);
        if (status == LAKE_OK)
            status = check_members(child, err);
    }
    return status;
}

lake_status meta_schema_encode(const struct ArrowSchema *schema, struct base_buffer *out,
                               struct lake_error *err)
{
    lake_status status = check_columns(schema, err);
    if (status == LAKE_OK)
        status = arrow_file_schema_check(schema, err);
    return status == LAKE_OK ? arrow_ipc_schema_to_bytes(schema, out, err) : status;
}

/* The schema of a table that is asked for: with text and bytes where it has views of them. */
static lake_status read_schema(struct lake_bytes schema_ipc, struct ArrowSchema *out,
                               struct lake_error *err)
{
    struct ArrowSchema given;
    lake_status status = arrow_ipc_schema_from_bytes(schema_ipc, &given, err);
    if (status != LAKE_OK)
        return status;
    status = arrow_plain_schema(&given, NULL, out, err);
    given.release(&given);
    return status;
}

static lake_status check_schema(struct lake_bytes schema_ipc, const char *storage_version,
                                struct ArrowSchema *schema, struct base_buffer *canonical,
                                struct lake_error *err)
{
    if (schema_ipc.size > META_SCHEMA_MAX_BYTES)
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the schema has %zu bytes; at most %d",
                         schema_ipc.size, META_SCHEMA_MAX_BYTES);
    lake_status status = read_schema(schema_ipc, schema, err);
    if (status != LAKE_OK)
        return status;
    status = meta_schema_encode(schema, canonical, err);
    if (status == LAKE_OK)
        status = check_members(schema, err);
    if (status == LAKE_OK)
        status = meta_column_types_check(schema, err);
    if (status == LAKE_OK)
        status = lance_schema_check(schema, storage_version, err);
    return status;
}

/* Makes room where the table's directory will be: ends what a failed create or drop left there.
 * What nobody can explain is not touched. */
static lake_status clear_directory(struct meta_authority *authority, const struct meta_name *name,
                                   struct lake_error *err)
{
    char key[META_KEY_BYTES];
    char said[BASE_UUID_TEXT_BYTES];
    lake_status status = finish_pending_key(
        authority, meta_key(key, "c", name->namespace_key, name->table_key), err);
    bool exists = false;
    if (status == LAKE_OK)
        status = meta_directory_exists(authority, name, &exists, err);
    lake_status read = LAKE_NOT_FOUND;
    if (status == LAKE_OK && exists)
        read = incarnation_on_disk(authority, name, said, err);
    if (passes(read))
        return read;
    if (read == LAKE_OK && said[0] != '\0') {
        status = finish_pending_key(authority, meta_key(key, "d", said, NULL), err);
        if (status == LAKE_OK)
            status = meta_directory_exists(authority, name, &exists, err);
    }
    if (status == LAKE_OK && exists)
        status =
            lake_fail(err, LAKE_FAILED_PRECONDITION,
                      "%s/%s/%s.lance holds data that the registry does not know; move it "
                      "away, or restore the registry that belongs to it",
                      storage_store_uri(authority->tables), name->namespace_key, name->table_key);
    return status;
}

static lake_status make_dataset(struct meta_authority *authority, struct storage_store *store,
                                const struct ArrowSchema *schema, const char *storage_version,
                                const char *incarnation, struct lake_error *err)
{
    struct base_uuid id;
    char operation_id[BASE_UUID_TEXT_BYTES];
    lake_status status = base_uuid7_new(&id, err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&id, operation_id);
    struct meta_delta_writer delta = {
        .authority = authority, .incarnation = incarnation, .operation_id = operation_id};
    struct lance_key_value config = {META_CONFIG_INCARNATION, incarnation};
    struct lance_create_options options;
    lance_create_options_init(&options);
    options.storage_version = storage_version;
    options.config = &config;
    options.config_count = 1;
    options.commit.before_publish = meta_delta_before_publish;
    options.commit.context = &delta;
    struct lance_dataset *dataset = NULL;
    status = lance_dataset_create(store, schema, &options, &dataset, err);
    lance_dataset_unref(dataset);
    return status;
}

/* The namespace keeps the spelling of its first table. */
static lake_status namespace_spelling(struct meta_authority *authority,
                                      const struct meta_name *name,
                                      char out[META_NAME_MAX_BYTES + 1], struct lake_error *err)
{
    char prefix[META_KEY_BYTES];
    struct kv_page page = {0};
    lake_status status = kv_scan(authority->kv, meta_key(prefix, "r", name->namespace_key, ""),
                                 (struct lake_bytes){NULL, 0}, 1, KV_MAX_VALUE_BYTES, &page, err);
    if (status != LAKE_OK)
        return status;
    struct meta_registration first;
    meta_registration_init(&first);
    memcpy(out, name->namespace_name, sizeof(name->namespace_name));
    if (page.count > 0)
        status = meta_registration_parse(page.pairs[0].value, &first, err);
    if (status == LAKE_OK && page.count > 0)
        memcpy(out, first.name.namespace_name, sizeof(first.name.namespace_name));
    meta_registration_fini(&first);
    kv_page_fini(&page);
    return status;
}

static lake_status pack_registration(struct meta_authority *authority, const struct meta_name *name,
                                     const char *location, const char *incarnation,
                                     struct lake_bytes schema_ipc, struct base_buffer *out,
                                     struct lake_error *err)
{
    char spelling[META_NAME_MAX_BYTES + 1];
    uint64_t generation;
    lake_status status = namespace_spelling(authority, name, spelling, err);
    if (status == LAKE_OK)
        status = meta_generation_get(authority, "directory", &generation, err);
    if (status != LAKE_OK)
        return status;
    LakePb__TableName table = LAKE_PB__TABLE_NAME__INIT;
    table.has_namespace_name = true;
    table.namespace_name = meta_pb_of_str(spelling);
    table.has_table = true;
    table.table = meta_pb_of_str(name->table);
    LakePb__Registration record = LAKE_PB__REGISTRATION__INIT;
    record.name = &table;
    record.has_location = true;
    record.location = meta_pb_of_str(location);
    record.has_engine = true;
    record.engine = meta_pb_of_str("lance");
    record.has_incarnation = true;
    record.incarnation = meta_pb_of_str(incarnation);
    record.has_schema_ipc = true;
    record.schema_ipc =
        (ProtobufCBinaryData){schema_ipc.size, (uint8_t *)(uintptr_t)schema_ipc.data};
    record.has_generation = true;
    record.generation = generation + 1;
    record.has_created_unix_ms = true;
    record.created_unix_ms = base_clock_unix_ms();
    return meta_pb_pack(&record.base, out, err);
}

/* The commit point of a create. `value` receives the registration as stored. ABORTED: certainly not
 * registered. */
static lake_status register_table(struct meta_authority *authority, const struct meta_wait *wait,
                                  const struct meta_name *name, const char *location,
                                  const char *incarnation, struct lake_bytes schema_ipc,
                                  struct base_buffer *value, struct lake_error *err)
{
    char registration_key[META_KEY_BYTES];
    char version_key[META_KEY_BYTES];
    char pending_key[META_KEY_BYTES];
    struct base_buffer version;
    struct meta_claim directory;
    lake_status status = meta_gate_enter(&authority->gates, &directory, DIRECTORY_GATE, wait, err);
    if (status != LAKE_OK)
        return lake_fail_wrap(err, LAKE_ABORTED, "the create gave up waiting for another one");
    base_buffer_init(&version, 4096);
    status = pack_registration(authority, name, location, incarnation, schema_ipc, value, err);
    if (status == LAKE_OK)
        status = meta_recorded_version_pack(incarnation, 1, &version, err);
    if (status == LAKE_OK) {
        struct lake_bytes key =
            meta_key(registration_key, "r", name->namespace_key, name->table_key);
        struct kv_condition absent = {KV_ABSENT, key, {NULL, 0}};
        struct kv_write writes[] = {
            {KV_PUT, key, base_buffer_view(value)},
            {KV_PUT, meta_key(version_key, "v", name->namespace_key, name->table_key),
             base_buffer_view(&version)},
            {KV_DELETE,
             meta_key(pending_key, "c", name->namespace_key, name->table_key),
             {NULL, 0}}};
        status = meta_directory_commit(authority, &absent, writes, BASE_ARRAY_LEN(writes), err);
    }
    base_buffer_fini(&version);
    meta_gate_leave(&authority->gates, &directory);
    return status;
}

/* With the table's gate held and the table not registered. */
static lake_status create_new(struct meta_authority *authority, const struct meta_wait *wait,
                              const struct meta_name *name, const struct ArrowSchema *schema,
                              struct lake_bytes schema_ipc, const char *storage_version,
                              struct meta_registration *out, struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct base_buffer pending;
    struct base_buffer value;
    char pending_key_bytes[META_KEY_BYTES];
    char incarnation[BASE_UUID_TEXT_BYTES];
    struct base_uuid id;
    base_buffer_init(&pending, 4096);
    base_buffer_init(&value, KV_MAX_VALUE_BYTES);
    struct lake_bytes pending_key =
        meta_key(pending_key_bytes, "c", name->namespace_key, name->table_key);
    bool certain = true; /* that the table is not registered */
    lake_status status = clear_directory(authority, name, err);
    if (status == LAKE_OK)
        status = base_uuid4_new(&id, err);
    if (status != LAKE_OK)
        goto out;
    base_uuid_format(&id, incarnation);
    status = pack_pending(name, incarnation, &pending, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, name, &store, err);
    if (status != LAKE_OK)
        goto out;
    struct kv_write put = {KV_PUT, pending_key, base_buffer_view(&pending)};
    status = kv_commit(authority->kv, NULL, 0, &put, 1, NULL, err);
    if (status != LAKE_OK)
        goto out;
    status = BASE_FAULT("meta.create.after_pending", err);
    if (status == LAKE_OK)
        status = make_dataset(authority, store, schema, storage_version, incarnation, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.create.after_dataset", err);
    if (status == LAKE_OK) {
        certain = false;
        status = register_table(authority, wait, name, storage_store_uri(store), incarnation,
                                schema_ipc, &value, err);
        certain = status == LAKE_ABORTED;
    }
    if (status == LAKE_OK) {
        status = meta_registration_parse(base_buffer_view(&value), out, err);
        if (status == LAKE_OK)
            status = BASE_FAULT("meta.create.after_registration", err);
        goto out;
    }
    /* What cannot be cleaned now is cleaned by the next create of this name or the next start. */
    if (certain)
        (void)finish_pending_key(authority, pending_key, NULL);
out:
    base_buffer_fini(&value);
    base_buffer_fini(&pending);
    storage_store_unref(store);
    return status;
}

lake_status meta_table_create(struct meta_authority *authority,
                              const struct meta_identity *identity, const struct meta_wait *wait,
                              const struct meta_name *name, struct lake_bytes schema_ipc,
                              bool if_not_exists, const char *storage_version,
                              struct meta_registration *out, struct lake_error *err)
{
    lake_status status = meta_identity_require(identity, name->namespace_name, err);
    if (status != LAKE_OK)
        return status;
    struct ArrowSchema schema = {.release = NULL};
    struct base_buffer canonical;
    base_buffer_init(&canonical, META_SCHEMA_MAX_BYTES);
    struct meta_claim claim;
    status = check_schema(schema_ipc, storage_version, &schema, &canonical, err);
    if (status != LAKE_OK)
        goto out;
    status = meta_table_enter(authority, name, wait, &claim, err);
    if (status != LAKE_OK)
        goto out;
    status = meta_registration_get(authority, name, out, err);
    if (status == LAKE_OK && !if_not_exists)
        status = lake_fail(err, LAKE_ALREADY_EXISTS, "table %s.%s exists already",
                           name->namespace_name, name->table);
    else if (status == LAKE_NOT_FOUND)
        status = create_new(authority, wait, name, &schema, base_buffer_view(&canonical),
                            storage_version, out, err);
    meta_gate_leave(&authority->gates, &claim);
out:
    base_buffer_fini(&canonical);
    if (schema.release != NULL)
        schema.release(&schema);
    return status;
}

/* ---- drop ---- */

/* The sidecar that says "this incarnation refers to nothing any more", under the number that the
 * next version would have had. A table whose files are lost can still be dropped. */
static lake_status write_drop_delta(struct meta_authority *authority, const struct meta_name *name,
                                    const char *incarnation, char key[META_KEY_BYTES],
                                    struct lake_error *err)
{
    struct storage_store *store = NULL;
    struct base_buffer bytes;
    struct base_uuid id;
    char operation_id[BASE_UUID_TEXT_BYTES];
    uint64_t recorded = 0;
    uint64_t latest = 0;
    base_buffer_init(&bytes, 4096);
    lake_status status = meta_recorded_version(authority, name, incarnation, &recorded, err);
    if (status == LAKE_OK)
        status = meta_table_store(authority, name, &store, err);
    if (status == LAKE_OK && lance_latest_version(store, recorded, &latest, NULL, NULL) != LAKE_OK)
        latest = recorded;
    if (status == LAKE_OK)
        status = base_uuid7_new(&id, err);
    if (status == LAKE_OK) {
        base_uuid_format(&id, operation_id);
        status = meta_delta_key(incarnation, latest + 1, operation_id, key, err);
    }
    if (status == LAKE_OK)
        status = meta_delta_encode(latest + 1, META_DELTA_REMOVES_ALL, NULL, NULL, &bytes, err);
    if (status == LAKE_OK)
        status = storage_put(authority->deltas, base_str_of(key), base_buffer_view(&bytes), err);
    base_buffer_fini(&bytes);
    storage_store_unref(store);
    return status;
}

/* The commit point of a drop; `pending_key` receives the key of the pending record. */
static lake_status unregister_table(struct meta_authority *authority, const struct meta_wait *wait,
                                    const struct meta_registration *registration,
                                    struct lake_bytes pending_key, struct lake_error *err)
{
    const struct meta_name *name = &registration->name;
    char registration_key[META_KEY_BYTES];
    char version_key[META_KEY_BYTES];
    struct base_buffer pending;
    struct meta_claim directory;
    lake_status status = meta_gate_enter(&authority->gates, &directory, DIRECTORY_GATE, wait, err);
    if (status != LAKE_OK)
        return status;
    base_buffer_init(&pending, 4096);
    status = pack_pending(name, registration->incarnation, &pending, err);
    if (status == LAKE_OK) {
        struct lake_bytes key =
            meta_key(registration_key, "r", name->namespace_key, name->table_key);
        struct kv_condition unchanged = {KV_EQUALS, key, base_buffer_view(&registration->raw)};
        struct kv_write writes[] = {
            {KV_DELETE, key, {NULL, 0}},
            {KV_DELETE,
             meta_key(version_key, "v", name->namespace_key, name->table_key),
             {NULL, 0}},
            {KV_PUT, pending_key, base_buffer_view(&pending)}};
        status = meta_directory_commit(authority, &unchanged, writes, BASE_ARRAY_LEN(writes), err);
    }
    base_buffer_fini(&pending);
    meta_gate_leave(&authority->gates, &directory);
    return status;
}

static lake_status drop_registered(struct meta_authority *authority, const struct meta_wait *wait,
                                   const struct meta_registration *registration,
                                   struct lake_error *err)
{
    char delta_key[META_KEY_BYTES];
    char pending_key_bytes[META_KEY_BYTES];
    struct lake_bytes pending_key =
        meta_key(pending_key_bytes, "d", registration->incarnation, NULL);
    lake_status status =
        write_drop_delta(authority, &registration->name, registration->incarnation, delta_key, err);
    if (status == LAKE_OK)
        status = BASE_FAULT("meta.drop.before_registration", err);
    if (status == LAKE_OK)
        status = unregister_table(authority, wait, registration, pending_key, err);
    if (status != LAKE_OK)
        return status;
    status = BASE_FAULT("meta.drop.after_registration", err);
    if (status != LAKE_OK)
        return status;
    /* The table is gone from here on, whatever becomes of its files. */
    struct lake_error left = {.code = LAKE_OK};
    if (finish_pending_key(authority, pending_key, &left) != LAKE_OK)
        base_log(BASE_LOG_WARN, "the files of a dropped table are left for the next start",
                 "incarnation", registration->incarnation, "reason", left.message, NULL);
    return LAKE_OK;
}

lake_status meta_table_drop(struct meta_authority *authority, const struct meta_identity *identity,
                            const struct meta_wait *wait, const struct meta_name *name,
                            bool if_exists, struct lake_error *err)
{
    lake_status status = meta_identity_require(identity, name->namespace_name, err);
    if (status != LAKE_OK)
        return status;
    struct meta_claim maintenance;
    struct meta_claim claim;
    status = meta_maintenance_enter(authority, name, wait, &maintenance, err);
    if (status != LAKE_OK)
        return status;
    status = meta_table_enter(authority, name, wait, &claim, err);
    if (status != LAKE_OK) {
        meta_gate_leave(&authority->gates, &maintenance);
        return status;
    }
    struct meta_registration registration;
    meta_registration_init(&registration);
    status = meta_registration_get(authority, name, &registration, err);
    if (status == LAKE_OK)
        status = drop_registered(authority, wait, &registration, err);
    else if (status == LAKE_NOT_FOUND && if_exists)
        status = LAKE_OK;
    meta_registration_fini(&registration);
    meta_gate_leave(&authority->gates, &claim);
    meta_gate_leave(&authority->gates, &maintenance);
    return status;
}
