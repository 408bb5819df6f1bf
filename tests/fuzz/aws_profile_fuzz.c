/* libs: storage base */
/* ~/.aws/config and ~/.aws/credentials, and the two ways to write a time. */
#include "credentials.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lake_str text = {(const char *)data, size};
    struct profile profile = {.count = 0};
    struct lake_error err = {.code = LAKE_OK};
    int64_t ms = 0;
    lake_status status = profile_parse(&profile, text, "file", "default", false, &err);
    if (status == LAKE_OK)
        status = profile_parse(&profile, text, "file", "lab", true, &err);
    if (status != LAKE_OK && status != LAKE_INVALID_ARGUMENT)
        abort();
    if (profile.count > PROFILE_MAX_VALUES)
        abort();
    for (size_t i = 0; i < profile.count; i++) {
        if (profile_get(&profile, profile.values[i].name) != profile.values[i].value)
            abort(); /* each name once */
    }
    profile_fini(&profile);
    (void)time_parse_iso(text, &ms);
    (void)time_parse_http(text, &ms);
    return 0;
}
