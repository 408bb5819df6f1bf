/* Preloaded into a process, counts its syncs to disk and writes the number to $FSYNC_COUNT_FILE at
 * the end, and on SIGUSR1. The same measure for every program, whatever it is written in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_long count;
static char path[4096];

/* In a signal handler: only what may be called there. */
static void report(int signal_number)
{
    char text[24];
    size_t at = sizeof(text);
    long number = atomic_load(&count);
    (void)signal_number;
    text[--at] = '\n';
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (descriptor >= 0 && write(descriptor, text + at, sizeof(text) - at) > 0)
        close(descriptor);
}

__attribute__((constructor)) static void start(void)
{
    const char *given = getenv("FSYNC_COUNT_FILE");
    if (given != NULL && snprintf(path, sizeof(path), "%s", given) < (int)sizeof(path))
        signal(SIGUSR1, report);
}

__attribute__((destructor)) static void end(void)
{
    report(0);
}

int fsync(int descriptor)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    atomic_fetch_add(&count, 1);
    return real(descriptor);
}

int fdatasync(int descriptor)
{
    static int (*real)(int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    atomic_fetch_add(&count, 1);
    return real(descriptor);
}
