/* libs: lance base */
#define _GNU_SOURCE /* memmem */
/* A document in binary form: its text is JSON, or it is refused. A document as text: what is stored
 * of it reads as text that is stored the same, or it is refused. */
#include "jsonb.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS (JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)

static void fail(const char *what, const struct base_buffer *text)
{
    (void)fprintf(stderr, "%s: %.*s\n", what, (int)text->size, (const char *)text->data);
    abort();
}

static void check_binary(struct lake_bytes document, struct base_buffer *text)
{
    json_error_t error;
    base_buffer_clear(text);
    if (lance_jsonb_to_text(document, text, NULL) != LAKE_OK)
        return;
    json_t *json = json_loadb((const char *)text->data, text->size, FLAGS, &error);
    /* jansson knows no NUL in a key. */
    if (json == NULL && json_error_code(&error) != json_error_numeric_overflow &&
        json_error_code(&error) != json_error_null_byte_in_key)
        fail(error.text, text);
    json_decref(json);
}

static void check_text(struct lance_jsonb_encoder *encoder, struct lake_str written,
                       struct base_buffer *text)
{
    struct lake_bytes stored;
    struct base_buffer first;
    base_buffer_init(&first, (size_t)64 << 20);
    base_buffer_clear(text);
    if (lance_jsonb_of_text(encoder, written, &stored, NULL) == LAKE_OK &&
        base_buffer_append(&first, stored.data, stored.size, NULL) == LAKE_OK) {
        check_binary(base_buffer_view(&first), text);
        if (text->size == 0)
            fail("does not read", &first);
        if (lance_jsonb_of_text(encoder, (struct lake_str){(const char *)text->data, text->size},
                                &stored, NULL) != LAKE_OK)
            fail("does not read back", text);
        /* What is no number of JSON's reads as null. */
        bool words = memmem(written.data, written.size, "NaN", 3) != NULL ||
                     memmem(written.data, written.size, "Infinity", 8) != NULL;
        if (!words &&
            (stored.size != first.size || memcmp(stored.data, first.data, first.size) != 0))
            fail("is stored in another way", text);
    }
    base_buffer_fini(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lance_jsonb_encoder encoder;
    struct base_buffer text;
    lance_jsonb_encoder_init(&encoder);
    base_buffer_init(&text, (size_t)64 << 20);
    check_binary((struct lake_bytes){data, size}, &text);
    check_text(&encoder, (struct lake_str){(const char *)data, size}, &text);
    base_buffer_fini(&text);
    lance_jsonb_encoder_fini(&encoder);
    return 0;
}
