/*
 * Files kept open, so that many small reads of one object open it once. Few for the whole process,
 * since descriptors are scarce; the least recently used is closed first.
 *
 * An entry is good while its file still has a name: who removes or replaces an object takes the
 * name away. Small objects are not kept, so what is replaced now and then is always looked up.
 */
#include "local.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILES      128
#define MIN_FILE_BYTES 4096
#define BUCKETS        256

struct local_file {
    struct local_file *next_in_bucket;
    struct local_file *newer, *older; /* by last use */
    const struct local_store *store;
    char *key;
    int fd;
    uint32_t users;
    bool kept; /* in the table; else the last user closes it */
};

static struct {
    pthread_mutex_t lock; /* guards everything here, and every file; no I/O under it */
    struct local_file *buckets[BUCKETS];
    struct local_file *newest, *oldest;
    size_t count;
} files = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct local_file **link_of(const struct local_store *store, struct lake_str key)
{
    uint64_t hash = 14695981039346656037u ^ (uint64_t)(uintptr_t)store; /* FNV-1a */
    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ (uint8_t)key.data[i]) * 1099511628211u;
    struct local_file **link = &files.buckets[hash % BUCKETS];
    while (*link != NULL && ((*link)->store != store || !base_str_equal_c(key, (*link)->key)))
        link = &(*link)->next_in_bucket;
    return link;
}

static void unlink_use(struct local_file *file)
{
    *(file->newer != NULL ? &file->newer->older : &files.newest) = file->older;
    *(file->older != NULL ? &file->older->newer : &files.oldest) = file->newer;
    file->newer = file->older = NULL;
}

static void link_newest(struct local_file *file)
{
    file->older = files.newest;
    *(file->older != NULL ? &file->older->newer : &files.oldest) = file;
    files.newest = file;
}

static void free_file(struct local_file *file)
{
    (void)close(file->fd);
    base_free(file->key);
    base_free(file);
}

/* Takes the file out of the table; the caller frees what is returned, without the lock. */
static struct local_file *drop(struct local_file *file)
{
    *link_of(file->store, base_str_of(file->key)) = file->next_in_bucket;
    unlink_use(file);
    files.count--;
    file->kept = false;
    return file->users == 0 ? file : NULL;
}

static struct local_file *find(const struct local_store *store, struct lake_str key)
{
    (void)pthread_mutex_lock(&files.lock);
    struct local_file *file = *link_of(store, key);
    if (file != NULL) {
        file->users++;
        unlink_use(file);
        link_newest(file);
    }
    (void)pthread_mutex_unlock(&files.lock);
    return file;
}

void local_file_done(struct local_file *file, bool stale)
{
    struct local_file *unused = NULL;
    (void)pthread_mutex_lock(&files.lock);
    file->users--;
    if (!file->kept && file->users == 0)
        unused = file;
    else if (stale && file->kept)
        unused = drop(file);
    (void)pthread_mutex_unlock(&files.lock);
    if (unused != NULL)
        free_file(unused);
}

/* Keeps a file that was just opened, unless another thread was first. */
static void keep(struct local_file *file)
{
    struct local_file *unused = NULL;
    (void)pthread_mutex_lock(&files.lock);
    struct local_file **link = link_of(file->store, base_str_of(file->key));
    if (*link == NULL) {
        *link = file;
        link_newest(file);
        file->kept = true;
        files.count++;
    }
    struct local_file *victim = files.oldest;
    while (files.count > MAX_FILES && victim != NULL && victim->users > 0)
        victim = victim->newer;
    if (files.count > MAX_FILES && victim != NULL)
        unused = drop(victim);
    (void)pthread_mutex_unlock(&files.lock);
    if (unused != NULL)
        free_file(unused);
}

lake_status local_file_open(const struct local_store *store, struct lake_str key,
                            struct local_file **out, int *fd, struct stat *info,
                            struct lake_error *err)
{
    struct local_file *file = find(store, key);
    if (file != NULL) {
        if (fstat(file->fd, info) == 0 && info->st_nlink > 0) {
            *out = file;
            *fd = file->fd;
            return LAKE_OK;
        }
        local_file_done(file, true);
    }
    file = base_calloc_array(1, sizeof(*file));
    char *name = base_strndup(key.data, key.size);
    lake_status status = file == NULL || name == NULL
                             ? base_fail_no_memory(err, key.size)
                             : local_open_object(store, key, O_RDONLY | O_NONBLOCK, fd, info, err);
    if (status != LAKE_OK) {
        base_free(file);
        base_free(name);
        return status;
    }
    *file = (struct local_file){.store = store, .key = name, .fd = *fd, .users = 1};
    if (info->st_size >= MIN_FILE_BYTES)
        keep(file);
    *out = file;
    return LAKE_OK;
}

void local_files_forget(const struct local_store *store)
{
    struct local_file *unused = NULL;
    (void)pthread_mutex_lock(&files.lock);
    for (struct local_file *file = files.newest; file != NULL;) {
        struct local_file *older = file->older;
        if (file->store == store && drop(file) != NULL) {
            file->next_in_bucket = unused;
            unused = file;
        }
        file = older;
    }
    (void)pthread_mutex_unlock(&files.lock);
    while (unused != NULL) {
        struct local_file *next = unused->next_in_bucket;
        free_file(unused);
        unused = next;
    }
}
