/* libs: lance */
/* One full-zip page of storage 2.1 or 2.2, read under every kind of column. */
#include "lance_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_read_pages(data, size, LANCE_FULL_ZIP, 3);
    return 0;
}
