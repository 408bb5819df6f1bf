/* The engine: a queue of commands into the one thread that owns libcurl's multi handle. */
#include "http.h"

#include "byte_ring.h"

#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#define BUFFER_BYTES    (512L * 1024)
#define IDLE_MS         1000
#define MAX_SPARE       32 /* easy handles kept for the next transfers */
#define MAX_CONNECTIONS 1024

struct http_transfer {
    struct http_engine *engine;
    const struct http_request *request;
    struct http_reply *reply;
    CURL *easy;
    struct curl_slist *headers;
    size_t body_sent;
    bool judged;    /* the reply's headers have been looked at */
    bool to_caller; /* its body goes to `consume` */
    enum http_failure refusal;
    struct lake_error error; /* the engine's thread, until `done` */
    char curl_error[CURL_ERROR_SIZE];
    /* Guarded by the engine's lock. */
    struct http_transfer *next_command;
    bool queued, add, cancel;
    uint64_t consumed, awaited; /* bytes that `consume` saw; how many somebody waits for, or 0 */
    struct byte_ring queue;     /* of a body that is read bit by bit */
    size_t held;                /* at its front, in the reader's hands */
    bool paused;                /* there was no room: libcurl keeps what it has */
    bool resume;
    bool done;
    enum http_failure outcome;
    pthread_cond_t changed;
};

struct http_engine {
    CURLM *multi;
    struct http_options options;
    char *ca_file;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, and what transfers say it does */
    struct http_transfer *first_command, *last_command;
    CURL *spare[MAX_SPARE];
    size_t spare_count;
    bool ending;
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;

static void global_init(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- replies ---- */

static bool name_matches(struct lake_str line, const char *name)
{
    size_t size = strlen(name);
    if (line.size <= size || line.data[size] != ':')
        return false;
    for (size_t i = 0; i < size; i++) {
        char c = line.data[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c) != name[i])
            return false;
    }
    return true;
}

bool http_reply_header(const struct http_reply *reply, const char *name, struct lake_str *out)
{
    bool found = false;
    for (size_t start = 0; start < reply->headers.size;) {
        const char *data = (const char *)reply->headers.data + start;
        const char *end = memchr(data, '\n', reply->headers.size - start);
        struct lake_str line = {data,
                                end == NULL ? reply->headers.size - start : (size_t)(end - data)};
        if (name_matches(line, name)) {
            size_t skip = strlen(name) + 1;
            *out = base_str_trim((struct lake_str){line.data + skip, line.size - skip});
            found = true;
        }
        start += line.size + 1;
    }
    return found;
}

void http_reply_fini(struct http_reply *reply)
{
    base_buffer_fini(&reply->headers);
    base_buffer_fini(&reply->body);
    reply->status = 0;
}

/* ---- libcurl's callbacks, on the engine's thread ---- */

static size_t refuse(struct http_transfer *transfer, enum http_failure why)
{
    transfer->refusal = why;
    return 0; /* fewer bytes than given: libcurl ends the transfer */
}

static size_t on_header(char *data, size_t unit, size_t count, void *context)
{
    struct http_transfer *transfer = context;
    struct http_reply *reply = transfer->reply;
    size_t size = unit * count;
    /* A new status line: what came before was an interim reply (100). */
    if (size > 5 && memcmp(data, "HTTP/", 5) == 0)
        base_buffer_clear(&reply->headers);
    lake_status status = base_buffer_append(&reply->headers, data, size, &transfer->error);
    if (status != LAKE_OK)
        return refuse(transfer, HTTP_LOCAL);
    return size;
}

static bool judge(struct http_transfer *transfer)
{
    const struct http_request *request = transfer->request;
    long code = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &code);
    transfer->reply->status = (int)code;
    transfer->judged = true;
    if (request->consume == NULL || (code != 200 && code != 206))
        return true;
    transfer->to_caller = true;
    return request->accept == NULL || request->accept(request->context, transfer->reply);
}

/* Either all of it or nothing; there is room again when somebody has read. */
static size_t queue_body(struct http_transfer *transfer, const uint8_t *data, size_t size)
{
    struct http_engine *engine = transfer->engine;
    if (size > transfer->queue.capacity)
        return refuse(transfer, HTTP_LOCAL);
    (void)pthread_mutex_lock(&engine->lock);
    transfer->paused = size > transfer->queue.capacity - transfer->queue.size;
    bool paused = transfer->paused;
    (void)pthread_mutex_unlock(&engine->lock);
    if (paused)
        return CURL_WRITEFUNC_PAUSE;
    if (!transfer->request->consume(transfer->request->context, data, size))
        return refuse(transfer, HTTP_REFUSED);
    for (size_t done = 0; done < size;) {
        size_t room;
        (void)pthread_mutex_lock(&engine->lock);
        uint8_t *to = byte_ring_room(&transfer->queue, &room);
        (void)pthread_mutex_unlock(&engine->lock);
        room = BASE_MIN(room, size - done);
        memcpy(to, data + done, room);
        done += room;
        (void)pthread_mutex_lock(&engine->lock);
        byte_ring_filled(&transfer->queue, room);
        (void)pthread_cond_signal(&transfer->changed);
        (void)pthread_mutex_unlock(&engine->lock);
    }
    return size;
}

static void count_consumed(struct http_transfer *transfer, size_t size)
{
    (void)pthread_mutex_lock(&transfer->engine->lock);
    transfer->consumed += size;
    if (transfer->awaited > 0 && transfer->consumed >= transfer->awaited)
        (void)pthread_cond_signal(&transfer->changed);
    (void)pthread_mutex_unlock(&transfer->engine->lock);
}

static size_t on_body(char *data, size_t unit, size_t count, void *context)
{
    struct http_transfer *transfer = context;
    const struct http_request *request = transfer->request;
    size_t size = unit * count;
    if (!transfer->judged && !judge(transfer))
        return refuse(transfer, HTTP_REFUSED);
    if (!transfer->to_caller) {
        if (base_buffer_append(&transfer->reply->body, data, size, &transfer->error) != LAKE_OK)
            return refuse(transfer, HTTP_REFUSED);
        return size;
    }
    if (request->queue_bytes > 0)
        return queue_body(transfer, (const uint8_t *)data, size);
    if (!request->consume(request->context, (const uint8_t *)data, size))
        return refuse(transfer, HTTP_REFUSED);
    count_consumed(transfer, size);
    return size;
}

static size_t on_send(char *out, size_t unit, size_t count, void *context)
{
    struct http_transfer *transfer = context;
    const struct http_request *request = transfer->request;
    size_t capacity = unit * count;
    if (request->produce != NULL) {
        size_t size = request->produce(request->context, (uint8_t *)out, capacity);
        return size == SIZE_MAX ? CURL_READFUNC_ABORT : size;
    }
    size_t size = BASE_MIN(capacity, request->body.size - transfer->body_sent);
    if (size > 0)
        memcpy(out, request->body.data + transfer->body_sent, size);
    transfer->body_sent += size;
    return size;
}

/* A kept connection turned out to be dead: libcurl sends the request again on a new one. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct http_transfer *transfer = context;
    const struct http_request *request = transfer->request;
    if (offset != 0 || origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    transfer->body_sent = 0;
    transfer->reply->resent = true;
    if (request->produce != NULL && !request->rewind(request->context))
        return CURL_SEEKFUNC_FAIL;
    return CURL_SEEKFUNC_OK;
}

/* ---- the engine's thread ---- */

static enum http_failure classify(const struct http_transfer *transfer, CURLcode code)
{
    if (code == CURLE_OK)
        return HTTP_COMPLETE;
    if (transfer->refusal != HTTP_COMPLETE)
        return transfer->refusal;
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
        return HTTP_NOT_SENT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return HTTP_UNTRUSTED;
    case CURLE_OPERATION_TIMEDOUT: {
        curl_off_t connected_us = 0;
        (void)curl_easy_getinfo(transfer->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
        return connected_us == 0 ? HTTP_NOT_SENT : HTTP_TIMED_OUT;
    }
    case CURLE_OUT_OF_MEMORY:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_FAILED_INIT:
    case CURLE_BAD_FUNCTION_ARGUMENT:
        return HTTP_LOCAL;
    default:
        return HTTP_BROKEN;
    }
}

static lake_status status_of(enum http_failure failure)
{
    switch (failure) {
    case HTTP_UNTRUSTED:
        return LAKE_UNAUTHENTICATED;
    case HTTP_CANCELLED:
        return LAKE_CANCELLED;
    case HTTP_REFUSED:
        return LAKE_DATA_LOSS;
    case HTTP_LOCAL:
        return LAKE_INTERNAL;
    default:
        return LAKE_UNAVAILABLE;
    }
}

static void end_transfer(struct http_transfer *transfer, enum http_failure outcome, CURLcode code)
{
    struct http_engine *engine = transfer->engine;
    if (outcome != HTTP_COMPLETE && transfer->error.code == LAKE_OK)
        (void)lake_fail(&transfer->error, status_of(outcome), "%s",
                        transfer->curl_error[0] != '\0' ? transfer->curl_error
                        : outcome == HTTP_CANCELLED     ? "the request was cancelled"
                                                        : curl_easy_strerror(code));
    (void)pthread_mutex_lock(&engine->lock);
    transfer->outcome = outcome;
    transfer->done = true;
    (void)pthread_cond_signal(&transfer->changed);
    (void)pthread_mutex_unlock(&engine->lock);
}

static void finish_messages(struct http_engine *engine)
{
    int left;
    for (CURLMsg *message = curl_multi_info_read(engine->multi, &left); message != NULL;
         message = curl_multi_info_read(engine->multi, &left)) {
        if (message->msg != CURLMSG_DONE)
            continue;
        struct http_transfer *transfer = NULL;
        CURLcode code = message->data.result;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        /* A reply without a body was not looked at yet. */
        if (code == CURLE_OK && !transfer->judged && !judge(transfer)) {
            code = CURLE_WRITE_ERROR;
            transfer->refusal = HTTP_REFUSED;
        }
        enum http_failure outcome = classify(transfer, code);
        (void)curl_multi_remove_handle(engine->multi, transfer->easy);
        end_transfer(transfer, outcome, code);
    }
}

/* With the lock held. */
static struct http_transfer *next_command(struct http_engine *engine)
{
    struct http_transfer *transfer = engine->first_command;
    if (transfer != NULL) {
        engine->first_command = transfer->next_command;
        if (engine->first_command == NULL)
            engine->last_command = NULL;
        transfer->queued = false;
        (void)pthread_cond_signal(&transfer->changed); /* whoever waits to release it */
    }
    return transfer;
}

static void run_commands(struct http_engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    for (;;) {
        struct http_transfer *transfer = next_command(engine);
        if (transfer == NULL)
            break;
        bool add = transfer->add;
        bool cancel = transfer->cancel && !transfer->done;
        bool resume = transfer->resume;
        transfer->add = transfer->resume = false;
        bool live = !transfer->done;
        (void)pthread_mutex_unlock(&engine->lock);
        if (live && add && !cancel && curl_multi_add_handle(engine->multi, transfer->easy) != 0)
            end_transfer(transfer, HTTP_LOCAL, CURLE_OUT_OF_MEMORY);
        if (live && resume && !cancel)
            (void)curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
        if (cancel) {
            (void)curl_multi_remove_handle(engine->multi, transfer->easy);
            end_transfer(transfer, HTTP_CANCELLED, CURLE_OK);
        }
        (void)pthread_mutex_lock(&engine->lock);
    }
    (void)pthread_mutex_unlock(&engine->lock);
}

static bool is_ending(struct http_engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    bool ending = engine->ending;
    (void)pthread_mutex_unlock(&engine->lock);
    return ending;
}

static void *run(void *argument)
{
    struct http_engine *engine = argument;
    while (!is_ending(engine)) {
        int running = 0;
        run_commands(engine);
        (void)curl_multi_perform(engine->multi, &running);
        finish_messages(engine);
        (void)curl_multi_poll(engine->multi, NULL, 0, IDLE_MS, NULL);
    }
    return NULL;
}

/* ---- starting and ending the engine ---- */

static lake_status start_thread(struct http_engine *engine, struct lake_error *err)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int problem = pthread_create(&engine->thread, NULL, run, engine);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem != 0)
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                         "the thread for HTTP cannot be started: errno %d", problem);
    return LAKE_OK;
}

static void release_engine(struct http_engine *engine)
{
    for (size_t i = 0; i < engine->spare_count; i++)
        curl_easy_cleanup(engine->spare[i]);
    if (engine->multi != NULL)
        (void)curl_multi_cleanup(engine->multi);
    (void)pthread_mutex_destroy(&engine->lock);
    base_free(engine->ca_file);
    base_free(engine);
}

lake_status http_engine_new(const struct http_options *options, struct http_engine **out,
                            struct lake_error *err)
{
    (void)pthread_once(&global_once, global_init);
    struct http_engine *engine = base_calloc_array(1, sizeof(*engine));
    if (engine == NULL)
        return base_fail_no_memory(err, sizeof(*engine));
    engine->options = *options;
    (void)pthread_mutex_init(&engine->lock, NULL);
    lake_status status = LAKE_OK;
    engine->multi = curl_multi_init();
    if (engine->multi == NULL)
        status = base_fail_no_memory(err, 0);
    if (status == LAKE_OK && options->ca_file != NULL &&
        (engine->ca_file = base_strdup(options->ca_file)) == NULL)
        status = base_fail_no_memory(err, 0);
    if (status == LAKE_OK) {
        long limit = BASE_MIN(BASE_MAX(options->max_connections, 1u), MAX_CONNECTIONS);
        (void)curl_multi_setopt(engine->multi, CURLMOPT_MAX_HOST_CONNECTIONS, limit);
        (void)curl_multi_setopt(engine->multi, CURLMOPT_MAXCONNECTS, limit);
        status = start_thread(engine, err);
    }
    if (status != LAKE_OK) {
        release_engine(engine);
        return status;
    }
    *out = engine;
    return LAKE_OK;
}

void http_engine_free(struct http_engine *engine)
{
    if (engine == NULL)
        return;
    (void)pthread_mutex_lock(&engine->lock);
    engine->ending = true;
    (void)pthread_mutex_unlock(&engine->lock);
    (void)curl_multi_wakeup(engine->multi);
    (void)pthread_join(engine->thread, NULL);
    release_engine(engine);
}

/* ---- transfers ---- */

static CURL *take_easy(struct http_engine *engine)
{
    CURL *easy = NULL;
    (void)pthread_mutex_lock(&engine->lock);
    if (engine->spare_count > 0)
        easy = engine->spare[--engine->spare_count];
    (void)pthread_mutex_unlock(&engine->lock);
    return easy == NULL ? curl_easy_init() : easy;
}

static void give_easy(struct http_engine *engine, CURL *easy)
{
    curl_easy_reset(easy);
    (void)pthread_mutex_lock(&engine->lock);
    bool keep = engine->spare_count < MAX_SPARE;
    if (keep)
        engine->spare[engine->spare_count++] = easy;
    (void)pthread_mutex_unlock(&engine->lock);
    if (!keep)
        curl_easy_cleanup(easy);
}

static void release_transfer(struct http_transfer *transfer)
{
    if (transfer->easy != NULL)
        give_easy(transfer->engine, transfer->easy);
    curl_slist_free_all(transfer->headers);
    byte_ring_fini(&transfer->queue);
    (void)pthread_cond_destroy(&transfer->changed);
    base_free(transfer);
}

static bool add_header(struct http_transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    if (longer == NULL)
        return false;
    transfer->headers = longer;
    return true;
}

static void set_body(struct http_transfer *transfer)
{
    const struct http_request *request = transfer->request;
    CURL *easy = transfer->easy;
    bool has_body = request->produce != NULL || request->body.size > 0 ||
                    strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0;
    if (strcmp(request->method, "HEAD") == 0)
        (void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else if (has_body)
        (void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    if (!has_body)
        return;
    uint64_t size = request->produce != NULL ? request->produced_bytes : request->body.size;
    (void)curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_send);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
}

static void set_limits(struct http_transfer *transfer)
{
    const struct http_options *options = &transfer->engine->options;
    CURL *easy = transfer->easy;
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_ms);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                           (long)BASE_MAX((options->stall_ms + 999) / 1000, 1));
    if (transfer->request->deadline_us != 0) {
        int64_t left = transfer->request->deadline_us - base_clock_monotonic_us();
        (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)BASE_MAX(left / 1000, 1));
    }
    if (transfer->request->once)
        (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (transfer->engine->ca_file != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, transfer->engine->ca_file);
    if (options->no_proxy)
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

static lake_status set_up(struct http_transfer *transfer, struct lake_error *err)
{
    const struct http_request *request = transfer->request;
    if (request->queue_bytes > 0 &&
        byte_ring_init(&transfer->queue, request->queue_bytes, err) != LAKE_OK)
        return LAKE_RESOURCE_EXHAUSTED;
    transfer->easy = take_easy(transfer->engine);
    /* What libcurl would say of itself, and the question before a body that costs a round trip. */
    bool ok = transfer->easy != NULL && add_header(transfer, "Expect:") &&
              add_header(transfer, "Accept:");
    for (size_t i = 0; ok && i < request->header_count; i++)
        ok = add_header(transfer, request->headers[i]);
    CURL *easy = transfer->easy;
    if (!ok || curl_easy_setopt(easy, CURLOPT_URL, request->url) != CURLE_OK)
        return base_fail_no_memory(err, 0);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->curl_error);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    set_body(transfer);
    set_limits(transfer);
    return LAKE_OK;
}

/* With the lock held. */
static void command(struct http_transfer *transfer)
{
    struct http_engine *engine = transfer->engine;
    if (!transfer->queued) {
        transfer->queued = true;
        transfer->next_command = NULL;
        if (engine->last_command == NULL)
            engine->first_command = transfer;
        else
            engine->last_command->next_command = transfer;
        engine->last_command = transfer;
    }
}

lake_status http_transfer_start(struct http_engine *engine, const struct http_request *request,
                                struct http_reply *reply, struct http_transfer **out,
                                struct lake_error *err)
{
    struct http_transfer *transfer = base_calloc_array(1, sizeof(*transfer));
    if (transfer == NULL)
        return base_fail_no_memory(err, sizeof(*transfer));
    transfer->engine = engine;
    transfer->request = request;
    transfer->reply = reply;
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&transfer->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    base_buffer_init(&reply->headers, HTTP_MAX_HEADER_BYTES);
    base_buffer_init(&reply->body, HTTP_MAX_REPLY_BYTES);
    reply->status = 0;
    reply->resent = false;
    lake_status status = set_up(transfer, err);
    if (status != LAKE_OK) {
        release_transfer(transfer);
        return status;
    }
    (void)pthread_mutex_lock(&engine->lock);
    transfer->add = true;
    command(transfer);
    (void)pthread_mutex_unlock(&engine->lock);
    (void)curl_multi_wakeup(engine->multi);
    *out = transfer;
    return LAKE_OK;
}

void http_transfer_cancel(struct http_transfer *transfer)
{
    (void)pthread_mutex_lock(&transfer->engine->lock);
    transfer->cancel = true;
    command(transfer);
    (void)pthread_mutex_unlock(&transfer->engine->lock);
    (void)curl_multi_wakeup(transfer->engine->multi);
}

/* With the lock held. What was read goes; true when the paused transfer has enough room again. */
static bool release_held(struct http_transfer *transfer)
{
    struct byte_ring *queue = &transfer->queue;
    byte_ring_drop(queue, transfer->held);
    transfer->held = 0;
    if (!transfer->paused || queue->size > queue->capacity / 2)
        return false;
    transfer->paused = false;
    transfer->resume = true;
    command(transfer);
    return true;
}

bool http_transfer_read(struct http_transfer *transfer, int64_t deadline_us, struct lake_bytes *out)
{
    struct http_engine *engine = transfer->engine;
    struct timespec until = {.tv_sec = deadline_us / 1000000,
                             .tv_nsec = deadline_us % 1000000 * 1000};
    (void)pthread_mutex_lock(&engine->lock);
    if (release_held(transfer))
        (void)curl_multi_wakeup(engine->multi);
    int waited = 0;
    while (transfer->queue.size == 0 && !transfer->done && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&transfer->changed, &engine->lock, &until);
    /* Not all of it, so that more can arrive meanwhile. */
    *out = byte_ring_front(&transfer->queue);
    out->size = BASE_MIN(out->size, transfer->queue.capacity / 4);
    transfer->held = out->size;
    bool in_time = out->size > 0 || transfer->done;
    (void)pthread_mutex_unlock(&engine->lock);
    return in_time;
}

uint64_t http_transfer_await(struct http_transfer *transfer, uint64_t bytes)
{
    struct http_engine *engine = transfer->engine;
    (void)pthread_mutex_lock(&engine->lock);
    transfer->awaited = bytes;
    while (transfer->consumed < bytes && !transfer->done)
        (void)pthread_cond_wait(&transfer->changed, &engine->lock);
    transfer->awaited = 0;
    uint64_t consumed = transfer->consumed;
    (void)pthread_mutex_unlock(&engine->lock);
    return consumed;
}

enum http_failure http_transfer_finish(struct http_transfer *transfer, struct lake_error *err)
{
    struct http_engine *engine = transfer->engine;
    (void)pthread_mutex_lock(&engine->lock);
    /* Also until no command of it is waiting: the engine would look at freed memory. */
    while (!transfer->done || transfer->queued)
        (void)pthread_cond_wait(&transfer->changed, &engine->lock);
    enum http_failure outcome = transfer->outcome;
    (void)pthread_mutex_unlock(&engine->lock);
    if (outcome != HTTP_COMPLETE && err != NULL)
        *err = transfer->error;
    release_transfer(transfer);
    return outcome;
}
