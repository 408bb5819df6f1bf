/* libs: lance */
/* Statistics of a column: any bytes are refused, or answer every question about every zone. The
 * first two bytes say how many rows the column has. */
#include "zones.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lance_zones *zones = NULL;
    if (size < 2)
        return 0;
    struct lake_bytes bytes = {data + 2, size - 2};
    uint64_t rows = base_load_u16le(data), seen = 0;
    if (lance_zones_parse(bytes, rows, &zones, NULL) != LAKE_OK)
        return 0;
    for (size_t i = 0; i < zones->count; i++) {
        seen += zones->zones[i].row_count;
        (void)lance_zones_may_have(zones, i, lance_zone_hash(zones->zones[i].low));
        (void)lance_zones_may_have(zones, i, lance_zone_hash_bytes(bytes));
    }
    if (seen != rows)
        abort();
    lance_zones_free(zones);
    return 0;
}
