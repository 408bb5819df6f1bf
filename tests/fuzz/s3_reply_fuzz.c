/* libs: storage base */
/*
 * What an S3 service answers: the XML reader alone, and the parsers of errors, listings and parts
 * on top of it. The first byte picks the parser.
 */
#include "s3.h"

#include "s3_xml.h"

#include <stdlib.h>
#include <string.h>

static void walk(struct lake_bytes document)
{
    struct xml_reader reader;
    enum xml_event event;
    size_t depth = 0;
    xml_reader_init(&reader, document);
    while ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE) {
        depth += event == XML_OPEN ? 1 : (size_t)-1;
        if (depth != reader.depth || depth > XML_MAX_DEPTH || reader.name.size == 0 ||
            xml_text(&reader).size > XML_MAX_TEXT_BYTES)
            abort();
    }
    if (event == XML_END && depth != 0)
        abort();
    xml_reader_fini(&reader);
}

static void judge(struct lake_bytes document, int status)
{
    struct s3_store store = {.bucket = (char *)"bucket", .host = (char *)"host"};
    struct credentials credentials = {.expires_unix_ms = INT64_MAX};
    struct s3_call call;
    struct lake_error err = {.code = LAKE_OK};
    (void)pthread_mutex_init(&store.lock, NULL);
    s3_call_init(&call, &store, "reading", "GET", LAKE_STR("key"));
    call.credentials = &credentials;
    call.reset_clock = true;
    call.refreshed = true;
    call.reply.status = status;
    base_buffer_init(&call.reply.headers, HTTP_MAX_HEADER_BYTES);
    base_buffer_init(&call.reply.body, HTTP_MAX_REPLY_BYTES);
    if (base_buffer_append(&call.reply.body, document.data, document.size, NULL) == LAKE_OK) {
        enum s3_verdict verdict = s3_judge(&call, HTTP_COMPLETE, &err);
        if (verdict == S3_DONE ? status != 200 : !base_utf8_valid(base_str_of(err.message)))
            abort();
    }
    call.credentials = NULL;
    s3_call_fini(&call);
    (void)pthread_mutex_destroy(&store.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct lake_bytes document = {data + 1, size - 1};
    switch (data[0] % 5) {
    case 0:
        walk(document);
        break;
    case 1:
        judge(document, 200);
        judge(document, 400);
        judge(document, 503);
        break;
    case 2:
        s3_list_fuzz(document);
        break;
    case 3:
        s3_multipart_fuzz(document);
        break;
    default: {
        struct credentials *credentials = NULL;
        if (credentials_parse_sts(document, &credentials, NULL) == LAKE_OK)
            credentials_destroy(credentials);
        if (credentials_parse_json(document, &credentials, NULL) == LAKE_OK)
            credentials_destroy(credentials);
    }
    }
    return 0;
}
