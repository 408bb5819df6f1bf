/* Secrets: zeroed when released, compared without telling where they differ. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

lake_status base_secret_copy(struct base_secret *out, struct lake_bytes value,
                             struct lake_error *err)
{
    uint8_t *data = base_alloc(value.size);
    if (data == NULL)
        return base_fail_no_memory(err, value.size);
    if (value.size > 0)
        memcpy(data, value.data, value.size);
    *out = (struct base_secret){data, value.size};
    return LAKE_OK;
}

void base_secret_fini(struct base_secret *secret)
{
    if (secret->data != NULL)
        explicit_bzero(secret->data, secret->size);
    base_free(secret->data);
    *secret = (struct base_secret){NULL, 0};
}

bool base_secret_equal(const struct base_secret *secret, struct lake_bytes value)
{
    /* The lengths are compared openly: a token's length is no secret. */
    if (secret->size != value.size)
        return false;
    return value.size == 0 || CRYPTO_memcmp(secret->data, value.data, value.size) == 0;
}

static lake_status check_file(int fd, const char *path, size_t max_bytes, size_t *size_bytes,
                              struct lake_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return base_fail_errno(err, errno, "the secret file %s cannot be examined", path);
    if (!S_ISREG(info.st_mode))
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the secret file %s is not a regular file",
                         path);
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the secret file %s is open to its group or to others (mode %03o): "
                         "chmod 600 it",
                         path, (unsigned)(info.st_mode & 0777));
    if (info.st_size <= 0)
        return lake_fail(err, LAKE_FAILED_PRECONDITION, "the secret file %s is empty", path);
    if ((uint64_t)info.st_size > max_bytes)
        return lake_fail(err, LAKE_FAILED_PRECONDITION,
                         "the secret file %s has %lld bytes, the limit is %zu", path,
                         (long long)info.st_size, max_bytes);
    *size_bytes = (size_t)info.st_size;
    return LAKE_OK;
}

static lake_status read_exactly(int fd, const char *path, uint8_t *out, size_t size_bytes,
                                struct lake_error *err)
{
    size_t done = 0;
    while (done < size_bytes) {
        ssize_t got = read(fd, out + done, size_bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return base_fail_errno(err, errno, "the secret file %s cannot be read", path);
        if (got == 0)
            return lake_fail(err, LAKE_FAILED_PRECONDITION,
                             "the secret file %s became shorter while it was read", path);
        done += (size_t)got;
    }
    return LAKE_OK;
}

lake_status base_secret_read_file(struct base_secret *out, const char *path, size_t max_bytes,
                                  struct lake_error *err)
{
    struct base_secret secret = {NULL, 0};
    lake_status status;
    /* O_NONBLOCK: a FIFO in the file's place must not make the start hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return base_fail_errno(err, errno, "the secret file %s cannot be opened", path);
    size_t size_bytes = 0;
    status = check_file(fd, path, max_bytes, &size_bytes, err);
    if (status != LAKE_OK)
        goto out;
    secret.data = base_alloc(size_bytes);
    if (secret.data == NULL) {
        status = base_fail_no_memory(err, size_bytes);
        goto out;
    }
    secret.size = size_bytes;
    status = read_exactly(fd, path, secret.data, size_bytes, err);
    if (status != LAKE_OK)
        goto out;
    if (secret.data[secret.size - 1] == '\n')
        secret.size--;
    if (secret.size == 0) {
        status = lake_fail(err, LAKE_FAILED_PRECONDITION,
                           "the secret file %s holds nothing but a newline", path);
        goto out;
    }
    *out = secret;
    secret = (struct base_secret){NULL, 0};
out:
    base_secret_fini(&secret);
    (void)close(fd);
    return status;
}
