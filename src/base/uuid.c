/* Randomness, and UUIDs of versions 4 and 7 (RFC 9562). */
#include "base.h"
#include "base_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define TAIL_HIGH_MAX ((uint64_t)0xFFF)
#define TAIL_LOW_MAX  (((uint64_t)1 << 62) - 1)

static pthread_mutex_t uuid7_lock = PTHREAD_MUTEX_INITIALIZER; /* guards uuid7_state */
static struct base_uuid7_state uuid7_state;

lake_status base_random_bytes(void *out, size_t size, struct lake_error *err)
{
    uint8_t *next = out;
    while (size > 0) {
        ssize_t got = getrandom(next, size, 0);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return lake_fail(err, LAKE_INTERNAL, "the system gives no random bytes: errno %d",
                             errno);
        }
        next += got;
        size -= (size_t)got;
    }
    return LAKE_OK;
}

static uint64_t load_u64be(const uint8_t *p)
{
    return __builtin_bswap64(base_load_u64le(p));
}

static void store_u64be(uint8_t *p, uint64_t value)
{
    base_store_u64le(p, __builtin_bswap64(value));
}

void base_uuid7_next(struct base_uuid7_state *state, uint64_t now_ms, const uint8_t random[16],
                     struct base_uuid *out)
{
    bool fresh = now_ms > state->unix_ms;
    if (fresh)
        state->unix_ms = now_ms;
    if (!fresh) {
        /* A random step keeps the next identifier from being guessed from the last. */
        state->tail_low += 1 + (uint64_t)base_load_u32le(random);
        if (state->tail_low > TAIL_LOW_MAX) {
            state->tail_low &= TAIL_LOW_MAX;
            state->tail_high++;
        }
        if (state->tail_high > TAIL_HIGH_MAX) {
            state->unix_ms++;
            fresh = true;
        }
    }
    if (fresh) {
        state->tail_high = load_u64be(random) & TAIL_HIGH_MAX;
        state->tail_low = load_u64be(random + 8) & TAIL_LOW_MAX;
    }
    store_u64be(out->bytes, state->unix_ms << 16 | (uint64_t)7 << 12 | state->tail_high);
    store_u64be(out->bytes + 8, (uint64_t)2 << 62 | state->tail_low);
}

lake_status base_uuid7_new(struct base_uuid *out, struct lake_error *err)
{
    uint8_t random[16];
    lake_status status = base_random_bytes(random, sizeof(random), err);
    if (status != LAKE_OK)
        return status;
    (void)pthread_mutex_lock(&uuid7_lock);
    base_uuid7_next(&uuid7_state, (uint64_t)base_clock_unix_ms(), random, out);
    (void)pthread_mutex_unlock(&uuid7_lock);
    return LAKE_OK;
}

lake_status base_uuid4_new(struct base_uuid *out, struct lake_error *err)
{
    struct base_uuid uuid;
    lake_status status = base_random_bytes(uuid.bytes, sizeof(uuid.bytes), err);
    if (status != LAKE_OK)
        return status;
    uuid.bytes[6] = (uint8_t)((uuid.bytes[6] & 0x0F) | 0x40);
    uuid.bytes[8] = (uint8_t)((uuid.bytes[8] & 0x3F) | 0x80);
    *out = uuid;
    return LAKE_OK;
}

static bool dash_before(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void base_uuid_format(const struct base_uuid *uuid, char out[BASE_UUID_TEXT_BYTES])
{
    char *next = out;
    for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
        if (dash_before(i))
            *next++ = '-';
        base_hex_encode((struct lake_bytes){&uuid->bytes[i], 1}, next);
        next += 2;
    }
}

bool base_uuid_parse(struct lake_str text, struct base_uuid *out)
{
    if (text.size != BASE_UUID_TEXT_BYTES - 1)
        return false;
    struct base_uuid uuid;
    const char *next = text.data;
    for (size_t i = 0; i < sizeof(uuid.bytes); i++) {
        if (dash_before(i) && *next++ != '-')
            return false;
        if (!base_hex_decode((struct lake_str){next, 2}, &uuid.bytes[i]))
            return false;
        next += 2;
    }
    *out = uuid;
    return true;
}

int base_uuid_version(const struct base_uuid *uuid)
{
    return uuid->bytes[6] >> 4;
}

int64_t base_uuid7_unix_ms(const struct base_uuid *uuid)
{
    return (int64_t)(load_u64be(uuid->bytes) >> 16);
}
