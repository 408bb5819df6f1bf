#include "ticket.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>

#include "query_ticket.pb-c.h"

#define KEY_BYTES          32
#define KEY_NAME_BYTES     4
#define NONCE_BYTES        12
#define TAG_BYTES          16
#define HEAD_BYTES         (1 + KEY_NAME_BYTES)
#define MAX_KEYS           4
#define MAX_KEY_FILE_BYTES 16384
#define MAX_PINS           4096

struct ticket_key {
    uint8_t name[KEY_NAME_BYTES];
    struct base_secret key;
};

struct query_ticket_keys {
    struct ticket_key keys[MAX_KEYS]; /* [0] is the active one */
    size_t count;
};

/* ---- the key ring ---- */

static lake_status add_key(struct query_ticket_keys *keys, const uint8_t key[KEY_BYTES],
                           struct lake_error *err)
{
    struct ticket_key *added = &keys->keys[keys->count];
    uint8_t digest[BASE_SHA256_BYTES];
    lake_status status = base_sha256_once((struct lake_bytes){key, KEY_BYTES}, digest, err);
    if (status != LAKE_OK)
        return status;
    for (size_t i = 0; i < keys->count; i++) {
        if (memcmp(keys->keys[i].name, digest, KEY_NAME_BYTES) == 0)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the ticket key file holds a key twice");
    }
    status = base_secret_copy(&added->key, (struct lake_bytes){key, KEY_BYTES}, err);
    if (status != LAKE_OK)
        return status;
    memcpy(added->name, digest, KEY_NAME_BYTES);
    keys->count++;
    return LAKE_OK;
}

static lake_status add_key_json(struct query_ticket_keys *keys, const json_t *value,
                                const char *path, struct lake_error *err)
{
    uint8_t key[KEY_BYTES];
    struct lake_str text = {json_string_value(value), json_string_length(value)};
    if (text.data == NULL || text.size != 2 * KEY_BYTES || !base_hex_decode(text, key))
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "a key in %s is not 64 hexadecimal digits (256 bits)", path);
    lake_status status = add_key(keys, key, err);
    explicit_bzero(key, sizeof(key));
    return status;
}

static lake_status read_key_file(struct query_ticket_keys *keys, const char *path,
                                 struct lake_error *err)
{
    struct base_secret text = {0};
    json_t *root = NULL;
    lake_status status = base_secret_read_file(&text, path, MAX_KEY_FILE_BYTES, err);
    if (status != LAKE_OK)
        return status;
    status =
        base_json_parse((struct lake_bytes){text.data, text.size}, MAX_KEY_FILE_BYTES, &root, err);
    if (status != LAKE_OK)
        goto out;
    const json_t *more = json_object_get(root, "verification");
    size_t expected = more == NULL ? 1 : 2;
    if (!json_is_object(root) || json_object_size(root) != expected ||
        json_object_get(root, "active") == NULL || (more != NULL && !json_is_array(more)) ||
        json_array_size(more) > MAX_KEYS - 1) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "%s must be a JSON object with \"active\" (a key) and optionally "
                           "\"verification\" (an array of up to %d keys), and nothing else",
                           path, MAX_KEYS - 1);
        goto out;
    }
    status = add_key_json(keys, json_object_get(root, "active"), path, err);
    for (size_t i = 0; status == LAKE_OK && i < json_array_size(more); i++)
        status = add_key_json(keys, json_array_get(more, i), path, err);
out:
    json_decref(root);
    base_secret_fini(&text);
    return status;
}

lake_status query_ticket_keys_open(const char *path, struct query_ticket_keys **out,
                                   struct lake_error *err)
{
    struct query_ticket_keys *keys = base_calloc_array(1, sizeof(*keys));
    if (keys == NULL)
        return base_fail_no_memory(err, sizeof(*keys));
    lake_status status;
    if (path != NULL) {
        status = read_key_file(keys, path, err);
    } else {
        uint8_t key[KEY_BYTES];
        status = base_random_bytes(key, sizeof(key), err);
        if (status == LAKE_OK)
            status = add_key(keys, key, err);
        explicit_bzero(key, sizeof(key));
    }
    if (status != LAKE_OK) {
        query_ticket_keys_free(keys);
        return status;
    }
    *out = keys;
    return LAKE_OK;
}

void query_ticket_keys_free(struct query_ticket_keys *keys)
{
    if (keys == NULL)
        return;
    for (size_t i = 0; i < keys->count; i++)
        base_secret_fini(&keys->keys[i].key);
    base_free(keys);
}

/* ---- AES-256-GCM ---- */

static lake_status cipher_failed(struct lake_error *err)
{
    return lake_fail(err, LAKE_INTERNAL, "the ticket cipher (AES-256-GCM) is not available");
}

static lake_status encrypt(const struct ticket_key *key, struct lake_bytes plain,
                           struct base_buffer *out, struct lake_error *err)
{
    uint8_t head[HEAD_BYTES + NONCE_BYTES] = {QUERY_TICKET_PROTOCOL};
    uint8_t tag[TAG_BYTES];
    int written = 0;
    EVP_CIPHER_CTX *context = NULL;
    memcpy(head + 1, key->name, KEY_NAME_BYTES);
    lake_status status = base_random_bytes(head + HEAD_BYTES, NONCE_BYTES, err);
    if (status == LAKE_OK)
        status = base_buffer_append(out, head, sizeof(head), err);
    if (status == LAKE_OK)
        status = base_buffer_reserve(out, plain.size + TAG_BYTES, err);
    if (status != LAKE_OK)
        return status;
    context = EVP_CIPHER_CTX_new();
    if (context == NULL ||
        EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key->key.data, head + HEAD_BYTES) !=
            1 ||
        EVP_EncryptUpdate(context, NULL, &written, head, HEAD_BYTES) != 1 ||
        EVP_EncryptUpdate(context, out->data + out->size, &written, plain.data, (int)plain.size) !=
            1 ||
        (size_t)written != plain.size ||
        EVP_EncryptFinal_ex(context, out->data + out->size + plain.size, &written) != 1 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) != 1) {
        status = cipher_failed(err);
        goto out;
    }
    out->size += plain.size;
    status = base_buffer_append(out, tag, TAG_BYTES, err);
out:
    EVP_CIPHER_CTX_free(context);
    return status;
}

/* False for anything that this key did not seal as it is. `plain` has room for the ciphertext. */
static bool decrypt(const struct ticket_key *key, struct lake_bytes sealed, uint8_t *plain)
{
    size_t size = sealed.size - HEAD_BYTES - NONCE_BYTES - TAG_BYTES;
    uint8_t tag[TAG_BYTES];
    int written = 0;
    memcpy(tag, sealed.data + sealed.size - TAG_BYTES, TAG_BYTES);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool good = context != NULL &&
                EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, key->key.data,
                                   sealed.data + HEAD_BYTES) == 1 &&
                EVP_DecryptUpdate(context, NULL, &written, sealed.data, HEAD_BYTES) == 1 &&
                EVP_DecryptUpdate(context, plain, &written, sealed.data + HEAD_BYTES + NONCE_BYTES,
                                  (int)size) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
                EVP_DecryptFinal_ex(context, plain + size, &written) == 1;
    EVP_CIPHER_CTX_free(context);
    return good;
}

/* ---- contents ---- */

static ProtobufCBinaryData binary(struct lake_str s)
{
    return (ProtobufCBinaryData){s.size, (uint8_t *)(uintptr_t)s.data};
}

static struct lake_str view(ProtobufCBinaryData data)
{
    return (struct lake_str){(const char *)data.data, data.len};
}

static void fill_pin(const struct query_pin *pin, QueryPb__PinnedTable *out)
{
    query_pb__pinned_table__init(out);
    out->has_catalog = out->has_schema = out->has_table = out->has_at_version = 1;
    out->has_location = out->has_engine = out->has_incarnation = out->has_version = 1;
    out->catalog = binary(pin->catalog);
    out->schema = binary(pin->schema);
    out->table = binary(pin->table);
    out->at_version = pin->at_version;
    out->location = binary(pin->location);
    out->engine = binary(pin->engine);
    out->incarnation = binary(pin->incarnation);
    out->version = pin->version;
}

static lake_status pack(const struct query_ticket *ticket, const struct rpc_principal *principal,
                        struct lake_str audience, int64_t now_unix_ms, int64_t ttl_ms,
                        struct base_buffer *out, struct lake_error *err)
{
    QueryPb__StatementTicket message = QUERY_PB__STATEMENT_TICKET__INIT;
    QueryPb__PinnedTable *tables = base_calloc_array(ticket->pin_count + 1, sizeof(*tables));
    QueryPb__PinnedTable **pointers = base_calloc_array(ticket->pin_count + 1, sizeof(*pointers));
    lake_status status = LAKE_OK;
    if (tables == NULL || pointers == NULL) {
        status = base_fail_no_memory(err, ticket->pin_count * sizeof(*tables));
        goto out;
    }
    for (size_t i = 0; i < ticket->pin_count; i++) {
        fill_pin(&ticket->pins[i], &tables[i]);
        pointers[i] = &tables[i];
    }
    message.has_principal_id = message.has_tenant_id = message.has_audience = 1;
    message.has_issued_unix_ms = message.has_expires_unix_ms = 1;
    message.has_sql = message.has_schema_sha256 = message.has_purpose = 1;
    message.principal_id = binary(base_str_of(principal->principal_id));
    message.tenant_id = binary(base_str_of(principal->tenant_id));
    message.audience = binary(audience);
    message.issued_unix_ms = now_unix_ms;
    message.expires_unix_ms = now_unix_ms + ttl_ms;
    message.sql = binary(ticket->sql);
    message.schema_sha256 = binary(
        (struct lake_str){(const char *)ticket->schema_sha256.data, ticket->schema_sha256.size});
    message.purpose = (uint32_t)ticket->purpose;
    message.n_tables = ticket->pin_count;
    message.tables = pointers;
    size_t size = query_pb__statement_ticket__get_packed_size(&message);
    status = base_buffer_reserve(out, size, err);
    if (status == LAKE_OK)
        out->size += query_pb__statement_ticket__pack(&message, out->data + out->size);
out:
    base_free(tables);
    base_free(pointers);
    return status;
}

lake_status query_ticket_seal(const struct query_ticket_keys *keys,
                              const struct query_ticket *ticket,
                              const struct rpc_principal *principal, struct lake_str audience,
                              int64_t now_unix_ms, int64_t ttl_ms, struct base_buffer *out,
                              struct lake_error *err)
{
    struct base_buffer plain;
    base_buffer_init(&plain, out->max_bytes);
    base_buffer_clear(out);
    lake_status status = pack(ticket, principal, audience, now_unix_ms, ttl_ms, &plain, err);
    if (status == LAKE_OK)
        status = encrypt(&keys->keys[0], base_buffer_view(&plain), out, err);
    base_buffer_fini(&plain);
    return status;
}

static void *arena_alloc(void *arena, size_t size)
{
    return base_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *memory)
{
    (void)arena;
    (void)memory; /* the arena frees everything at once */
}

static lake_status refuse(struct lake_error *err)
{
    return lake_fail(err, LAKE_UNAUTHENTICATED,
                     "the ticket is not valid for this caller on this server: ask for a new one "
                     "with GetFlightInfo");
}

static lake_status check_binding(const QueryPb__StatementTicket *message,
                                 enum query_ticket_purpose purpose,
                                 const struct rpc_principal *principal, struct lake_str audience,
                                 int64_t now_unix_ms, struct lake_error *err)
{
    if (message->purpose != (uint32_t)purpose ||
        !base_str_equal_c(view(message->principal_id), principal->principal_id) ||
        !base_str_equal_c(view(message->tenant_id), principal->tenant_id) ||
        !base_str_equal(view(message->audience), audience))
        return refuse(err);
    if (now_unix_ms < message->issued_unix_ms - QUERY_TICKET_CLOCK_SKEW_MS)
        return refuse(err);
    if (now_unix_ms >= message->expires_unix_ms)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the ticket has expired: ask for a new one with GetFlightInfo");
    return LAKE_OK;
}

static lake_status unpack(struct lake_bytes plain, enum query_ticket_purpose purpose,
                          const struct rpc_principal *principal, struct lake_str audience,
                          int64_t now_unix_ms, struct query_ticket *out, struct lake_error *err)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, out->memory};
    QueryPb__StatementTicket *message =
        query_pb__statement_ticket__unpack(&allocator, plain.size, plain.data);
    if (message == NULL && base_arena_out_of_memory(out->memory))
        return base_fail_no_memory(err, plain.size);
    if (message == NULL || message->n_tables > MAX_PINS)
        return refuse(err);
    lake_status status = check_binding(message, purpose, principal, audience, now_unix_ms, err);
    if (status != LAKE_OK)
        return status;
    struct query_pin *pins =
        base_arena_calloc_array(out->memory, message->n_tables + 1, sizeof(*pins));
    if (pins == NULL)
        return base_fail_no_memory(err, message->n_tables * sizeof(*pins));
    for (size_t i = 0; i < message->n_tables; i++) {
        const QueryPb__PinnedTable *table = message->tables[i];
        pins[i] = (struct query_pin){
            .catalog = view(table->catalog),
            .schema = view(table->schema),
            .table = view(table->table),
            .at_version = table->at_version,
            .location = view(table->location),
            .engine = view(table->engine),
            .incarnation = view(table->incarnation),
            .version = table->version,
        };
    }
    out->purpose = purpose;
    out->sql = view(message->sql);
    out->pins = pins;
    out->pin_count = message->n_tables;
    out->schema_sha256 =
        (struct lake_bytes){message->schema_sha256.data, message->schema_sha256.len};
    return LAKE_OK;
}

lake_status query_ticket_open(const struct query_ticket_keys *keys, struct lake_bytes sealed,
                              enum query_ticket_purpose purpose,
                              const struct rpc_principal *principal, struct lake_str audience,
                              int64_t now_unix_ms, struct query_ticket *out, struct lake_error *err)
{
    struct query_ticket ticket = {0};
    if (sealed.size > 0 && sealed.data[0] != QUERY_TICKET_PROTOCOL)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the ticket has protocol version %u, this server speaks %d: ask for a "
                         "new one with GetFlightInfo",
                         sealed.data[0], QUERY_TICKET_PROTOCOL);
    if (sealed.size < HEAD_BYTES + NONCE_BYTES + TAG_BYTES || sealed.size > INT32_MAX)
        return refuse(err);
    size_t plain_bytes = sealed.size - HEAD_BYTES - NONCE_BYTES - TAG_BYTES;
    /* Unpacking makes one small record per pin beside the bytes themselves. */
    lake_status status = base_arena_new(plain_bytes * 64 + 65536, &ticket.memory, err);
    if (status != LAKE_OK)
        return status;
    uint8_t *plain = base_arena_alloc(ticket.memory, plain_bytes + 1);
    if (plain == NULL) {
        status = base_fail_no_memory(err, plain_bytes);
        goto out;
    }
    bool opened = false;
    for (size_t i = 0; i < keys->count && !opened; i++)
        opened = memcmp(keys->keys[i].name, sealed.data + 1, KEY_NAME_BYTES) == 0 &&
                 decrypt(&keys->keys[i], sealed, plain);
    status = opened ? unpack((struct lake_bytes){plain, plain_bytes}, purpose, principal, audience,
                             now_unix_ms, &ticket, err)
                    : refuse(err);
out:
    if (status != LAKE_OK) {
        query_ticket_fini(&ticket);
        return status;
    }
    *out = ticket;
    return LAKE_OK;
}

void query_ticket_fini(struct query_ticket *ticket)
{
    base_arena_free(ticket->memory);
    *ticket = (struct query_ticket){0};
}
