#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_security.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX_BYTES (1024 * 1024)

/* A whole regular file, NUL-terminated. Its mode is not checked: orchestrators mount keys with a
 * group's bits. */
static lake_status read_pem(const char *path, char **out, size_t *size_out, struct lake_error *err)
{
    lake_status status = LAKE_OK;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return base_fail_errno(err, errno, "cannot open the TLS file %s", path);
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        status = base_fail_errno(err, errno, "cannot examine the TLS file %s", path);
        goto out;
    }
    if (!S_ISREG(info.st_mode) || info.st_size <= 0 || info.st_size > PEM_MAX_BYTES) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the TLS file %s must be a regular file of 1 to %d bytes", path,
                           PEM_MAX_BYTES);
        goto out;
    }
    size_t size = (size_t)info.st_size;
    text = base_alloc(size + 1);
    if (text == NULL) {
        status = base_fail_no_memory(err, size + 1);
        goto out;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, text + done, size - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            status = n < 0 ? base_fail_errno(err, errno, "cannot read the TLS file %s", path)
                           : lake_fail(err, LAKE_UNAVAILABLE,
                                       "the TLS file %s shrank while it was read", path);
            goto out;
        }
        done += (size_t)n;
    }
    text[size] = '\0';
    *out = text;
    *size_out = size;
    text = NULL;
out:
    base_free(text);
    close(fd);
    return status;
}

/* gRPC would only say that the port could not be bound. */
static lake_status check_pair(const char *cert_path, const char *cert, size_t cert_size,
                              const char *key_path, const char *key, size_t key_size,
                              struct lake_error *err)
{
    lake_status status = LAKE_OK;
    X509 *x509 = NULL;
    EVP_PKEY *pkey = NULL;
    BIO *cert_bio = BIO_new_mem_buf(cert, (int)cert_size);
    BIO *key_bio = BIO_new_mem_buf(key, (int)key_size);
    if (cert_bio == NULL || key_bio == NULL) {
        status = base_fail_no_memory(err, 0);
        goto out;
    }
    x509 = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);
    if (x509 == NULL) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the TLS certificate file %s holds no PEM certificate", cert_path);
        goto out;
    }
    /* The empty password keeps libcrypto from asking on the terminal. */
    pkey = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, (void *)(uintptr_t) "");
    if (pkey == NULL) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the TLS key file %s holds no unencrypted PEM private key", key_path);
        goto out;
    }
    if (X509_check_private_key(x509, pkey) != 1) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "the TLS key in %s does not belong to the certificate in %s", key_path,
                           cert_path);
        goto out;
    }
    if (X509_cmp_current_time(X509_get0_notAfter(x509)) < 0) {
        base_log(BASE_LOG_WARN, "the TLS certificate has expired", "path", cert_path, NULL);
    }
out:
    EVP_PKEY_free(pkey);
    X509_free(x509);
    BIO_free(key_bio);
    BIO_free(cert_bio);
    ERR_clear_error();
    return status;
}

lake_status rpc_tls_server_credentials(const char *cert_path, const char *key_path,
                                       grpc_server_credentials **out, struct lake_error *err)
{
    char *cert = NULL;
    char *key = NULL;
    size_t cert_size = 0;
    size_t key_size = 0;
    lake_status status = read_pem(cert_path, &cert, &cert_size, err);
    if (status == LAKE_OK) {
        status = read_pem(key_path, &key, &key_size, err);
    }
    if (status == LAKE_OK) {
        status = check_pair(cert_path, cert, cert_size, key_path, key, key_size, err);
    }
    if (status != LAKE_OK) {
        goto out;
    }
    grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = cert};
    *out = grpc_ssl_server_credentials_create_ex(NULL, &pair, 1,
                                                 GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE, NULL);
    if (*out == NULL) {
        status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                           "gRPC does not accept the TLS certificate in %s", cert_path);
    }
out:
    if (key != NULL) {
        OPENSSL_cleanse(key, key_size);
    }
    base_free(key);
    base_free(cert);
    return status;
}
