/*
 * Multipart uploads: parts side by side, each with its CRC-32C, completed under a condition.
 *
 * Who has completed an upload is known afterwards by a name of ours in the object's metadata, or,
 * for an upload that another process began, by the ETag that its parts make.
 */
#define _GNU_SOURCE /* memmem */
#include "s3.h"

#include "s3_xml.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COMPLETE_BYTES ((size_t)4 * 1024 * 1024)
#define LIST_PAGE          "1000"
#define MAX_LIST_PAGES     100000

struct part_call {
    struct s3_call call;
    struct storage_part part;
    char number[12];
};

struct upload {
    struct s3_store *store;
    char *key;
    char id[STORAGE_UPLOAD_ID_BYTES];
    char write_id[BASE_UUID_TEXT_BYTES]; /* empty: another process's */
    bool only_if_absent;
    /* A ring, in the order of their starts. */
    struct part_call *in_flight[STORAGE_MULTIPART_MAX_IN_FLIGHT];
    size_t first, count;
};

static struct lake_str key_of(const struct upload *upload)
{
    return base_str_of(upload->key);
}

/* The text of the first element `name`, directly below the root `root`. */
struct field_search {
    const char *root;
    const char *name;
    char *out;
    size_t capacity;
    bool found;
};

/* False when the document is not whole or has another root. */
static bool find_field(struct lake_bytes document, struct field_search *search)
{
    struct xml_reader reader;
    enum xml_event event;
    bool right_root = false;
    xml_reader_init(&reader, document);
    while ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE) {
        if (event == XML_OPEN && reader.depth == 1)
            right_root = base_str_equal_c(reader.name, search->root);
        if (event == XML_OPEN || reader.depth != 1 || search->found || search->name == NULL ||
            !base_str_equal_c(reader.name, search->name))
            continue;
        struct lake_str text = xml_text(&reader);
        if (text.size > 0 && text.size < search->capacity) {
            memcpy(search->out, text.data, text.size);
            search->out[text.size] = '\0';
            search->found = true;
        }
    }
    xml_reader_fini(&reader);
    return event == XML_END && right_root;
}

/* ---- beginning ---- */

static enum s3_verdict check_created(void *context, struct s3_call *call, struct lake_error *err)
{
    struct upload *upload = context;
    struct field_search search = {"InitiateMultipartUploadResult", "UploadId", upload->id,
                                  sizeof(upload->id), false};
    if (find_field(base_buffer_view(&call->reply.body), &search) && search.found)
        return S3_DONE;
    (void)lake_fail(err, LAKE_UNAVAILABLE, "the answer to beginning an upload of %s is not usable",
                    upload->key);
    return S3_TRY_AGAIN; /* an upload that nobody knows of is left to the bucket's lifecycle */
}

static lake_status create_upload(struct upload *upload, const char *media_type,
                                 struct lake_error *err)
{
    struct base_uuid uuid;
    struct s3_call call;
    lake_status status = base_uuid4_new(&uuid, err);
    if (status != LAKE_OK)
        return status;
    base_uuid_format(&uuid, upload->write_id);
    s3_call_init(&call, upload->store, "beginning an upload of", "POST", key_of(upload));
    s3_call_query(&call, LAKE_STR("uploads"), LAKE_STR(""));
    s3_call_header(&call, LAKE_STR(S3_WRITE_ID_HEADER), base_str_of(upload->write_id));
    if (media_type != NULL)
        s3_call_header(&call, LAKE_STR("content-type"), base_str_of(media_type));
    if (!upload->store->options.no_checksums)
        s3_call_header(&call, LAKE_STR("x-amz-checksum-algorithm"), LAKE_STR("CRC32C"));
    call.check = check_created;
    call.context = upload;
    status = s3_call_run(&call, err);
    s3_call_fini(&call);
    return status;
}

static void drop_parts(struct upload *upload)
{
    /* All are told first, so that they end together. */
    for (size_t i = 0; i < upload->count; i++) {
        struct part_call *part =
            upload->in_flight[(upload->first + i) % STORAGE_MULTIPART_MAX_IN_FLIGHT];
        if (part->call.transfer != NULL)
            http_transfer_cancel(part->call.transfer);
    }
    for (; upload->count > 0; upload->count--) {
        struct part_call *part = upload->in_flight[upload->first];
        upload->first = (upload->first + 1) % STORAGE_MULTIPART_MAX_IN_FLIGHT;
        s3_call_fini(&part->call);
        base_free(part);
    }
}

static void free_upload(void *context)
{
    struct upload *upload = context;
    drop_parts(upload);
    base_free(upload->key);
    base_free(upload);
}

static lake_status open_upload(void *context, struct lake_str key, const char *upload_id,
                               const char *media_type, bool only_if_absent, void **out,
                               struct lake_error *err)
{
    struct upload *upload = base_calloc_array(1, sizeof(*upload));
    if (upload == NULL)
        return base_fail_no_memory(err, sizeof(*upload));
    upload->store = context;
    upload->only_if_absent = only_if_absent;
    upload->key = base_strndup(key.data, key.size);
    lake_status status = upload->key == NULL ? base_fail_no_memory(err, key.size) : LAKE_OK;
    if (status == LAKE_OK && upload_id == NULL)
        status = create_upload(upload, media_type, err);
    else if (status == LAKE_OK)
        (void)snprintf(upload->id, sizeof(upload->id), "%s", upload_id);
    if (status != LAKE_OK) {
        free_upload(upload);
        return status;
    }
    *out = upload;
    return LAKE_OK;
}

static const char *upload_id(const void *context)
{
    const struct upload *upload = context;
    return upload->id;
}

/* ---- parts ---- */

static enum s3_verdict check_part(void *context, struct s3_call *call, struct lake_error *err)
{
    struct part_call *part = context;
    struct lake_str checksum;
    s3_reply_etag(&call->reply, part->part.etag);
    bool same = !http_reply_header(&call->reply, "x-amz-checksum-crc32c", &checksum) ||
                part->part.checksum[0] == '\0' || base_str_equal_c(checksum, part->part.checksum);
    if (part->part.etag[0] != '\0' && same)
        return S3_DONE;
    (void)lake_fail(err, LAKE_UNAVAILABLE,
                    "the answer to part %s of object %.*s has no ETag or another checksum",
                    part->number, LAKE_STR_FMT(call->key));
    return S3_TRY_AGAIN;
}

static lake_status start_part(void *context, uint32_t number, struct lake_bytes data,
                              struct lake_error *err)
{
    struct upload *upload = context;
    struct part_call *part = base_calloc_array(1, sizeof(*part));
    if (part == NULL)
        return base_fail_no_memory(err, sizeof(*part));
    struct s3_call *call = &part->call;
    s3_call_init(call, upload->store, "sending a part of", "PUT", key_of(upload));
    (void)snprintf(part->number, sizeof(part->number), "%" PRIu32, number);
    part->part.number = number;
    part->part.size_bytes = data.size;
    s3_call_query(call, LAKE_STR("partNumber"), base_str_of(part->number));
    s3_call_query(call, LAKE_STR("uploadId"), base_str_of(upload->id));
    if (!upload->store->options.no_checksums) {
        checksum_crc32c_text(checksum_crc32c(0, data), part->part.checksum);
        s3_call_header(call, LAKE_STR("x-amz-checksum-crc32c"), base_str_of(part->part.checksum));
    }
    call->body = data;
    call->check = check_part;
    call->context = part;
    lake_status status = s3_call_start(call, err);
    if (status != LAKE_OK) {
        s3_call_fini(call);
        base_free(part);
        return status;
    }
    size_t slot = (upload->first + upload->count++) % STORAGE_MULTIPART_MAX_IN_FLIGHT;
    upload->in_flight[slot] = part;
    return LAKE_OK;
}

static lake_status finish_part(void *context, struct storage_part *out, struct lake_error *err)
{
    struct upload *upload = context;
    struct part_call *part = upload->in_flight[upload->first];
    upload->first = (upload->first + 1) % STORAGE_MULTIPART_MAX_IN_FLIGHT;
    upload->count--;
    lake_status status = s3_call_finish(&part->call, err);
    if (status == LAKE_OK)
        *out = part->part;
    s3_call_fini(&part->call);
    base_free(part);
    return status;
}

static size_t in_flight(const void *context)
{
    const struct upload *upload = context;
    return upload->count;
}

/* ---- listing parts ---- */

struct part_listing {
    struct upload *upload;
    struct storage_part *parts;
    size_t count, page_start;
    uint32_t number, page_number; /* the last one seen, and the last one of the page before */
    struct storage_part entry;
    char marker[16];
    bool truncated;
    const char *wrong;
};

static void take_part_field(struct part_listing *listing, const struct xml_reader *reader)
{
    struct lake_str text = xml_text(reader);
    struct storage_part *entry = &listing->entry;
    uint64_t number = 0;
    if (reader->depth == 1 && base_str_equal_c(reader->name, "IsTruncated"))
        listing->truncated = base_str_equal_c(text, "true");
    else if (reader->depth == 1 && base_str_equal_c(reader->name, "NextPartNumberMarker") &&
             text.size < sizeof(listing->marker))
        (void)snprintf(listing->marker, sizeof(listing->marker), "%.*s", LAKE_STR_FMT(text));
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "PartNumber") &&
             base_str_to_u64(text, &number) && number <= STORAGE_MULTIPART_MAX_PARTS)
        entry->number = (uint32_t)number;
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "Size") &&
             !base_str_to_u64(text, &entry->size_bytes))
        listing->wrong = "a part's size is no number";
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "ETag") &&
             text.size < sizeof(entry->etag))
        (void)snprintf(entry->etag, sizeof(entry->etag), "%.*s", LAKE_STR_FMT(text));
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "ChecksumCRC32C") &&
             text.size < sizeof(entry->checksum))
        (void)snprintf(entry->checksum, sizeof(entry->checksum), "%.*s", LAKE_STR_FMT(text));
}

/* Some services list a part that was sent twice as two. When both are alike it does not matter
 * which one counts; when they differ nobody can tell, and the part is as good as missing. */
static void add_repeated_part(struct part_listing *listing)
{
    const struct storage_part *entry = &listing->entry;
    if (listing->count == listing->page_start)
        return;
    const struct storage_part *last = &listing->parts[listing->count - 1];
    if (last->number == entry->number &&
        (last->size_bytes != entry->size_bytes || strcmp(last->etag, entry->etag) != 0))
        listing->count--;
}

static void add_part(struct part_listing *listing)
{
    uint32_t number = listing->entry.number;
    if (number < listing->number || number <= listing->page_number ||
        listing->entry.etag[0] == '\0') {
        listing->wrong = "its parts are not in ascending order, or lack a number or ETag";
        return;
    }
    if (number > listing->number)
        listing->parts[listing->count++] = listing->entry;
    else
        add_repeated_part(listing);
    listing->number = number;
}

static enum s3_verdict check_parts(void *context, struct s3_call *call, struct lake_error *err)
{
    struct part_listing *listing = context;
    struct xml_reader reader;
    enum xml_event event = XML_BAD;
    bool right_root = false;
    listing->count = listing->page_start;
    listing->number = listing->page_number;
    listing->truncated = false;
    listing->wrong = NULL;
    listing->marker[0] = '\0';
    xml_reader_init(&reader, base_buffer_view(&call->reply.body));
    while (listing->wrong == NULL &&
           ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE)) {
        if (event == XML_OPEN && reader.depth == 1)
            right_root = base_str_equal_c(reader.name, "ListPartsResult");
        if (event == XML_OPEN && reader.depth == 2)
            listing->entry = (struct storage_part){.number = 0};
        if (event != XML_CLOSE || !right_root)
            continue;
        take_part_field(listing, &reader);
        if (reader.depth == 1 && base_str_equal_c(reader.name, "Part"))
            add_part(listing);
    }
    xml_reader_fini(&reader);
    if (listing->wrong == NULL && event == XML_END && right_root && listing->truncated &&
        (listing->marker[0] == '\0' || listing->number == listing->page_number))
        listing->wrong = "it is not whole and does not say how to go on";
    if (listing->wrong != NULL) {
        (void)lake_fail(err, LAKE_DATA_LOSS, "the list of parts of object %.*s is not usable: %s",
                        LAKE_STR_FMT(call->key), listing->wrong);
        return S3_FAILED;
    }
    if (event == XML_END && right_root)
        return S3_DONE;
    (void)lake_fail(err, LAKE_UNAVAILABLE, "the list of parts of object %.*s was cut short",
                    LAKE_STR_FMT(call->key));
    return S3_TRY_AGAIN;
}

static lake_status list_parts_page(struct part_listing *listing, const char *marker,
                                   struct lake_error *err)
{
    struct upload *upload = listing->upload;
    struct s3_call call;
    s3_call_init(&call, upload->store, "listing the parts of", "GET", key_of(upload));
    s3_call_query(&call, LAKE_STR("uploadId"), base_str_of(upload->id));
    s3_call_query(&call, LAKE_STR("max-parts"), LAKE_STR(LIST_PAGE));
    if (marker[0] != '\0')
        s3_call_query(&call, LAKE_STR("part-number-marker"), base_str_of(marker));
    call.check = check_parts;
    call.context = listing;
    listing->page_start = listing->count;
    listing->page_number = listing->number;
    lake_status status = s3_call_run(&call, err);
    s3_call_fini(&call);
    return status;
}

static lake_status list_parts(void *context, struct storage_part **out, size_t *count,
                              struct lake_error *err)
{
    struct part_listing listing = {.upload = context};
    char marker[sizeof(listing.marker)] = "";
    /* Ascending numbers up to 10,000: more cannot come. */
    listing.parts = base_calloc_array(STORAGE_MULTIPART_MAX_PARTS, sizeof(*listing.parts));
    if (listing.parts == NULL)
        return base_fail_no_memory(err, STORAGE_MULTIPART_MAX_PARTS * sizeof(*listing.parts));
    lake_status status;
    do {
        status = list_parts_page(&listing, marker, err);
        memcpy(marker, listing.marker, sizeof(marker));
    } while (status == LAKE_OK && listing.truncated);
    if (status != LAKE_OK) {
        base_free(listing.parts);
        return status;
    }
    *out = listing.parts;
    *count = listing.count;
    return LAKE_OK;
}

/* ---- completing ---- */

static lake_status complete_body(const struct storage_part *parts, size_t count,
                                 struct base_buffer *out, struct lake_error *err)
{
    lake_status status = base_buffer_printf(
        out, err, "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; status == LAKE_OK && i < count; i++) {
        struct lake_str etag = base_str_of(parts[i].etag);
        if (strpbrk(parts[i].etag, "<>&") != NULL || strpbrk(parts[i].checksum, "<>&") != NULL)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "part %u has an ETag that is none",
                             parts[i].number);
        status = base_buffer_printf(out, err, "<Part><PartNumber>%u</PartNumber><ETag>%.*s</ETag>",
                                    parts[i].number, LAKE_STR_FMT(etag));
        if (status == LAKE_OK && parts[i].checksum[0] != '\0')
            status = base_buffer_printf(out, err, "<ChecksumCRC32C>%s</ChecksumCRC32C>",
                                        parts[i].checksum);
        if (status == LAKE_OK)
            status = base_buffer_printf(out, err, "</Part>");
    }
    if (status == LAKE_OK)
        status = base_buffer_printf(out, err, "</CompleteMultipartUpload>");
    return status;
}

/* O01: only a result element is a success; anything else is asked again with the same parts. */
static enum s3_verdict check_completed(void *context, struct s3_call *call, struct lake_error *err)
{
    struct upload *upload = context;
    struct field_search search = {.root = "CompleteMultipartUploadResult"};
    if (find_field(base_buffer_view(&call->reply.body), &search))
        return S3_DONE;
    call->maybe_done = true;
    (void)lake_fail(err, LAKE_UNAVAILABLE,
                    "the answer to completing the upload of %s does not say that it is complete",
                    upload->key);
    return S3_TRY_AGAIN;
}

/* The ETag of an object made of these parts: the MD5 of their MD5s, and how many they are. */
static bool composite_etag(const struct storage_part *parts, size_t count, char out[64])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    bool ok = context != NULL && EVP_DigestInit_ex(context, EVP_md5(), NULL) == 1;
    for (size_t i = 0; ok && i < count; i++) {
        struct lake_str etag = base_str_of(parts[i].etag);
        if (etag.size == 34 && etag.data[0] == '"')
            etag = (struct lake_str){etag.data + 1, 32};
        ok = etag.size == 32 && base_hex_decode(etag, digest) &&
             EVP_DigestUpdate(context, digest, 16) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(context, digest, &size) == 1 && size == 16;
    EVP_MD_CTX_free(context);
    if (!ok)
        return false;
    char hex[33];
    base_hex_encode((struct lake_bytes){digest, 16}, hex);
    (void)snprintf(out, 64, "\"%s-%zu\"", hex, count);
    return true;
}

static lake_status settle_completion(struct upload *upload, const struct storage_part *parts,
                                     size_t count, struct lake_error *err)
{
    struct storage_object_info info;
    char etag[64];
    if (upload->write_id[0] != '\0')
        return s3_settle(upload->store, key_of(upload), upload->write_id, err);
    lake_status status = s3_stat(upload->store, key_of(upload), &info, err);
    if (status == LAKE_OK &&
        (!composite_etag(parts, count, etag) || strcmp(etag, info.version) != 0))
        return lake_fail(err, LAKE_ALREADY_EXISTS, "object %s in %s exists already", upload->key,
                         upload->store->bucket);
    return status;
}

static lake_status fail_unknown(const struct upload *upload, struct lake_error *err)
{
    return lake_fail_wrap(err, LAKE_OUTCOME_UNKNOWN,
                          "it is not known whether object %s in %s was completed: look for it "
                          "before you send it again",
                          upload->key, upload->store->bucket);
}

static lake_status complete(void *context, const struct storage_part *parts, size_t count,
                            struct lake_error *err)
{
    struct upload *upload = context;
    struct base_buffer body;
    struct s3_call call;
    base_buffer_init(&body, MAX_COMPLETE_BYTES);
    lake_status status = complete_body(parts, count, &body, err);
    if (status != LAKE_OK) {
        base_buffer_fini(&body);
        return status;
    }
    s3_call_init(&call, upload->store, "completing", "POST", key_of(upload));
    s3_call_query(&call, LAKE_STR("uploadId"), base_str_of(upload->id));
    s3_call_header(&call, LAKE_STR("content-type"), LAKE_STR("application/xml"));
    if (upload->only_if_absent)
        s3_call_header(&call, LAKE_STR("if-none-match"), LAKE_STR("*"));
    call.body = base_buffer_view(&body);
    call.changes = true;
    call.check = check_completed;
    call.context = upload;
    status = s3_call_run(&call, err);
    bool taken = call.reply.status == 412;
    if (status != LAKE_OK && call.maybe_done) {
        struct lake_error settled = {.code = LAKE_OK};
        lake_status found = settle_completion(upload, parts, count, &settled);
        if (found == LAKE_OK)
            status = LAKE_OK;
        else if (found == LAKE_ALREADY_EXISTS && upload->only_if_absent)
            status = lake_fail(err, LAKE_ALREADY_EXISTS, "%s", settled.message);
        else if (status != LAKE_NOT_FOUND || found != LAKE_NOT_FOUND)
            status = fail_unknown(upload, err);
    } else if (taken) {
        status = lake_fail(err, LAKE_ALREADY_EXISTS, "object %s in %s exists already", upload->key,
                           upload->store->bucket);
    }
    if (status == LAKE_OK)
        lake_error_clear(err);
    s3_call_fini(&call);
    base_buffer_fini(&body);
    return status;
}

static lake_status abort_upload(void *context, struct lake_error *err)
{
    struct upload *upload = context;
    struct s3_call call;
    drop_parts(upload);
    s3_call_init(&call, upload->store, "aborting an upload of", "DELETE", key_of(upload));
    s3_call_query(&call, LAKE_STR("uploadId"), base_str_of(upload->id));
    lake_status status = s3_call_run(&call, err);
    s3_call_fini(&call);
    if (status == LAKE_NOT_FOUND) { /* O13 */
        lake_error_clear(err);
        return LAKE_OK;
    }
    return status;
}

/* ---- unfinished uploads ---- */

struct upload_listing {
    struct s3_store *store;
    struct storage_upload_entry *entries;
    size_t count, page_start, max_count;
    struct storage_upload_entry entry;
    char *key_marker, *id_marker;
    bool truncated, encoded, no_memory, too_many;
    const char *wrong;
};

static void forget_upload(struct storage_upload_entry *entry)
{
    base_free(entry->key);
    base_free(entry->upload_id);
    *entry = (struct storage_upload_entry){.key = NULL};
}

static char *take_text(struct upload_listing *listing, struct lake_str text, bool encoded)
{
    struct base_buffer copy;
    base_buffer_init(&copy, XML_MAX_TEXT_BYTES + 1);
    bool ok = base_buffer_append(&copy, text.data, text.size, NULL) == LAKE_OK;
    if (ok && encoded && !s3_xml_url_decode(&copy))
        listing->wrong = "it has a key that is not percent-encoded as it says";
    ok = ok && base_buffer_append(&copy, "", 1, NULL) == LAKE_OK;
    listing->no_memory = listing->no_memory || !ok;
    size_t size;
    char *taken = (char *)base_buffer_take(&copy, &size);
    if (!ok) {
        base_free(taken);
        return NULL;
    }
    return taken;
}

static void take_upload_field(struct upload_listing *listing, const struct xml_reader *reader)
{
    struct lake_str text = xml_text(reader);
    char **target = NULL;
    bool encoded = listing->encoded;
    if (reader->depth == 1 && base_str_equal_c(reader->name, "IsTruncated"))
        listing->truncated = base_str_equal_c(text, "true");
    else if (reader->depth == 1 && base_str_equal_c(reader->name, "NextKeyMarker"))
        target = &listing->key_marker;
    else if (reader->depth == 1 && base_str_equal_c(reader->name, "NextUploadIdMarker"))
        target = &listing->id_marker;
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "Key"))
        target = &listing->entry.key;
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "UploadId"))
        target = &listing->entry.upload_id;
    else if (reader->depth == 2 && base_str_equal_c(reader->name, "Initiated"))
        (void)time_parse_iso(text, &listing->entry.started_unix_ms);
    if (target == &listing->id_marker || target == &listing->entry.upload_id)
        encoded = false;
    if (target != NULL) {
        base_free(*target);
        *target = take_text(listing, text, encoded);
    }
}

static void add_upload(struct upload_listing *listing)
{
    if (listing->entry.key == NULL || listing->entry.upload_id == NULL) {
        listing->wrong = "it has an upload without a key or an ID";
        return;
    }
    if (!storage_key_valid(base_str_of(listing->entry.key)))
        return; /* none of ours */
    if (listing->count == listing->max_count) {
        listing->too_many = true;
        return;
    }
    struct storage_upload_entry *grown =
        base_realloc_array(listing->entries, listing->count + 1, sizeof(*listing->entries));
    if (grown == NULL) {
        listing->no_memory = true;
        return;
    }
    listing->entries = grown;
    listing->entries[listing->count++] = listing->entry;
    listing->entry = (struct storage_upload_entry){.key = NULL};
}

static enum s3_verdict check_uploads(void *context, struct s3_call *call, struct lake_error *err)
{
    struct upload_listing *listing = context;
    struct lake_bytes body = base_buffer_view(&call->reply.body);
    static const char mark[] = "<EncodingType>url</EncodingType>";
    struct xml_reader reader;
    enum xml_event event = XML_BAD;
    bool right_root = false;
    while (listing->count > listing->page_start) /* of an answer that was cut short */
        forget_upload(&listing->entries[--listing->count]);
    listing->truncated = false;
    listing->wrong = NULL;
    listing->encoded =
        body.size > 0 && memmem(body.data, body.size, mark, sizeof(mark) - 1) != NULL;
    xml_reader_init(&reader, body);
    while (listing->wrong == NULL && !listing->no_memory && !listing->too_many &&
           ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE)) {
        if (event == XML_OPEN && reader.depth == 1)
            right_root = base_str_equal_c(reader.name, "ListMultipartUploadsResult");
        if (event == XML_OPEN && reader.depth == 2)
            forget_upload(&listing->entry);
        if (event != XML_CLOSE || !right_root)
            continue;
        take_upload_field(listing, &reader);
        if (reader.depth == 1 && base_str_equal_c(reader.name, "Upload"))
            add_upload(listing);
    }
    bool no_memory = listing->no_memory || reader.no_memory;
    xml_reader_fini(&reader);
    if (no_memory)
        (void)base_fail_no_memory(err, body.size);
    else if (listing->too_many)
        (void)lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                        "s3://%s has more than %zu unfinished uploads below the prefix",
                        listing->store->bucket, listing->max_count);
    else if (listing->wrong != NULL)
        (void)lake_fail(err, LAKE_DATA_LOSS, "a list of uploads of s3://%s is not usable: %s",
                        listing->store->bucket, listing->wrong);
    else if (event == XML_END && right_root)
        return S3_DONE;
    else {
        (void)lake_fail(err, LAKE_UNAVAILABLE, "a list of uploads of s3://%s was cut short",
                        listing->store->bucket);
        return S3_TRY_AGAIN;
    }
    return S3_FAILED;
}

static lake_status list_uploads(void *context, struct lake_str prefix, size_t max_count,
                                struct storage_upload_entry **out, size_t *count,
                                struct lake_error *err)
{
    struct upload_listing listing = {.store = context, .max_count = max_count};
    lake_status status = LAKE_OK;
    size_t pages = 0;
    do {
        struct s3_call call;
        char *key_marker = listing.key_marker;
        char *id_marker = listing.id_marker;
        listing.key_marker = listing.id_marker = NULL;
        s3_call_init(&call, listing.store, "listing uploads in", "GET", (struct lake_str){NULL, 0});
        s3_call_query(&call, LAKE_STR("uploads"), LAKE_STR(""));
        s3_call_query(&call, LAKE_STR("encoding-type"), LAKE_STR("url"));
        s3_call_query(&call, LAKE_STR("max-uploads"), LAKE_STR(LIST_PAGE));
        if (prefix.size > 0)
            s3_call_query(&call, LAKE_STR("prefix"), prefix);
        if (key_marker != NULL)
            s3_call_query(&call, LAKE_STR("key-marker"), base_str_of(key_marker));
        if (id_marker != NULL)
            s3_call_query(&call, LAKE_STR("upload-id-marker"), base_str_of(id_marker));
        call.check = check_uploads;
        call.context = &listing;
        listing.page_start = listing.count;
        status = s3_call_run(&call, err);
        s3_call_fini(&call);
        base_free(key_marker);
        base_free(id_marker);
        if (status == LAKE_OK && listing.truncated &&
            (listing.key_marker == NULL || ++pages == MAX_LIST_PAGES))
            status = lake_fail(err, LAKE_DATA_LOSS,
                               "a list of uploads of s3://%s does not say how to go on",
                               listing.store->bucket);
    } while (status == LAKE_OK && listing.truncated);
    base_free(listing.key_marker);
    base_free(listing.id_marker);
    forget_upload(&listing.entry);
    if (status != LAKE_OK) {
        storage_upload_entries_free(listing.entries, listing.count);
        return status;
    }
    *out = listing.entries;
    *count = listing.count;
    return LAKE_OK;
}

const struct storage_multipart_methods s3_multipart_methods = {
    .open = open_upload,
    .id = upload_id,
    .parts = list_parts,
    .part_start = start_part,
    .part_finish = finish_part,
    .in_flight = in_flight,
    .complete = complete,
    .abort = abort_upload,
    .free = free_upload,
    .list = list_uploads,
};

void s3_multipart_fuzz(struct lake_bytes document)
{
    struct s3_store store = {.bucket = (char *)(uintptr_t) "bucket"};
    struct upload upload = {.store = &store, .key = (char *)(uintptr_t) "key"};
    struct upload_listing uploads = {.store = &store, .max_count = 10};
    struct part_listing parts = {.upload = &upload};
    struct s3_call call = {.key = LAKE_STR("key"), .reply = {.status = 200}};
    base_buffer_init(&call.reply.body, HTTP_MAX_REPLY_BYTES);
    parts.parts = base_calloc_array(STORAGE_MULTIPART_MAX_PARTS, sizeof(*parts.parts));
    if (parts.parts != NULL &&
        base_buffer_append(&call.reply.body, document.data, document.size, NULL) == LAKE_OK) {
        (void)check_created(&upload, &call, NULL);
        (void)check_completed(&upload, &call, NULL);
        (void)check_parts(&parts, &call, NULL);
        (void)check_uploads(&uploads, &call, NULL);
    }
    base_free(parts.parts);
    base_free(uploads.key_marker);
    base_free(uploads.id_marker);
    forget_upload(&uploads.entry);
    storage_upload_entries_free(uploads.entries, uploads.count);
    base_buffer_fini(&call.reply.body);
}
