/*
 * base: what every other folder stands on.
 *
 * Errors, views and buffers, checked sizes, the one bounded cursor for bytes from outside, arenas,
 * clocks, UUIDv7, SHA-256, hexadecimal, JSON, configuration from the environment, structured logs,
 * secrets, bounded worker pools and fault points.
 *
 * Thread rule: functions are thread-safe; objects belong to one thread at a time unless their
 * comment says otherwise.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <lake/status.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define BASE_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define BASE_MAX(a, b)    ((a) > (b) ? (a) : (b))

/* ---- errors ---- */

/* Fills `err` (may be NULL) and returns `code`, so that a failing path is one statement:
 * `return lake_fail(err, LAKE_NOT_FOUND, "…", …);`. A message too long is cut at a character. */
lake_status lake_fail(struct lake_error *err, lake_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As lake_fail, for a failure with another below it: the present message of `err` becomes the
 * cause (an older cause is kept at its end as far as it fits). */
lake_status lake_fail_wrap(struct lake_error *err, lake_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Maps an errno value to a status: ENOENT NOT_FOUND, EEXIST ALREADY_EXISTS, ENOSPC/EDQUOT/EMFILE/
 * ENOMEM RESOURCE_EXHAUSTED, EACCES/EPERM PERMISSION_DENIED, EADDRINUSE ALREADY_EXISTS, else
 * UNAVAILABLE. */
lake_status base_status_of_errno(int error_number);

/* lake_fail with ": <strerror>" at the end and the status of `error_number`. */
lake_status base_fail_errno(struct lake_error *err, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

lake_status base_fail_no_memory(struct lake_error *err, size_t size_bytes);

/* ---- views: borrowed, length-carrying, by value ---- */

struct lake_bytes {
    const uint8_t *data;
    size_t size;
};

struct lake_str {
    const char *data; /* UTF-8 by convention, not NUL-terminated */
    size_t size;
};

#define LAKE_STR(literal) ((struct lake_str){(literal), sizeof(literal) - 1})
/* For printf: `"%.*s", LAKE_STR_FMT(s)`. */
#define LAKE_STR_FMT(s) \
    (int)BASE_MIN((s).size, (size_t)INT32_MAX), ((s).data == NULL ? "" : (s).data)

struct lake_str base_str_of(const char *c_string); /* NULL gives the empty view */
struct lake_bytes base_bytes_of_str(struct lake_str s);
bool base_str_equal(struct lake_str a, struct lake_str b);
bool base_str_equal_c(struct lake_str a, const char *b);
bool base_str_has_prefix(struct lake_str s, const char *prefix);
bool base_str_has_suffix(struct lake_str s, const char *suffix);
/* Without blanks and tabs at both ends, and the CR of a line that ends in CR LF. */
struct lake_str base_str_trim(struct lake_str s);
bool base_bytes_equal(struct lake_bytes a, struct lake_bytes b);
bool base_utf8_valid(struct lake_str s);
/* Decimal, all of `s`, no sign, no blanks; false on anything else or overflow. */
bool base_str_to_u64(struct lake_str s, uint64_t *out);

/* ---- memory ---- */

/* The process's allocator with the fault counter of base_fault_fail_nth_alloc in front. */
void *base_alloc(size_t size_bytes);       /* NULL when out of memory; 0 gives 1 */
void *base_alloc_large(size_t size_bytes); /* for MiB that are filled soon: fewer page faults */
void *base_alloc_array(size_t count, size_t item_bytes);  /* checked product */
void *base_calloc_array(size_t count, size_t item_bytes); /* zeroed, checked product */
void *base_realloc_array(void *old, size_t count, size_t item_bytes);
void base_free(void *memory);
/* For a program's main, not for a library: lets the allocator keep some MiB of what is freed. A
 * stream of batches of a MiB or more otherwise gives its pages back after each and faults them in
 * again for the next, half of what a scan costs. */
void base_memory_tune(void);
char *base_strndup(const char *data, size_t size); /* NUL-terminated copy */
char *base_strdup(const char *c_string);
/* printf into fresh memory; NULL when out of memory. */
char *base_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Checked sizes: false on overflow, `*out` untouched. */
bool base_size_add(size_t a, size_t b, size_t *out);
bool base_size_mul(size_t a, size_t b, size_t *out);
bool base_u64_add(uint64_t a, uint64_t b, uint64_t *out);
bool base_u64_mul(uint64_t a, uint64_t b, uint64_t *out);
/* Rounds up to a multiple of a power of two; the caller has excluded overflow. */
#define BASE_ALIGN_UP(n, to) (((n) + ((to)-1)) & ~((to)-1))

/* A growing byte buffer with a hard maximum, given at its start. */
struct base_buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t max_bytes;
};

void base_buffer_init(struct base_buffer *buffer, size_t max_bytes);
void base_buffer_fini(struct base_buffer *buffer);
void base_buffer_clear(struct base_buffer *buffer); /* keeps the memory */
/* RESOURCE_EXHAUSTED past max_bytes or out of memory; the buffer stays as it was. */
lake_status base_buffer_reserve(struct base_buffer *buffer, size_t more_bytes,
                                struct lake_error *err);
lake_status base_buffer_append(struct base_buffer *buffer, const void *data, size_t size_bytes,
                               struct lake_error *err);
lake_status base_buffer_append_zeros(struct base_buffer *buffer, size_t count,
                                     struct lake_error *err);
lake_status base_buffer_printf(struct base_buffer *buffer, struct lake_error *err,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));
lake_status base_buffer_append_varint(struct base_buffer *buffer, uint64_t value,
                                      struct lake_error *err); /* protobuf base-128 */
/* Moves the memory out (the caller frees it with base_free) and leaves the buffer empty. */
uint8_t *base_buffer_take(struct base_buffer *buffer, size_t *size_bytes);
struct lake_bytes base_buffer_view(const struct base_buffer *buffer);

/* A bump allocator that frees everything at once. Under sanitizers each piece is its own malloc. */
struct base_arena;
lake_status base_arena_new(size_t max_bytes, struct base_arena **out, struct lake_error *err);
void base_arena_free(struct base_arena *arena);                      /* NULL is allowed */
void *base_arena_alloc(struct base_arena *arena, size_t size_bytes); /* 16-aligned; NULL past max */
void *base_arena_calloc_array(struct base_arena *arena, size_t count, size_t item_bytes);
char *base_arena_strndup(struct base_arena *arena, const char *data, size_t size);
/* True after a piece was refused for want of memory, not for the maximum: what was being read may
 * be good. */
bool base_arena_out_of_memory(const struct base_arena *arena);

/* ---- the cursor: the only way to read bytes from disk or network ---- */

struct base_cursor {
    const uint8_t *data;
    size_t size;
    size_t position; /* never above size */
};

struct base_cursor base_cursor_of(struct lake_bytes bytes);
size_t base_cursor_left(const struct base_cursor *cursor);
/* Each returns false and moves nothing when fewer bytes are left than it needs. */
bool base_cursor_u8(struct base_cursor *cursor, uint8_t *out);
bool base_cursor_u16le(struct base_cursor *cursor, uint16_t *out);
bool base_cursor_u32le(struct base_cursor *cursor, uint32_t *out);
bool base_cursor_u64le(struct base_cursor *cursor, uint64_t *out);
bool base_cursor_take(struct base_cursor *cursor, size_t size, struct lake_bytes *out);
bool base_cursor_skip(struct base_cursor *cursor, size_t size);
bool base_cursor_varint(struct base_cursor *cursor, uint64_t *out); /* at most 10 bytes */
/* Protobuf wire format: the tag (field number and wire type 0, 1, 2, 5) and skipping its value. */
bool base_cursor_tag(struct base_cursor *cursor, uint32_t *field, uint32_t *wire_type);
bool base_cursor_skip_field(struct base_cursor *cursor, uint32_t wire_type);
bool base_cursor_length_delimited(struct base_cursor *cursor, struct lake_bytes *out);

static inline uint16_t base_load_u16le(const void *p)
{
    uint16_t v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}
static inline uint32_t base_load_u32le(const void *p)
{
    uint32_t v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}
static inline uint64_t base_load_u64le(const void *p)
{
    uint64_t v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
}
static inline void base_store_u16le(void *p, uint16_t v)
{
    __builtin_memcpy(p, &v, sizeof(v));
}
static inline void base_store_u32le(void *p, uint32_t v)
{
    __builtin_memcpy(p, &v, sizeof(v));
}
static inline void base_store_u64le(void *p, uint64_t v)
{
    __builtin_memcpy(p, &v, sizeof(v));
}

/* ---- clocks and identifiers ---- */

int64_t base_clock_unix_ms(void);
int64_t base_clock_monotonic_us(void);
void base_sleep_ms(int64_t ms);

#define BASE_UUID_TEXT_BYTES 37 /* with the NUL */
struct base_uuid {
    uint8_t bytes[16];
};
/* RFC 9562 version 7: 48 bits of Unix milliseconds, then random; later calls of one process give
 * larger values. INTERNAL when the system has no randomness. */
lake_status base_uuid7_new(struct base_uuid *out, struct lake_error *err);
lake_status base_uuid4_new(struct base_uuid *out, struct lake_error *err);
void base_uuid_format(const struct base_uuid *uuid, char out[BASE_UUID_TEXT_BYTES]);
/* Accepts 8-4-4-4-12 hexadecimal in either case. */
bool base_uuid_parse(struct lake_str text, struct base_uuid *out);
int base_uuid_version(const struct base_uuid *uuid);
int64_t base_uuid7_unix_ms(const struct base_uuid *uuid);
lake_status base_random_bytes(void *out, size_t size, struct lake_error *err);

/* ---- digests and hexadecimal ---- */

#define BASE_SHA256_BYTES     32
#define BASE_SHA256_HEX_BYTES 65 /* with the NUL */
struct base_sha256;              /* uses the CPU's SHA instructions where there are any */
lake_status base_sha256_new(struct base_sha256 **out, struct lake_error *err);
void base_sha256_free(struct base_sha256 *hash); /* NULL is allowed */
lake_status base_sha256_update(struct base_sha256 *hash, const void *data, size_t size_bytes,
                               struct lake_error *err);
/* Ends the digest; the object can only be freed or reset afterwards. */
lake_status base_sha256_final(struct base_sha256 *hash, uint8_t out[BASE_SHA256_BYTES],
                              struct lake_error *err);
lake_status base_sha256_reset(struct base_sha256 *hash, struct lake_error *err);
lake_status base_sha256_once(struct lake_bytes data, uint8_t out[BASE_SHA256_BYTES],
                             struct lake_error *err);

/* Two digests of the same bytes at little more than the price of one: of the whole, and of each of
 * its parts. `portable`: without instructions of our own. */
struct base_sha256_pair;
lake_status base_sha256_pair_new(bool portable, struct base_sha256_pair **out,
                                 struct lake_error *err);
void base_sha256_pair_free(struct base_sha256_pair *pair); /* NULL is allowed */
lake_status base_sha256_pair_update(struct base_sha256_pair *pair, struct lake_bytes data,
                                    struct lake_error *err);
/* Ends a part, at a multiple of 64 bytes of the whole; the next one begins. */
lake_status base_sha256_pair_next(struct base_sha256_pair *pair, uint8_t part[BASE_SHA256_BYTES],
                                  struct lake_error *err);
/* Ends the whole and its last part; the pair can only be freed afterwards. */
lake_status base_sha256_pair_final(struct base_sha256_pair *pair, uint8_t whole[BASE_SHA256_BYTES],
                                   uint8_t part[BASE_SHA256_BYTES], struct lake_error *err);

void base_hex_encode(struct lake_bytes data, char *out);  /* 2 × size + NUL, lower case */
bool base_hex_decode(struct lake_str text, uint8_t *out); /* text.size / 2 bytes */
/* Exactly 64 lower-case hexadecimal digits (OBJ-5). */
bool base_sha256_hex_valid(struct lake_str text);

/* ---- secrets ---- */

/* Bytes that are zeroed when released and are never formatted. */
struct base_secret {
    uint8_t *data;
    size_t size;
};
lake_status base_secret_copy(struct base_secret *out, struct lake_bytes value,
                             struct lake_error *err);
void base_secret_fini(struct base_secret *secret);
bool base_secret_equal(const struct base_secret *secret,
                       struct lake_bytes value); /* constant time */
/* Reads a regular file of at most max_bytes, without group or other bits, cuts one trailing
 * newline, refuses an empty one. The error names the path and what is wrong with it. */
lake_status base_secret_read_file(struct base_secret *out, const char *path, size_t max_bytes,
                                  struct lake_error *err);

/* ---- directories ---- */

/* mkdir -p: makes `directory` and those above it; each new one is synced into the one above. */
lake_status base_make_directories(const char *directory, struct lake_error *err);

/* ---- JSON ---- */

/* Reading is jansson's, behind limits: depth 64, duplicate keys refused, size bounded. `json_t` is
 * jansson's type; include <jansson.h> to walk it. */
struct json_t;
lake_status base_json_parse(struct lake_bytes text, size_t max_bytes, struct json_t **out,
                            struct lake_error *err); /* release with json_decref */
/* Appends `s` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
lake_status base_json_append_string(struct base_buffer *buffer, struct lake_str s,
                                    struct lake_error *err);

/* ---- configuration from the environment ---- */

/* Unset or empty gives `fallback`. A value that does not parse or lies outside [min, max] is
 * INVALID_ARGUMENT naming the variable and the range. */
lake_status base_config_u64(const char *variable, uint64_t fallback, uint64_t min, uint64_t max,
                            uint64_t *out, struct lake_error *err);
lake_status base_config_bool(const char *variable, bool fallback, bool *out,
                             struct lake_error *err); /* true, false, 1, 0 */
const char *base_config_string(const char *variable, const char *fallback);

/* ---- structured logs (OPS-2) ---- */

enum base_log_level {
    BASE_LOG_DEBUG,
    BASE_LOG_INFO,
    BASE_LOG_WARN,
    BASE_LOG_ERROR
};
/* One JSON object a line on stderr: ts, level, msg, then pairs of name and value, ending in NULL:
 * base_log(BASE_LOG_INFO, "listening", "address", addr, NULL). Values are C strings; numbers are
 * formatted by the caller. Level from LAKE_LOG (debug, info, warn, error; default info). */
void base_log(enum base_log_level level, const char *message, ...) __attribute__((sentinel));
void base_log_set_level(enum base_log_level level);

/* ---- worker pool ---- */

/* A fixed number of threads and a bounded queue. Thread-safe. */
struct base_pool;
typedef void (*base_pool_task)(void *context);
lake_status base_pool_new(uint32_t thread_count, uint32_t queue_limit, struct base_pool **out,
                          struct lake_error *err);
/* RESOURCE_EXHAUSTED when the queue is full: the task will not run. */
lake_status base_pool_submit(struct base_pool *pool, base_pool_task task, void *context,
                             struct lake_error *err);
/* Runs what is queued, joins every thread. NULL is allowed. */
void base_pool_free(struct base_pool *pool);

/* ---- fault points ---- */

/*
 * A named step at which tests make the process die, fail or wait. LAKE_FAULT holds
 * `name:nth:action[,…]`, action one of `kill` (SIGKILL to itself), `error` (the caller gets
 * UNAVAILABLE), `pause` (SIGSTOP to itself, until somebody's SIGCONT), `stop-<ms>` (sleeps).
 * Without the variable it costs one load and a branch.
 */
#define BASE_FAULT(name, err) \
    (__builtin_expect(base_fault_armed, 0) ? base_fault_hit((name), (err)) : LAKE_OK)
extern bool base_fault_armed;
lake_status base_fault_hit(const char *name, struct lake_error *err);
/* Parses and arms; NULL or "" disarms. Called once at start with getenv("LAKE_FAULT"). */
lake_status base_fault_configure(const char *spec, struct lake_error *err);
/* The nth allocation from now (1 is the next) of base_alloc and its kin fails, once; 0 disarms.
 * Returns through base_fault_alloc_count how many have happened since it was set. */
void base_fault_fail_nth_alloc(uint64_t nth);
uint64_t base_fault_alloc_count(void);
/* The same for I/O operations of `storage` and `kv`, which call base_fault_io before each. */
void base_fault_fail_nth_io(uint64_t nth);
uint64_t base_fault_io_count(void);
lake_status base_fault_io(const char *what, struct lake_error *err);

#endif
