#include "core.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- start and end ---- */

static pthread_once_t start_once = PTHREAD_ONCE_INIT;

/* Every failed handshake is an "error" to gRPC, also one of a passing port scanner. What matters
 * comes back as the status of a call. */
static void log_from_grpc(gpr_log_func_args *args)
{
    char line[16];
    snprintf(line, sizeof(line), "%d", args->line);
    const char *file = strrchr(args->file, '/');
    base_log(BASE_LOG_DEBUG, "grpc", "text", args->message, "file",
             file != NULL ? file + 1 : args->file, "line", line, NULL);
}

static void start(void)
{
    sigset_t all;
    sigset_t old;
    gpr_set_log_function(log_from_grpc);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    grpc_init();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void rpc_core_start(void)
{
    pthread_once(&start_once, start);
}

/* ---- slices and metadata ---- */

struct lake_str rpc_slice_view(const grpc_slice *slice)
{
    return (struct lake_str){(const char *)GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice)};
}

struct lake_str rpc_metadata_find(const grpc_metadata_array *metadata, const char *name)
{
    for (size_t i = 0; i < metadata->count; i++) {
        if (base_str_equal_c(rpc_slice_view(&metadata->metadata[i].key), name)) {
            return rpc_slice_view(&metadata->metadata[i].value);
        }
    }
    return (struct lake_str){NULL, 0};
}

bool rpc_header_name_valid(const char *name)
{
    struct lake_str s = base_str_of(name);
    if (s.size == 0 || s.data[0] == ':' || base_str_has_prefix(s, "grpc-") ||
        base_str_has_suffix(s, "-bin")) {
        return false;
    }
    return grpc_header_key_is_legal(grpc_slice_from_static_buffer(s.data, s.size)) != 0;
}

bool rpc_header_value_valid(struct lake_str value)
{
    return grpc_header_nonbin_value_is_legal(
               grpc_slice_from_static_buffer(value.data, value.size)) != 0;
}

/* ---- messages ---- */

static void parts_release(struct rpc_part *parts, size_t part_count)
{
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].release != NULL) {
            parts[i].release(parts[i].context);
        }
    }
}

static grpc_slice slice_of_part(const struct rpc_part *part)
{
    if (part->copy) {
        grpc_slice slice = grpc_slice_from_copied_buffer(part->data, part->size);
        if (part->release != NULL) {
            part->release(part->context);
        }
        return slice;
    }
    if (part->release == NULL) {
        return grpc_slice_from_static_buffer(part->data, part->size);
    }
    /* gRPC never writes through it. */
    return grpc_slice_new_with_user_data((void *)(uintptr_t)part->data, part->size, part->release,
                                         part->context);
}

#define PARTS_ON_STACK 32

lake_status rpc_message_new(struct rpc_part *parts, size_t part_count, grpc_byte_buffer **out,
                            struct lake_error *err)
{
    grpc_slice on_stack[PARTS_ON_STACK];
    grpc_slice *slices = on_stack;
    if (part_count > PARTS_ON_STACK) {
        slices = base_alloc_array(part_count, sizeof(*slices));
        if (slices == NULL) {
            parts_release(parts, part_count);
            return base_fail_no_memory(err, part_count * sizeof(*slices));
        }
    }
    size_t count = 0;
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].size > 0) {
            slices[count++] = slice_of_part(&parts[i]);
        } else if (parts[i].release != NULL) {
            parts[i].release(parts[i].context);
        }
    }
    *out = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(slices[i]);
    }
    if (slices != on_stack) {
        base_free(slices);
    }
    return LAKE_OK;
}

#define PAYLOAD_ALIGN 64

lake_status rpc_payload_gather(grpc_byte_buffer *buffer, struct rpc_payload *out,
                               struct lake_error *err)
{
    grpc_byte_buffer_reader reader;
    if (buffer->data.raw.compression != GRPC_COMPRESS_NONE) {
        return lake_fail(err, LAKE_UNIMPLEMENTED, "compressed messages are not taken");
    }
    if (!grpc_byte_buffer_reader_init(&reader, buffer)) {
        return lake_fail(err, LAKE_INTERNAL, "a received message cannot be read");
    }
    lake_status status = LAKE_OK;
    size_t size = grpc_byte_buffer_length(reader.buffer_out);
    size_t padded;
    uint8_t *memory = NULL;
    if (!base_size_add(size, PAYLOAD_ALIGN, &padded) || (memory = base_alloc(padded)) == NULL) {
        status = base_fail_no_memory(err, size);
        goto out;
    }
    uintptr_t start = ((uintptr_t)memory + PAYLOAD_ALIGN - 1) & ~(uintptr_t)(PAYLOAD_ALIGN - 1);
    uint8_t *data = memory + (start - (uintptr_t)memory);
    size_t position = 0;
    grpc_slice *slice;
    while (grpc_byte_buffer_reader_peek(&reader, &slice)) {
        struct lake_str view = rpc_slice_view(slice);
        size_t take = BASE_MIN(view.size, size - position);
        memcpy(data + position, view.data, take);
        position += take;
    }
    *out = (struct rpc_payload){.bytes = {data, size}, .owner = memory};
out:
    grpc_byte_buffer_reader_destroy(&reader);
    return status;
}

void rpc_payload_fini(struct rpc_payload *payload)
{
    base_free(payload->owner);
    *payload = (struct rpc_payload){{NULL, 0}, NULL};
}

/* ---- codes ---- */

grpc_status_code rpc_status_to_grpc(lake_status status)
{
    return (int)status >= 0 && (int)status <= LAKE_UNAUTHENTICATED ? (grpc_status_code)status
                                                                   : GRPC_STATUS_UNKNOWN;
}

lake_status rpc_status_from_grpc(grpc_status_code code, struct lake_str header, bool *own)
{
    lake_status status =
        (int)code >= 0 && (int)code <= LAKE_UNAUTHENTICATED ? (lake_status)code : LAKE_UNKNOWN;
    uint64_t number;
    *own = base_str_to_u64(header, &number);
    if (*own && status == LAKE_UNKNOWN && number == LAKE_OUTCOME_UNKNOWN) {
        return LAKE_OUTCOME_UNKNOWN;
    }
    return status;
}

gpr_timespec rpc_deadline_after(int64_t ms)
{
    /* Beyond a century gRPC's own arithmetic is for ever. */
    if (ms > INT64_C(100) * 366 * 86400 * 1000) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(BASE_MAX(ms, 0), GPR_TIMESPAN));
}
