/* libs: lance base */
/* A document in binary form: its text is JSON, or it is refused. */
#include "jsonb.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base_buffer text;
    base_buffer_init(&text, (size_t)64 << 20);
    if (lance_jsonb_to_text((struct lake_bytes){data, size}, &text, NULL) == LAKE_OK) {
        json_error_t error;
        json_t *json =
            json_loadb((const char *)text.data, text.size,
                       JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
        /* jansson knows no NUL in a key. */
        if (json == NULL && json_error_code(&error) != json_error_numeric_overflow &&
            json_error_code(&error) != json_error_null_byte_in_key) {
            (void)fprintf(stderr, "%s: %.*s\n", error.text, (int)text.size,
                          (const char *)text.data);
            abort();
        }
        json_decref(json);
    }
    base_buffer_fini(&text);
    return 0;
}
