/* SHA-256 by OpenSSL, whose assembly uses the CPU's SHA instructions; and hexadecimal. */
#include "base.h"

#include <openssl/evp.h>

/* Fetching walks the providers under locks, so it is done once for the process. */
static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;
static EVP_MD *sha256_method;

static void fetch_method(void)
{
    sha256_method = EVP_MD_fetch(NULL, "SHA2-256", NULL);
}

struct base_sha256 {
    EVP_MD_CTX *context;
    bool ended;
};

static lake_status fail_openssl(struct lake_error *err, const char *what)
{
    return lake_fail(err, LAKE_INTERNAL, "SHA-256: OpenSSL cannot %s", what);
}

lake_status base_sha256_new(struct base_sha256 **out, struct lake_error *err)
{
    (void)pthread_once(&fetch_once, fetch_method);
    if (sha256_method == NULL)
        return fail_openssl(err, "provide the digest: check its configuration file");
    struct base_sha256 *hash = base_alloc(sizeof(*hash));
    if (hash == NULL)
        return base_fail_no_memory(err, sizeof(*hash));
    hash->context = EVP_MD_CTX_new();
    if (hash->context == NULL) {
        base_free(hash);
        return base_fail_no_memory(err, sizeof(*hash));
    }
    lake_status status = base_sha256_reset(hash, err);
    if (status != LAKE_OK) {
        base_sha256_free(hash);
        return status;
    }
    *out = hash;
    return LAKE_OK;
}

void base_sha256_free(struct base_sha256 *hash)
{
    if (hash == NULL)
        return;
    EVP_MD_CTX_free(hash->context);
    base_free(hash);
}

lake_status base_sha256_update(struct base_sha256 *hash, const void *data, size_t size_bytes,
                               struct lake_error *err)
{
    if (hash->ended)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "SHA-256: bytes were added after the digest had ended");
    if (size_bytes > 0 && EVP_DigestUpdate(hash->context, data, size_bytes) != 1)
        return fail_openssl(err, "take more bytes");
    return LAKE_OK;
}

lake_status base_sha256_final(struct base_sha256 *hash, uint8_t out[BASE_SHA256_BYTES],
                              struct lake_error *err)
{
    if (hash->ended)
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "SHA-256: the digest was ended twice");
    if (EVP_DigestFinal_ex(hash->context, out, NULL) != 1)
        return fail_openssl(err, "end the digest");
    hash->ended = true;
    return LAKE_OK;
}

lake_status base_sha256_reset(struct base_sha256 *hash, struct lake_error *err)
{
    if (EVP_DigestInit_ex2(hash->context, sha256_method, NULL) != 1)
        return fail_openssl(err, "start a digest");
    hash->ended = false;
    return LAKE_OK;
}

lake_status base_sha256_once(struct lake_bytes data, uint8_t out[BASE_SHA256_BYTES],
                             struct lake_error *err)
{
    struct base_sha256 *hash;
    lake_status status = base_sha256_new(&hash, err);
    if (status != LAKE_OK)
        return status;
    status = base_sha256_update(hash, data.data, data.size, err);
    if (status == LAKE_OK)
        status = base_sha256_final(hash, out, err);
    base_sha256_free(hash);
    return status;
}

void base_hex_encode(struct lake_bytes data, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < data.size; i++) {
        out[2 * i] = digits[data.data[i] >> 4];
        out[2 * i + 1] = digits[data.data[i] & 15];
    }
    out[2 * data.size] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool base_hex_decode(struct lake_str text, uint8_t *out)
{
    if (text.size % 2 != 0)
        return false;
    for (size_t i = 0; i < text.size; i += 2) {
        int high = hex_value(text.data[i]);
        int low = hex_value(text.data[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i / 2] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool base_sha256_hex_valid(struct lake_str text)
{
    if (text.size != BASE_SHA256_HEX_BYTES - 1)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return true;
}
