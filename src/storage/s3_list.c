/*
 * ListObjectsV2. Keys come percent-encoded (encoding-type=url), since XML cannot hold all of them.
 * What no store of ours could have written (directory markers, empty components) is left out.
 */
#define _GNU_SOURCE /* memmem */
#include "s3.h"

#include "s3_xml.h"

#include <stdio.h>
#include <string.h>

/* A listing may answer with empty pages that go on; none of ours needs more. */
#define MAX_EMPTY_PAGES 1000

struct listing {
    struct s3_store *store;
    struct lake_str prefix;
    struct lake_str start_after;
    size_t limit;
    struct storage_list_page *page;
    char *token;
    bool truncated;
    bool encoded;
    bool no_memory;
    const char *wrong; /* what a reply must not be */
    /* The <Contents> that is being read. */
    struct base_buffer key;
    struct storage_list_entry entry;
    bool has_key;
};

static void forget_page(struct listing *listing)
{
    storage_list_page_fini(listing->page);
    base_free(listing->token);
    listing->token = NULL;
    listing->truncated = listing->encoded = false;
    listing->wrong = NULL;
}

static void add_entry(struct listing *listing)
{
    struct storage_list_page *page = listing->page;
    struct lake_str key = {(const char *)listing->key.data, listing->key.size};
    struct lake_str before =
        page->count == 0 ? listing->start_after : base_str_of(page->entries[page->count - 1].key);
    if (!storage_key_valid(key))
        return;
    int order =
        memcmp(key.data, before.data == NULL ? "" : before.data, BASE_MIN(key.size, before.size));
    if (key.size < listing->prefix.size ||
        memcmp(key.data, listing->prefix.data == NULL ? "" : listing->prefix.data,
               listing->prefix.size) != 0)
        listing->wrong = "it has a key without the prefix that was asked for";
    else if (order < 0 || (order == 0 && key.size <= before.size))
        listing->wrong = "its keys are not in ascending order";
    else if (page->count == listing->limit)
        listing->wrong = "it has more keys than were asked for";
    if (listing->wrong != NULL)
        return;
    char *copy = base_strndup(key.data, key.size);
    if (copy == NULL) {
        listing->no_memory = true;
        return;
    }
    page->entries[page->count] = listing->entry;
    page->entries[page->count++].key = copy;
}

static void take_field(struct listing *listing, const struct xml_reader *reader)
{
    struct lake_str text = xml_text(reader);
    if (reader->depth == 1 && base_str_equal_c(reader->name, "IsTruncated")) {
        listing->truncated = base_str_equal_c(text, "true");
    } else if (reader->depth == 1 && base_str_equal_c(reader->name, "NextContinuationToken")) {
        base_free(listing->token);
        listing->token = base_strndup(text.data, text.size);
        listing->no_memory = listing->no_memory || listing->token == NULL;
    } else if (reader->depth == 2 && base_str_equal_c(reader->name, "Key")) {
        base_buffer_clear(&listing->key);
        listing->has_key = true;
        listing->no_memory = listing->no_memory ||
                             base_buffer_append(&listing->key, text.data, text.size, NULL) != 0;
    } else if (reader->depth == 2 && base_str_equal_c(reader->name, "Size")) {
        if (!base_str_to_u64(text, &listing->entry.size_bytes))
            listing->wrong = "it has a size that is no number";
    } else if (reader->depth == 2 && base_str_equal_c(reader->name, "LastModified")) {
        if (!time_parse_iso(text, &listing->entry.modified_unix_ms))
            listing->wrong = "it has a time that is none";
    } else if (reader->depth == 1 && base_str_equal_c(reader->name, "Contents")) {
        if (!listing->has_key)
            listing->wrong = "it has an object without a key";
    }
}

/* <EncodingType> may stand behind the keys, which need it. */
static bool is_encoded(struct lake_bytes body)
{
    return memmem(body.data, body.size, "<EncodingType>url</EncodingType>", 32) != NULL;
}

static enum s3_verdict check_listing(void *context, struct s3_call *call, struct lake_error *err)
{
    struct listing *listing = context;
    struct lake_bytes body = base_buffer_view(&call->reply.body);
    struct xml_reader reader;
    enum xml_event event = XML_BAD;
    bool is_listing = false;
    forget_page(listing);
    listing->page->entries = base_calloc_array(listing->limit, sizeof(*listing->page->entries));
    listing->no_memory = listing->page->entries == NULL;
    xml_reader_init(&reader, body);
    listing->encoded = body.size > 0 && is_encoded(body);
    while (!listing->no_memory && listing->wrong == NULL &&
           ((event = xml_next(&reader)) == XML_OPEN || event == XML_CLOSE)) {
        if (event == XML_OPEN && reader.depth == 1)
            is_listing = base_str_equal_c(reader.name, "ListBucketResult");
        if (event == XML_OPEN && reader.depth == 2) {
            listing->entry = (struct storage_list_entry){.key = NULL};
            listing->has_key = false;
        }
        if (event != XML_CLOSE || !is_listing)
            continue;
        take_field(listing, &reader);
        if (reader.depth == 1 && base_str_equal_c(reader.name, "Contents") &&
            listing->wrong == NULL) {
            if (listing->encoded && !s3_xml_url_decode(&listing->key))
                listing->wrong = "it has a key that is not percent-encoded as it says";
            else
                add_entry(listing);
        }
    }
    bool whole = event == XML_END && is_listing;
    listing->no_memory = listing->no_memory || reader.no_memory;
    xml_reader_fini(&reader);
    if (listing->no_memory) {
        (void)base_fail_no_memory(err, listing->limit * sizeof(*listing->page->entries));
        return S3_FAILED;
    }
    if (listing->wrong == NULL && whole && listing->truncated && listing->token == NULL)
        listing->wrong = "it is not whole and does not say how to go on";
    if (listing->wrong != NULL) {
        (void)lake_fail(err, LAKE_DATA_LOSS, "a listing of s3://%s is not usable: %s",
                        listing->store->bucket, listing->wrong);
        return S3_FAILED;
    }
    if (!whole) {
        (void)lake_fail(err, LAKE_UNAVAILABLE, "a listing of s3://%s was cut short",
                        listing->store->bucket);
        return S3_TRY_AGAIN;
    }
    return S3_DONE;
}

static lake_status list_once(struct listing *listing, const char *token, struct lake_error *err)
{
    char limit[16];
    struct s3_call call;
    s3_call_init(&call, listing->store, "listing", "GET", (struct lake_str){NULL, 0});
    (void)snprintf(limit, sizeof(limit), "%zu", listing->limit);
    s3_call_query(&call, LAKE_STR("list-type"), LAKE_STR("2"));
    s3_call_query(&call, LAKE_STR("encoding-type"), LAKE_STR("url"));
    s3_call_query(&call, LAKE_STR("max-keys"), base_str_of(limit));
    if (listing->prefix.size > 0)
        s3_call_query(&call, LAKE_STR("prefix"), listing->prefix);
    if (token != NULL)
        s3_call_query(&call, LAKE_STR("continuation-token"), base_str_of(token));
    else if (listing->start_after.size > 0)
        s3_call_query(&call, LAKE_STR("start-after"), listing->start_after);
    call.check = check_listing;
    call.context = listing;
    lake_status status = s3_call_run(&call, err);
    s3_call_fini(&call);
    return status;
}

lake_status s3_list(void *context, struct lake_str prefix, struct lake_str start_after,
                    size_t limit, struct storage_list_page *out, struct lake_error *err)
{
    struct storage_list_page page = {.entries = NULL};
    struct listing listing = {.store = context,
                              .prefix = prefix,
                              .start_after = start_after,
                              .limit = limit,
                              .page = &page};
    base_buffer_init(&listing.key, 3 * XML_MAX_TEXT_BYTES);
    lake_status status = list_once(&listing, NULL, err);
    for (int i = 0; status == LAKE_OK && page.count == 0 && listing.truncated; i++) {
        char *token = listing.token;
        listing.token = NULL;
        status = i == MAX_EMPTY_PAGES ? lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                                                  "a listing of s3://%s gave %d pages without keys",
                                                  listing.store->bucket, MAX_EMPTY_PAGES)
                                      : list_once(&listing, token, err);
        base_free(token);
    }
    base_free(listing.token);
    base_buffer_fini(&listing.key);
    if (status != LAKE_OK) {
        storage_list_page_fini(&page);
        return status;
    }
    page.more = listing.truncated;
    *out = page;
    return LAKE_OK;
}

void s3_list_fuzz(struct lake_bytes document)
{
    struct s3_store store = {.bucket = (char *)(uintptr_t) "bucket"};
    struct storage_list_page page = {.entries = NULL};
    struct listing listing = {.store = &store, .limit = 10, .page = &page};
    struct s3_call call = {.reply = {.status = 200}};
    base_buffer_init(&listing.key, 3 * XML_MAX_TEXT_BYTES);
    base_buffer_init(&call.reply.body, HTTP_MAX_REPLY_BYTES);
    if (base_buffer_append(&call.reply.body, document.data, document.size, NULL) == LAKE_OK)
        (void)check_listing(&listing, &call, NULL);
    base_buffer_fini(&call.reply.body);
    base_buffer_fini(&listing.key);
    base_free(listing.token);
    storage_list_page_fini(&page);
}
