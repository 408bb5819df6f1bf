/* The growing byte buffer: doubles, up to the maximum given at its start. */
#include "base.h"

#include <stdio.h>
#include <string.h>

#define FIRST_CAPACITY 256

void base_buffer_init(struct base_buffer *buffer, size_t max_bytes)
{
    *buffer = (struct base_buffer){.max_bytes = max_bytes};
}

void base_buffer_fini(struct base_buffer *buffer)
{
    base_free(buffer->data);
    *buffer = (struct base_buffer){.max_bytes = buffer->max_bytes};
}

void base_buffer_clear(struct base_buffer *buffer)
{
    buffer->size = 0;
}

lake_status base_buffer_reserve(struct base_buffer *buffer, size_t more_bytes,
                                struct lake_error *err)
{
    size_t needed;
    if (!base_size_add(buffer->size, more_bytes, &needed) || needed > buffer->max_bytes)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "a buffer of %zu bytes cannot take %zu more: its limit is %zu bytes",
                         buffer->size, more_bytes, buffer->max_bytes);
    if (needed <= buffer->capacity)
        return LAKE_OK;
    size_t capacity = BASE_MAX(needed, (size_t)FIRST_CAPACITY);
    if (buffer->capacity <= SIZE_MAX / 2)
        capacity = BASE_MAX(capacity, buffer->capacity * 2);
    capacity = BASE_MIN(capacity, buffer->max_bytes);
    uint8_t *grown = base_realloc_array(buffer->data, capacity, 1);
    if (grown == NULL)
        return base_fail_no_memory(err, capacity);
    buffer->data = grown;
    buffer->capacity = capacity;
    return LAKE_OK;
}

lake_status base_buffer_append(struct base_buffer *buffer, const void *data, size_t size_bytes,
                               struct lake_error *err)
{
    if (size_bytes == 0)
        return LAKE_OK;
    lake_status status = base_buffer_reserve(buffer, size_bytes, err);
    if (status != LAKE_OK)
        return status;
    memcpy(buffer->data + buffer->size, data, size_bytes);
    buffer->size += size_bytes;
    return LAKE_OK;
}

lake_status base_buffer_append_zeros(struct base_buffer *buffer, size_t count,
                                     struct lake_error *err)
{
    if (count == 0)
        return LAKE_OK;
    lake_status status = base_buffer_reserve(buffer, count, err);
    if (status != LAKE_OK)
        return status;
    memset(buffer->data + buffer->size, 0, count);
    buffer->size += count;
    return LAKE_OK;
}

lake_status base_buffer_printf(struct base_buffer *buffer, struct lake_error *err,
                               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return lake_fail(err, LAKE_INTERNAL, "a text could not be formatted as %s", format);
    /* vsnprintf wants room for the NUL, which is not part of the buffer's content: small texts go
     * through a scratch copy so that a buffer can be filled to its very limit. */
    char scratch[512];
    char *text = scratch;
    if ((size_t)length >= sizeof(scratch)) {
        text = base_alloc((size_t)length + 1);
        if (text == NULL)
            return base_fail_no_memory(err, (size_t)length + 1);
    }
    va_start(args, format);
    (void)vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    lake_status status = base_buffer_append(buffer, text, (size_t)length, err);
    if (text != scratch)
        base_free(text);
    return status;
}

lake_status base_buffer_append_varint(struct base_buffer *buffer, uint64_t value,
                                      struct lake_error *err)
{
    uint8_t bytes[10];
    size_t size = 0;
    while (value >= 0x80) {
        bytes[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[size++] = (uint8_t)value;
    return base_buffer_append(buffer, bytes, size, err);
}

uint8_t *base_buffer_take(struct base_buffer *buffer, size_t *size_bytes)
{
    uint8_t *data = buffer->data;
    *size_bytes = buffer->size;
    *buffer = (struct base_buffer){.max_bytes = buffer->max_bytes};
    return data;
}

struct lake_bytes base_buffer_view(const struct base_buffer *buffer)
{
    return (struct lake_bytes){buffer->data, buffer->size};
}
