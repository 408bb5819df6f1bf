#include "v20_page.h"

#include <string.h>

#define MAX_PAGE_ARENA ((size_t)1 << 30)
/* What a compressed byte can become at most; checked exactly when it is decompressed. */
#define MAX_EXPANSION 65536

void lance_v20_column_init(struct lance_v20_column *column, struct lance_column_source source,
                           struct lance_read_counters *counters)
{
    *column = (struct lance_v20_column){.file = source.file,
                                        .column = &source.file->columns[source.column],
                                        .column_index = (uint32_t)source.column,
                                        .counters = counters,
                                        .page_index = SIZE_MAX};
    lance_codec_context_init(&column->codec);
    for (size_t i = 0; i < LANCE_MAX_PAGE_BUFFERS; i++)
        base_buffer_init(&column->plain[i], LANCE_MAX_DECODED_BYTES);
    base_buffer_init(&column->scratch, LANCE_MAX_DECODED_BYTES);
}

void lance_v20_column_fini(struct lance_v20_column *column)
{
    lance_codec_context_fini(&column->codec);
    for (size_t i = 0; i < LANCE_MAX_PAGE_BUFFERS; i++)
        base_buffer_fini(&column->plain[i]);
    base_buffer_fini(&column->scratch);
    base_arena_free(column->arena);
    column->arena = NULL;
}

static const struct lance_file_page *page_of(const struct lance_v20_column *column)
{
    return &column->column->pages[column->page_index];
}

static void close_page(struct lance_v20_column *column)
{
    column->page_index = SIZE_MAX;
    base_arena_free(column->arena);
    column->arena = NULL;
    column->encoding = NULL;
    for (size_t i = 0; i < LANCE_MAX_PAGE_BUFFERS; i++) {
        column->is_plain[i] = false;
        base_buffer_clear(&column->plain[i]);
    }
}

lake_status lance_v20_column_open_page(struct lance_v20_column *column, size_t index, bool *changed,
                                       struct lake_error *err)
{
    *changed = column->page_index != index;
    if (!*changed)
        return LAKE_OK;
    close_page(column);
    lake_status status = base_arena_new(MAX_PAGE_ARENA, &column->arena, err);
    if (status != LAKE_OK)
        return status;
    column->page_index = index;
    status =
        lance_v20_encoding_parse(page_of(column)->layout, column->arena, &column->encoding, err);
    if (status == LAKE_OK &&
        lance_v20_capacity(column, column->encoding) < page_of(column)->row_count)
        status =
            lake_fail(err, LAKE_DATA_LOSS, "the page claims %llu values, its buffers hold %llu",
                      (unsigned long long)page_of(column)->row_count,
                      (unsigned long long)lance_v20_capacity(column, column->encoding));
    if (status != LAKE_OK)
        close_page(column);
    else if (column->counters != NULL)
        __atomic_fetch_add(&column->counters->pages_read, 1, __ATOMIC_RELAXED);
    return status;
}

/* ---- sizes ---- */

static uint64_t buffer_size(const struct lance_v20_column *column, uint32_t buffer)
{
    const struct lance_file_page *page = page_of(column);
    return buffer < page->buffer_count ? page->sizes[buffer] : 0;
}

uint64_t lance_v20_capacity(const struct lance_v20_column *column,
                            const struct lance_v20_encoding *encoding)
{
    uint64_t size = buffer_size(column, encoding->buffer);
    switch (encoding->kind) {
    case LANCE_V20_FLAT:
        if (encoding->scheme != 0)
            return size > UINT64_MAX / MAX_EXPANSION / 8
                       ? UINT64_MAX
                       : size * MAX_EXPANSION * 8 / encoding->bits;
        return encoding->bits == 1 ? size * 8 : size / (encoding->bits / 8);
    case LANCE_V20_BITPACKED:
        return size * 8 / encoding->bits;
    case LANCE_V20_BITPACKED_NON_NEGATIVE:
        return size / (128 * encoding->bits) * LANCE_BLOCK_VALUES;
    case LANCE_V20_NULLABLE:
        return encoding->nulls == LANCE_V20_ALL_NULLS
                   ? UINT64_MAX
                   : lance_v20_capacity(column, encoding->values);
    case LANCE_V20_FIXED_SIZE_LIST:
    case LANCE_V20_FIXED_SIZE_BINARY:
        return lance_v20_capacity(column, encoding->values) / encoding->count;
    case LANCE_V20_LIST:
    case LANCE_V20_BINARY:
    case LANCE_V20_DICTIONARY:
    case LANCE_V20_FSST:
        return lance_v20_capacity(column, encoding->values);
    case LANCE_V20_PACKED_STRUCT: /* the type says how wide a row is */
        return size;
    case LANCE_V20_STRUCT:
        return UINT64_MAX;
    }
    return 0;
}

/* ---- bytes ---- */

static lake_status too_few(uint64_t first, uint64_t count, uint64_t bits, uint64_t size,
                           struct lake_error *err)
{
    return lake_fail(err, LAKE_DATA_LOSS,
                     "values %llu and the next %llu of %llu bits lie outside a buffer of %llu "
                     "bytes",
                     (unsigned long long)first, (unsigned long long)count, (unsigned long long)bits,
                     (unsigned long long)size);
}

static lake_status read_at(struct lance_v20_column *column, uint32_t buffer, uint64_t offset,
                           uint64_t size, uint8_t *out, struct lake_error *err)
{
    if (size == 0)
        return LAKE_OK;
    if (column->counters != NULL)
        __atomic_fetch_add(&column->counters->bytes_read, size, __ATOMIC_RELAXED);
    return lance_file_read_range(column->file, page_of(column)->offsets[buffer] + offset,
                                 (size_t)size, out, err);
}

/* A compressed buffer as a whole, opened once a page. */
static lake_status open_plain(struct lance_v20_column *column, uint32_t buffer, uint32_t scheme,
                              struct lake_bytes *out, struct lake_error *err)
{
    uint64_t size = buffer_size(column, buffer);
    lake_status status = LAKE_OK;
    if (!column->is_plain[buffer] && size > 0) {
        base_buffer_clear(&column->scratch);
        status = base_buffer_reserve(&column->scratch, (size_t)size, err);
        if (status == LAKE_OK)
            status = read_at(column, buffer, 0, size, column->scratch.data, err);
        if (status == LAKE_OK)
            status = lance_decompress(&column->codec, scheme,
                                      (struct lake_bytes){column->scratch.data, (size_t)size},
                                      LANCE_MAX_DECODED_BYTES - 16, &column->plain[buffer], err);
        if (status != LAKE_OK)
            return status;
    }
    column->is_plain[buffer] = true;
    *out = base_buffer_view(&column->plain[buffer]);
    return LAKE_OK;
}

static lake_status read_range(struct lance_v20_column *column,
                              const struct lance_v20_encoding *encoding, uint64_t offset,
                              uint64_t size, uint8_t *out, struct lake_error *err)
{
    uint64_t all = buffer_size(column, encoding->buffer);
    struct lake_bytes plain;
    if (encoding->scheme == 0) {
        if (offset > all || size > all - offset)
            return too_few(offset, size, 8, all, err);
        return read_at(column, encoding->buffer, offset, size, out, err);
    }
    if (encoding->buffer >= page_of(column)->buffer_count)
        return too_few(offset, size, 8, 0, err);
    lake_status status = open_plain(column, encoding->buffer, encoding->scheme, &plain, err);
    if (status != LAKE_OK)
        return status;
    if (offset > plain.size || size > plain.size - offset)
        return too_few(offset, size, 8, plain.size, err);
    if (size > 0)
        memcpy(out, plain.data + offset, (size_t)size);
    return LAKE_OK;
}

/* The bytes that hold bits [first, first + count) into the scratch buffer. */
static lake_status read_bits(struct lance_v20_column *column,
                             const struct lance_v20_encoding *encoding, uint64_t first,
                             uint64_t count, struct lake_error *err)
{
    uint64_t start = first / 8, size = (first + count + 7) / 8 - start;
    struct base_buffer bytes;
    base_buffer_init(&bytes, LANCE_MAX_DECODED_BYTES);
    lake_status status = base_buffer_reserve(&bytes, (size_t)size + 8, err);
    if (status == LAKE_OK)
        status = read_range(column, encoding, start, size, bytes.data, err);
    if (status == LAKE_OK) {
        base_buffer_fini(&column->scratch);
        column->scratch = bytes;
        return LAKE_OK;
    }
    base_buffer_fini(&bytes);
    return status;
}

/* ---- values ---- */

static lake_status read_flat(struct lance_v20_column *column,
                             const struct lance_v20_encoding *encoding, uint64_t first,
                             uint64_t count, uint8_t *out, struct lake_error *err)
{
    uint64_t bytes = encoding->bits / 8, offset, size;
    if (encoding->bits == 1) {
        lake_status status = read_bits(column, encoding, first, count, err);
        if (status == LAKE_OK)
            lance_bits_copy(out, 0, column->scratch.data, first % 8, count);
        return status;
    }
    if (!base_u64_mul(first, bytes, &offset) || !base_u64_mul(count, bytes, &size))
        return too_few(first, count, encoding->bits, 0, err);
    return read_range(column, encoding, offset, size, out, err);
}

/* Values of `bits` bits in one stream, lowest bit first. */
static lake_status read_bitpacked(struct lance_v20_column *column,
                                  const struct lance_v20_encoding *encoding, uint64_t first,
                                  uint64_t count, uint8_t *out, struct lake_error *err)
{
    uint64_t bits = encoding->bits, width = encoding->value_bits / 8;
    uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    uint64_t at = first * bits % 8;
    lake_status status = read_bits(column, encoding, first * bits, count * bits, err);
    for (uint64_t i = 0; status == LAKE_OK && i < count; i++, at += bits) {
        const uint8_t *from = column->scratch.data + at / 8;
        uint64_t shift = at % 8, value = base_load_u64le(from) >> shift;
        if (shift + bits > 64) /* the ninth byte, within the slack at the end */
            value |= (uint64_t)from[8] << (64 - shift);
        value &= mask;
        if (encoding->is_signed && (value >> (bits - 1) & 1) != 0)
            value |= ~mask;
        memcpy(out + i * width, &value, (size_t)width); /* little endian */
    }
    return status;
}

static lake_status read_blocks(struct lance_v20_column *column,
                               const struct lance_v20_encoding *encoding, uint64_t first,
                               uint64_t count, uint8_t *out, struct lake_error *err)
{
    uint8_t packed[128 * 64], values[LANCE_BLOCK_VALUES * 8];
    uint64_t width = encoding->value_bits / 8, block_bytes = 128 * encoding->bits;
    lake_status status = LAKE_OK;
    while (status == LAKE_OK && count > 0) {
        uint64_t skip = first % LANCE_BLOCK_VALUES;
        uint64_t take = BASE_MIN(count, LANCE_BLOCK_VALUES - skip);
        status = read_range(column, encoding, first / LANCE_BLOCK_VALUES * block_bytes, block_bytes,
                            packed, err);
        if (status != LAKE_OK)
            break;
        lance_bits_unpack((uint32_t)encoding->value_bits, (uint32_t)encoding->bits, packed, values);
        memcpy(out, values + skip * width, (size_t)(take * width));
        out += take * width;
        first += take;
        count -= take;
    }
    return status;
}

lake_status lance_v20_read_fixed(struct lance_v20_column *column,
                                 const struct lance_v20_encoding *encoding, uint64_t first,
                                 uint64_t count, uint64_t bits, uint8_t *out,
                                 struct lake_error *err)
{
    uint64_t end, capacity = lance_v20_capacity(column, encoding);
    while (encoding->kind == LANCE_V20_NULLABLE && encoding->nulls == LANCE_V20_NO_NULLS)
        encoding = encoding->values;
    bool packed =
        encoding->kind == LANCE_V20_BITPACKED || encoding->kind == LANCE_V20_BITPACKED_NON_NEGATIVE;
    if (!packed && encoding->kind != LANCE_V20_FLAT)
        return lake_fail(err, LAKE_UNIMPLEMENTED, "encoding %d of fixed-width values",
                         (int)encoding->kind);
    if ((packed ? encoding->value_bits : encoding->bits) != bits)
        return lake_fail(err, LAKE_DATA_LOSS, "values have %llu bits where the type has %llu",
                         (unsigned long long)(packed ? encoding->value_bits : encoding->bits),
                         (unsigned long long)bits);
    if (!base_u64_add(first, count, &end) || end > capacity)
        return too_few(first, count, bits, buffer_size(column, encoding->buffer), err);
    if (count == 0)
        return LAKE_OK;
    if (encoding->kind == LANCE_V20_BITPACKED)
        return read_bitpacked(column, encoding, first, count, out, err);
    return packed ? read_blocks(column, encoding, first, count, out, err)
                  : read_flat(column, encoding, first, count, out, err);
}

/* ---- leaves ---- */

lake_status lance_v20_leaf_init(struct lance_v20_leaf *leaf, struct lance_column_source source,
                                const struct ArrowSchema *type,
                                struct lance_read_counters *counters, struct lake_error *err)
{
    struct lance_leaf_type found, dictionary = {.items = 1};
    lake_status status = lance_leaf_type_of(type, &found, err);
    if (status == LAKE_OK && found.kind == LANCE_LEAF_DICTIONARY)
        status = lance_leaf_type_of(found.dictionary, &dictionary, err);
    if (status != LAKE_OK)
        return status;
    *leaf = (struct lance_v20_leaf){.type = found, .dictionary_type = dictionary};
    lance_v20_column_init(&leaf->column, source, counters);
    const struct lance_leaf_type *items =
        found.kind == LANCE_LEAF_DICTIONARY ? &leaf->dictionary_type : &leaf->type;
    lance_leaf_values_init(&leaf->values, &leaf->type);
    lance_leaf_values_init(&leaf->dictionary, items);
    lance_leaf_values_init(&leaf->page_items, items);
    lance_bits_init(&leaf->valid);
    lance_bits_init(&leaf->page_items_valid);
    status = lance_leaf_values_init_members(&leaf->values, err);
    if (status != LAKE_OK)
        lance_v20_leaf_fini(leaf);
    return status;
}

void lance_v20_leaf_fini(struct lance_v20_leaf *leaf)
{
    lance_v20_column_fini(&leaf->column);
    lance_leaf_values_fini(&leaf->values);
    lance_leaf_values_fini(&leaf->dictionary);
    lance_leaf_values_fini(&leaf->page_items);
    lance_bits_fini(&leaf->valid);
    lance_bits_fini(&leaf->page_items_valid);
}

lake_status lance_v20_leaf_read(struct lance_v20_leaf *leaf, uint64_t start, uint64_t count,
                                struct lake_error *err)
{
    struct lance_v20_column *column = &leaf->column;
    uint64_t end, done = 0;
    lake_status status = LAKE_OK;
    lance_leaf_values_clear(&leaf->values);
    lance_leaf_values_clear(&leaf->dictionary);
    lance_bits_clear(&leaf->valid);
    if (!base_u64_add(start, count, &end) || end > column->column->row_count)
        return lake_fail(err, LAKE_DATA_LOSS,
                         "rows %llu and the next %llu of column %u, which has %llu",
                         (unsigned long long)start, (unsigned long long)count, column->column_index,
                         (unsigned long long)column->column->row_count);
    while (status == LAKE_OK && start < end) {
        size_t index = lance_find_page(column->column, start);
        const struct lance_file_page *page = &column->column->pages[index];
        uint64_t row = start - page->first_row, take = BASE_MIN(end - start, page->row_count - row);
        bool changed;
        status = lance_v20_column_open_page(column, index, &changed, err);
        if (status == LAKE_OK && changed) {
            leaf->page_has_items = false;
            lance_leaf_values_clear(&leaf->page_items);
            lance_bits_clear(&leaf->page_items_valid);
        }
        if (status == LAKE_OK)
            status = lance_v20_append_rows(leaf, row, take, err);
        done += take;
        if (status == LAKE_OK && (leaf->values.count != done || leaf->valid.count != done))
            status = lake_fail(err, LAKE_INTERNAL, "a page gave another number of values");
        if (status != LAKE_OK)
            return lake_fail_wrap(err, status, "page %zu of column %u of data file %.*s", index,
                                  column->column_index, LAKE_STR_FMT(column->file->key));
        start += take;
    }
    return status;
}
