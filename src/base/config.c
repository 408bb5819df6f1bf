/* Settings from the environment. */
#include "base.h"

#include <inttypes.h>
#include <stdlib.h>

const char *base_config_string(const char *variable, const char *fallback)
{
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? fallback : value;
}

lake_status base_config_u64(const char *variable, uint64_t fallback, uint64_t min, uint64_t max,
                            uint64_t *out, struct lake_error *err)
{
    const char *text = base_config_string(variable, NULL);
    if (text == NULL) {
        *out = fallback;
        return LAKE_OK;
    }
    uint64_t value;
    if (!base_str_to_u64(base_str_of(text), &value) || value < min || value > max)
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s must be a whole number from %" PRIu64 " to %" PRIu64
                         ", and is \"%.100s\"",
                         variable, min, max, text);
    *out = value;
    return LAKE_OK;
}

lake_status base_config_bool(const char *variable, bool fallback, bool *out, struct lake_error *err)
{
    const char *text = base_config_string(variable, NULL);
    struct lake_str value = base_str_of(text);
    if (text == NULL)
        *out = fallback;
    else if (base_str_equal_c(value, "true") || base_str_equal_c(value, "1"))
        *out = true;
    else if (base_str_equal_c(value, "false") || base_str_equal_c(value, "0"))
        *out = false;
    else
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "%s must be true, false, 1 or 0, and is \"%.100s\"", variable, text);
    return LAKE_OK;
}
