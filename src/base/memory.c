/* Allocation with a fault counter in front, and sizes that cannot wrap. */
#include "base.h"
#include "base_internal.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 * 1024 * 1024)

void *base_alloc(size_t size_bytes)
{
    if (base_fault_alloc_fails())
        return NULL;
    return malloc(size_bytes == 0 ? 1 : size_bytes);
}

/* Touching a block for the first time costs a fault a page: 512 times less with pages of 2 MiB. */
void *base_alloc_large(size_t size_bytes)
{
    if (size_bytes < HUGE_PAGE_BYTES)
        return base_alloc(size_bytes);
    if (size_bytes > SIZE_MAX - HUGE_PAGE_BYTES || base_fault_alloc_fails())
        return NULL;
    void *memory = aligned_alloc(HUGE_PAGE_BYTES, BASE_ALIGN_UP(size_bytes, HUGE_PAGE_BYTES));
    if (memory != NULL) /* whole ones only: the last bytes must not take 2 MiB; advice may fail */
        (void)madvise(memory, size_bytes - size_bytes % HUGE_PAGE_BYTES, MADV_HUGEPAGE);
    return memory;
}

void *base_alloc_array(size_t count, size_t item_bytes)
{
    size_t size_bytes;
    if (!base_size_mul(count, item_bytes, &size_bytes))
        return NULL;
    return base_alloc(size_bytes);
}

void *base_calloc_array(size_t count, size_t item_bytes)
{
    size_t size_bytes;
    if (!base_size_mul(count, item_bytes, &size_bytes) || base_fault_alloc_fails())
        return NULL;
    return calloc(1, size_bytes == 0 ? 1 : size_bytes);
}

void *base_realloc_array(void *old, size_t count, size_t item_bytes)
{
    size_t size_bytes;
    if (!base_size_mul(count, item_bytes, &size_bytes) || base_fault_alloc_fails())
        return NULL;
    return realloc(old, size_bytes == 0 ? 1 : size_bytes);
}

void base_free(void *memory)
{
    free(memory);
}

char *base_strndup(const char *data, size_t size)
{
    size_t size_bytes;
    if (!base_size_add(size, 1, &size_bytes))
        return NULL;
    char *copy = base_alloc(size_bytes);
    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

char *base_strdup(const char *c_string)
{
    return base_strndup(c_string, strlen(c_string));
}

char *base_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return NULL;
    char *text = base_alloc((size_t)length + 1);
    if (text == NULL)
        return NULL;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

bool base_size_add(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

bool base_size_mul(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool base_u64_add(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

bool base_u64_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

void base_memory_tune(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 4 * 1024 * 1024); /* above: the system's, at once */
    (void)mallopt(M_TRIM_THRESHOLD, 16 * 1024 * 1024);
#endif
}
