/* libs: lance */
/* A page of storage 2.0, or a list's and its items', read under every kind of column. */
#include "lance_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_read_pages(data, size, 0, 0);
    return 0;
}
