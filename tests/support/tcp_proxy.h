/*
 * A TCP proxy on loopback in a thread of its own, one connection at a time, that can lose what is
 * said. While `lose` is above zero, the next connection on which the client says something, the
 * present one or a new one, is lost: either cut at once, or everything goes to the server, its
 * answers are thrown away, and the connection is cut when `until` says so (or after 20 s).
 */
#ifndef TCP_PROXY_H
#define TCP_PROXY_H

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum tcp_proxy_loss {
    TCP_PROXY_LOSE_ANSWERS, /* the server gets everything, the client nothing */
    TCP_PROXY_LOSE_REQUESTS /* neither gets anything */
};

struct tcp_proxy {
    int listener;
    int target_port;
    char address[64];
    pthread_t thread;
    atomic_bool stopping;
    atomic_int lose; /* so many connections */
    atomic_int kind; /* enum tcp_proxy_loss */
    atomic_int lost;
    bool (*until)(void *context);
    void *context;
};

static inline int tcp_proxy_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

/* Moves what is there; false at the end of the connection. */
static inline bool tcp_proxy_move(int from, int to, bool discard)
{
    static _Thread_local char block[65536];
    ssize_t got = recv(from, block, sizeof(block), 0);
    if (got <= 0)
        return false;
    for (ssize_t sent = 0; !discard && sent < got;) {
        ssize_t now = send(to, block + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (now <= 0)
            return false;
        sent += now;
    }
    return true;
}

/* Whether this connection is one of those to lose: decided when the client says something. */
static inline bool tcp_proxy_is_next(struct tcp_proxy *proxy)
{
    if (atomic_load(&proxy->lose) <= 0)
        return false;
    atomic_fetch_sub(&proxy->lose, 1);
    atomic_fetch_add(&proxy->lost, 1);
    return true;
}

static inline void tcp_proxy_serve(struct tcp_proxy *proxy, int client, int server)
{
    bool losing = false;
    for (int idle = 0; !atomic_load(&proxy->stopping);) {
        struct pollfd ready[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        int count = poll(ready, 2, 10);
        idle = count == 0 ? idle + 1 : idle;
        if (losing && count == 0 && (proxy->until(proxy->context) || idle > 2000))
            return;
        losing = losing || (ready[0].revents != 0 && tcp_proxy_is_next(proxy));
        if (losing && atomic_load(&proxy->kind) == TCP_PROXY_LOSE_REQUESTS)
            return;
        if ((ready[0].revents != 0 && !tcp_proxy_move(client, server, false)) ||
            (ready[1].revents != 0 && !tcp_proxy_move(server, client, losing)))
            return;
    }
}

static inline void *tcp_proxy_run(void *context)
{
    struct tcp_proxy *proxy = context;
    while (!atomic_load(&proxy->stopping)) {
        struct pollfd ready = {proxy->listener, POLLIN, 0};
        if (poll(&ready, 1, 20) <= 0)
            continue;
        int client = accept(proxy->listener, NULL, NULL);
        int server = tcp_proxy_connect(proxy->target_port);
        if (server >= 0) {
            tcp_proxy_serve(proxy, client, server);
            close(server);
        }
        close(client);
    }
    return NULL;
}

static inline void tcp_proxy_start(struct tcp_proxy *proxy, int target_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    memset(proxy, 0, sizeof(*proxy));
    proxy->target_port = target_port;
    proxy->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(proxy->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(proxy->listener, 16) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&proxy->thread, NULL, tcp_proxy_run, proxy) != 0)
        perror("tcp_proxy");
    (void)snprintf(proxy->address, sizeof(proxy->address), "127.0.0.1:%d", ntohs(address.sin_port));
}

static inline void tcp_proxy_stop(struct tcp_proxy *proxy)
{
    atomic_store(&proxy->stopping, true);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
}

#endif
