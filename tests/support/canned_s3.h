/*
 * An S3 server of a few lines in a thread of its own, for unit tests: one object of `size` bytes
 * ('x' each) under every key, listings of two keys, uploads that always succeed. Every answer ends
 * its connection.
 */
#ifndef CANNED_S3_H
#define CANNED_S3_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct canned_s3 {
    int listener;
    char endpoint[64];
    size_t size;
    pthread_t thread;
    atomic_bool stopping;
    atomic_uint requests;
};

static inline void canned_send(int fd, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t now = send(fd, data + done, size - done, MSG_NOSIGNAL);
        if (now <= 0)
            return;
        done += (size_t)now;
    }
}

static inline void canned_reply(int fd, const char *status, const char *headers, const char *body)
{
    char head[512];
    int size = snprintf(head, sizeof(head),
                        "HTTP/1.1 %s\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n", status,
                        headers, strlen(body));
    canned_send(fd, head, (size_t)size);
    canned_send(fd, body, strlen(body));
}

/* The request's head with a NUL, after its body has been read away; false at a broken connection.
 */
static inline bool canned_receive(int fd, char *head, size_t capacity)
{
    size_t size = 0;
    char *end = NULL;
    while (end == NULL) {
        ssize_t got = size + 1 < capacity ? recv(fd, head + size, capacity - 1 - size, 0) : 0;
        if (got <= 0)
            return false;
        size += (size_t)got;
        head[size] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    const char *length = strcasestr(head, "content-length: ");
    size_t body = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
    size_t have = size - (size_t)(end + 4 - head);
    static _Thread_local char block[65536];
    while (have < body) {
        ssize_t got = recv(fd, block, sizeof(block), 0);
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

static inline void canned_object(const struct canned_s3 *server, int fd, const char *head)
{
    char headers[256];
    size_t first = 0;
    size_t last = server->size - 1;
    const char *range = strcasestr(head, "range: bytes=");
    if (range != NULL)
        (void)sscanf(range + 13, "%zu-%zu", &first, &last);
    char *body = malloc(last - first + 2);
    memset(body, 'x', last - first + 1);
    body[last - first + 1] = '\0';
    (void)snprintf(headers, sizeof(headers), "ETag: \"e\"\r\nContent-Range: bytes %zu-%zu/%zu\r\n",
                   first, last, server->size);
    canned_reply(fd, range == NULL ? "200 OK" : "206 Partial Content", headers, body);
    free(body);
}

static inline void canned_answer(const struct canned_s3 *server, int fd, const char *head)
{
    char line[512];
    (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(head, "\r"), head);
    if (strstr(line, "list-type=2") != NULL)
        canned_reply(fd, "200 OK", "",
                     "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>"
                     "<Size>1</Size></Contents><Contents><Key>b</Key><Size>2</Size></Contents>"
                     "</ListBucketResult>");
    else if (strncmp(line, "GET", 3) == 0 && strstr(line, "uploadId=") != NULL)
        canned_reply(fd, "200 OK", "",
                     "<ListPartsResult><Part><PartNumber>1</PartNumber><ETag>\"e\"</ETag>"
                     "<Size>5</Size></Part><IsTruncated>false</IsTruncated></ListPartsResult>");
    else if (strncmp(line, "GET", 3) == 0 && strstr(line, "uploads=") != NULL)
        canned_reply(fd, "200 OK", "",
                     "<ListMultipartUploadsResult><Upload><Key>a</Key><UploadId>u</UploadId>"
                     "</Upload><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>");
    else if (strncmp(line, "POST", 4) == 0 && strstr(line, "uploads=") != NULL)
        canned_reply(fd, "200 OK", "",
                     "<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                     "</InitiateMultipartUploadResult>");
    else if (strncmp(line, "POST", 4) == 0)
        canned_reply(fd, "200 OK", "",
                     "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>");
    else if (strncmp(line, "HEAD", 4) == 0) {
        char headers[128];
        int size = snprintf(headers, sizeof(headers),
                            "HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"e\"\r\n"
                            "Content-Length: %zu\r\n\r\n",
                            server->size);
        canned_send(fd, headers, (size_t)size);
    } else if (strncmp(line, "GET", 3) == 0)
        canned_object(server, fd, head);
    else if (strncmp(line, "DELETE", 6) == 0)
        canned_reply(fd, "204 No Content", "", "");
    else
        canned_reply(fd, "200 OK", "ETag: \"e\"\r\n", "");
}

static inline void *canned_run(void *context)
{
    struct canned_s3 *server = context;
    static _Thread_local char head[65536];
    while (!atomic_load(&server->stopping)) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0)
            break;
        if (canned_receive(fd, head, sizeof(head))) {
            (void)atomic_fetch_add(&server->requests, 1);
            canned_answer(server, fd, head);
        }
        (void)shutdown(fd, SHUT_WR);
        (void)close(fd);
    }
    return NULL;
}

static inline void canned_s3_start(struct canned_s3 *server, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    server->size = size;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(server->listener, 64) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &length) != 0)
        abort();
    (void)snprintf(server->endpoint, sizeof(server->endpoint), "http://127.0.0.1:%d",
                   ntohs(address.sin_port));
    (void)pthread_create(&server->thread, NULL, canned_run, server);
}

static inline void canned_s3_stop(struct canned_s3 *server)
{
    atomic_store(&server->stopping, true);
    (void)shutdown(server->listener, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->listener);
}

#endif
