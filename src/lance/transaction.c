/*
 * Transactions: what made a version. Read for their operation (conflict.c), their identifier (is
 * this version ours?) and their properties.
 */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_TRANSACTION_BYTES ((size_t)256 << 20)

lake_status lance_transaction_parse(struct lake_bytes bytes, struct base_arena *arena,
                                    LancePb__Transaction **out, struct lake_error *err)
{
    ProtobufCAllocator allocator = lance_pb_allocator(arena);
    LancePb__Transaction *transaction =
        lance_pb__transaction__unpack(&allocator, bytes.size, bytes.data);
    if (transaction == NULL && base_arena_out_of_memory(arena)) {
        return base_fail_no_memory(err, bytes.size);
    }
    if (transaction == NULL) {
        return lake_fail(err, LAKE_DATA_LOSS, "a Lance transaction of %zu bytes cannot be decoded",
                         bytes.size);
    }
    *out = transaction;
    return LAKE_OK;
}

lake_status lance_transaction_read(struct storage_store *store,
                                   const struct lance_manifest *manifest, struct base_arena *arena,
                                   LancePb__Transaction **out, struct lake_error *err)
{
    if (manifest->transaction.data != NULL) {
        return lance_transaction_parse(manifest->transaction, arena, out, err);
    }
    struct lake_str name = lance_pb_str(manifest->pb->transaction_file);
    char key[STORAGE_MAX_KEY_BYTES + 1];
    int length = snprintf(key, sizeof(key), "_transactions/%.*s", LAKE_STR_FMT(name));
    if (name.size == 0 || length < 0 || (size_t)length >= sizeof(key)) {
        return lake_fail(err, LAKE_NOT_FOUND, "version %" PRIu64 " has no transaction",
                         manifest->pb->version);
    }
    struct base_buffer bytes;
    base_buffer_init(&bytes, MAX_TRANSACTION_BYTES);
    lake_status status = storage_read_all(store, base_str_of(key), &bytes, err);
    if (status == LAKE_OK) {
        status = lance_transaction_parse(base_buffer_view(&bytes), arena, out, err);
    }
    base_buffer_fini(&bytes);
    return status;
}

uint32_t lance_transaction_operation(const LancePb__Transaction *transaction)
{
    const struct {
        const void *message;
        uint32_t operation;
    } known[] = {{transaction->append, LANCE_OP_APPEND},
                 {transaction->delete_rows, LANCE_OP_DELETE},
                 {transaction->overwrite, LANCE_OP_OVERWRITE},
                 {transaction->create_index, LANCE_OP_CREATE_INDEX},
                 {transaction->rewrite, LANCE_OP_REWRITE},
                 {transaction->merge, LANCE_OP_MERGE},
                 {transaction->restore, LANCE_OP_RESTORE},
                 {transaction->update, LANCE_OP_UPDATE},
                 {transaction->project, LANCE_OP_PROJECT},
                 {transaction->update_config, LANCE_OP_UPDATE_CONFIG},
                 {transaction->data_replacement, LANCE_OP_DATA_REPLACEMENT},
                 {transaction->clone, LANCE_OP_CLONE}};
    for (size_t i = 0; i < BASE_ARRAY_LEN(known); i++) {
        if (known[i].message != NULL) {
            return known[i].operation;
        }
    }
    for (unsigned i = 0; i < transaction->base.n_unknown_fields; i++) {
        uint32_t field = transaction->base.unknown_fields[i].tag;
        if (field >= 100 && field < 200) {
            return field;
        }
    }
    return LANCE_OP_NONE;
}

lake_status lance_transaction_encode(const LancePb__Transaction *transaction,
                                     struct base_buffer *out, struct lake_error *err)
{
    size_t size = lance_pb__transaction__get_packed_size(transaction);
    lake_status status = base_buffer_reserve(out, size + 1, err);
    if (status == LAKE_OK) {
        out->size += lance_pb__transaction__pack(transaction, out->data + out->size);
    }
    return status;
}
