/*
 * The footer of an Arrow file: its schema, and where its messages are. What lies before it may be
 * in any order, with anything in between: polars writes the schema without a frame, and
 * dictionaries behind the rows that need them.
 */
#include "arrow_internal.h"
#include "flatbuffer.h"

static lake_status add_blocks(FB(Block_vec_t) blocks, struct arrow_file_blocks *out,
                              struct lake_error *err)
{
    for (size_t i = 0; i < FB(Block_vec_len)(blocks); i++) {
        FB(Block_struct_t) block = FB(Block_vec_at)(blocks, i);
        int64_t offset = FB(Block_offset)(block);
        if (offset < 0) {
            return lake_fail(err, LAKE_INVALID_ARGUMENT,
                             "the footer of an Arrow file has a message at %lld",
                             (long long)offset);
        }
        out->offsets[out->count++] = (uint64_t)offset;
    }
    return LAKE_OK;
}

lake_status arrow_file_footer_decode(struct lake_bytes footer, const void **schema,
                                     struct arrow_file_blocks *out, struct lake_error *err)
{
    int code = FB(Footer_verify_as_root)(footer.data, footer.size);
    if (code != flatcc_verify_ok) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the footer of an Arrow file is not a valid flatbuffer: %s",
                         flatcc_verify_error_string(code));
    }
    FB(Footer_table_t) root = FB(Footer_as_root)(footer.data);
    FB(Block_vec_t) dictionaries = FB(Footer_dictionaries)(root);
    FB(Block_vec_t) batches = FB(Footer_recordBatches)(root);
    if (FB(Footer_schema)(root) == NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the footer of an Arrow file has no schema");
    }
    size_t count = FB(Block_vec_len)(dictionaries) + FB(Block_vec_len)(batches);
    struct arrow_file_blocks blocks = {0};
    blocks.offsets = base_alloc_array(count + 1, sizeof(*blocks.offsets));
    if (blocks.offsets == NULL) {
        return base_fail_no_memory(err, count * sizeof(*blocks.offsets));
    }
    lake_status status = add_blocks(dictionaries, &blocks, err);
    if (status == LAKE_OK) {
        status = add_blocks(batches, &blocks, err);
    }
    if (status != LAKE_OK) {
        base_free(blocks.offsets);
        return status;
    }
    *schema = FB(Footer_schema)(root);
    *out = blocks;
    return LAKE_OK;
}
