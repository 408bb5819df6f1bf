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

static void report(int signal_number)
{
    char text[32];
    const char *path = getenv("FSYNC_COUNT_FILE");
    (void)signal_number;
    if (path == NULL)
        return;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int size = snprintf(text, sizeof(text), "%ld\n", atomic_load(&count));
    if (descriptor >= 0 && write(descriptor, text, (size_t)size) == size)
        close(descriptor);
}

__attribute__((constructor)) static void start(void)
{
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
