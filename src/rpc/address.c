#include "core.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

lake_status rpc_address_parse(const char *text, struct rpc_address *out, struct lake_error *err)
{
    struct lake_str whole = base_str_of(text);
    const char *colon = whole.size > 0 ? strrchr(text, ':') : NULL;
    uint64_t port = 0;
    if (colon == NULL || !base_str_to_u64(base_str_of(colon + 1), &port) || port > UINT16_MAX) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the address \"%.*s\" is not host:port, such as 127.0.0.1:50051",
                         LAKE_STR_FMT(whole));
    }
    struct lake_str host = {text, (size_t)(colon - text)};
    if (host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']') {
        host = (struct lake_str){host.data + 1, host.size - 2};
    } else if (memchr(host.data, ':', host.size) != NULL) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT,
                         "the address \"%s\" has an IPv6 host: write it in brackets, such as "
                         "[::1]:50051",
                         text);
    }
    if (host.size == 0 || host.size >= sizeof(out->host) ||
        memchr(host.data, '/', host.size) != NULL) {
        return lake_fail(
            err, LAKE_INVALID_ARGUMENT,
            "the address \"%s\" has no usable host: give an IP address or a name, such "
            "as 127.0.0.1:50051",
            text);
    }
    memcpy(out->host, host.data, host.size);
    out->host[host.size] = '\0';
    out->port = (uint16_t)port;
    return LAKE_OK;
}

static lake_status resolve(const struct rpc_address *address, struct addrinfo **out,
                           struct lake_error *err)
{
    char port[8];
    snprintf(port, sizeof(port), "%u", address->port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int rc = getaddrinfo(address->host, port, &hints, out);
    if (rc != 0) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the host \"%s\" cannot be resolved: %s",
                         address->host, gai_strerror(rc));
    }
    return LAKE_OK;
}

static bool sockaddr_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && v6.sin6_addr.s6_addr[12] == 127);
    }
    return false;
}

lake_status rpc_address_is_loopback(const struct rpc_address *address, bool *out,
                                    struct lake_error *err)
{
    struct addrinfo *list = NULL;
    lake_status status = resolve(address, &list, err);
    if (status != LAKE_OK) {
        return status;
    }
    bool loopback = list != NULL;
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        loopback = loopback && sockaddr_is_loopback(a->ai_addr);
    }
    freeaddrinfo(list);
    *out = loopback;
    return LAKE_OK;
}

static lake_status probe_one(const struct addrinfo *a, const char *text, struct lake_error *err)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) {
        /* A machine without IPv6 still serves the IPv4 half of a name. */
        return errno == EAFNOSUPPORT ? LAKE_OK
                                     : base_fail_errno(err, errno, "no socket for %s", text);
    }
    int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    lake_status status = LAKE_OK;
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0) {
        if (errno == EADDRINUSE) {
            status = lake_fail(err, LAKE_ALREADY_EXISTS,
                               "cannot listen on %s: the port is in use by another process; stop "
                               "it or choose another port",
                               text);
        } else if (errno == EADDRNOTAVAIL) {
            status = lake_fail(err, LAKE_INVALID_ARGUMENT,
                               "cannot listen on %s: it is not an address of this machine", text);
        } else {
            status = base_fail_errno(err, errno, "cannot listen on %s", text);
        }
    }
    close(fd);
    return status;
}

lake_status rpc_address_probe(const struct rpc_address *address, const char *text,
                              struct lake_error *err)
{
    if (address->port == 0) {
        return LAKE_OK;
    }
    struct addrinfo *list = NULL;
    lake_status status = resolve(address, &list, err);
    for (const struct addrinfo *a = list; a != NULL && status == LAKE_OK; a = a->ai_next) {
        status = probe_one(a, text, err);
    }
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return status;
}
