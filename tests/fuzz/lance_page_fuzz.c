/* libs: lance */
/* One page of storage 2.1 or 2.2 in any layout, read under every kind of column. */
#include "lance_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_read_pages(data, size, 0, 3);
    return 0;
}
