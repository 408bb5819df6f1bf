#include <lake/lake.h>

const char *lake_version(void)
{
    return LAKE_VERSION;
}
