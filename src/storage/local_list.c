/*
 * Listing a directory tree in key order, and sweeping temporary files out of it.
 *
 * A directory is given in name order with a '/' counted at the end of directory names, which makes
 * the walk's order the order of whole keys ("a.b" < "a/b" < "a0"). Of a directory only the next few
 * names are held at a time, so memory does not grow with its size; a page of a directory with n
 * entries reads all n names.
 */
#define _GNU_SOURCE
#include "local.h"
#include "storage_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* One page of the largest size takes one pass over a flat directory. */
#define NAMES_AT_A_TIME (STORAGE_MAX_LIST + 1)

struct listing {
    const struct local_store *store;
    struct lake_str prefix;
    struct lake_str start_after;
    size_t wanted; /* limit + 1: the last only tells that there are more */
    struct storage_list_entry *entries;
    size_t count;
};

/* The directory being walked: its path as a key prefix, "" or ending in '/'. */
struct place {
    char path[STORAGE_MAX_KEY_BYTES + 2];
    size_t size;
    size_t depth;
};

/* Children of one directory: names, directories with a '/' at the end, kept to the smallest few. */
struct names {
    char **items;
    size_t count;
    bool dropped; /* some were left out because there were smaller ones */
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        base_free(names->items[i]);
    base_free(names->items);
    *names = (struct names){.items = NULL};
}

static lake_status names_init(struct names *names, struct lake_error *err)
{
    *names = (struct names){.count = 0};
    names->items = base_alloc_array(2 * NAMES_AT_A_TIME, sizeof(*names->items));
    if (names->items == NULL)
        return base_fail_no_memory(err, 2 * NAMES_AT_A_TIME * sizeof(*names->items));
    return LAKE_OK;
}

/* Sorts, and drops the largest beyond NAMES_AT_A_TIME. */
static void names_shrink(struct names *names)
{
    qsort(names->items, names->count, sizeof(*names->items), compare_names);
    while (names->count > NAMES_AT_A_TIME) {
        base_free(names->items[--names->count]);
        names->dropped = true;
    }
}

static lake_status names_add(struct names *names, const char *name, bool directory,
                             struct lake_error *err)
{
    char *item = base_format(directory ? "%s/" : "%s", name);
    if (item == NULL)
        return base_fail_no_memory(err, strlen(name) + 2);
    if (names->count == 2 * NAMES_AT_A_TIME)
        names_shrink(names);
    names->items[names->count++] = item;
    return LAKE_OK;
}

/* Whether the file at `path`, or (for a path that ends in '/') something below it, can be in the
 * answer. */
static bool can_match(const struct listing *listing, struct lake_str path)
{
    bool directory = path.data[path.size - 1] == '/';
    struct lake_str prefix = listing->prefix;
    size_t shared = BASE_MIN(path.size, prefix.size);
    if (shared > 0 && memcmp(path.data, prefix.data, shared) != 0)
        return false;
    if (path.size < prefix.size && !directory)
        return false;
    struct lake_str after = listing->start_after;
    shared = BASE_MIN(path.size, after.size);
    int order = shared == 0 ? 0 : memcmp(path.data, after.data, shared);
    if (order != 0)
        return order > 0;
    return path.size > after.size || directory;
}

/* What a directory entry is, by its type or, where the file system does not tell, by asking. */
static unsigned char entry_type(int directory_fd, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    struct stat info;
    if (fstatat(directory_fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return DT_UNKNOWN;
    return S_ISREG(info.st_mode) ? DT_REG : S_ISDIR(info.st_mode) ? DT_DIR : DT_LNK;
}

static bool is_temporary(const char *name)
{
    return strncmp(name, LOCAL_TEMP_PREFIX, sizeof(LOCAL_TEMP_PREFIX) - 1) == 0;
}

/* Extends `place` by a child's name; false when the whole is too long to be a key. */
static bool place_enter(const struct place *place, const char *name, struct place *out)
{
    size_t size = strlen(name);
    bool directory = size > 0 && name[size - 1] == '/';
    if (place->size + size > STORAGE_MAX_KEY_BYTES + (directory ? 1u : 0u) ||
        (directory && place->depth + 1 >= LOCAL_MAX_COMPONENTS))
        return false;
    memcpy(out->path, place->path, place->size);
    memcpy(out->path + place->size, name, size + 1);
    out->size = place->size + size;
    out->depth = place->depth + 1;
    return true;
}

/* The children after `resume` (NULL: from the first) that can match. */
static lake_status collect_names(const struct listing *listing, DIR *directory,
                                 const struct place *place, const char *resume, struct names *out,
                                 struct lake_error *err)
{
    rewinddir(directory);
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (entry == NULL && errno != 0)
            return base_fail_errno(err, errno, "directory %s/%s cannot be listed",
                                   listing->store->directory, place->path);
        if (entry == NULL)
            break;
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_temporary(name))
            continue;
        unsigned char type = entry_type(dirfd(directory), entry);
        if (type != DT_REG && type != DT_DIR)
            continue;
        char sorted_name[NAME_MAX + 2];
        size_t size = strlen(name);
        memcpy(sorted_name, name, size);
        memcpy(sorted_name + size, type == DT_DIR ? "/" : "", type == DT_DIR ? 2 : 1);
        struct place child;
        if (!place_enter(place, sorted_name, &child) ||
            !can_match(listing, (struct lake_str){child.path, child.size}) ||
            (resume != NULL && strcmp(sorted_name, resume) <= 0))
            continue;
        lake_status status = names_add(out, name, type == DT_DIR, err);
        if (status != LAKE_OK)
            return status;
    }
    names_shrink(out);
    return LAKE_OK;
}

static lake_status add_entry(struct listing *listing, int directory_fd, const char *name,
                             const struct place *child, struct lake_error *err)
{
    struct stat info;
    if (fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT)
            return LAKE_OK; /* removed meanwhile */
        return base_fail_errno(err, errno, "object %s in %s cannot be examined", child->path,
                               listing->store->directory);
    }
    if (!S_ISREG(info.st_mode))
        return LAKE_OK;
    char *key = base_strndup(child->path, child->size);
    if (key == NULL)
        return base_fail_no_memory(err, child->size + 1);
    listing->entries[listing->count++] = (struct storage_list_entry){
        .key = key,
        .size_bytes = (uint64_t)info.st_size,
        .modified_unix_ms = (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000,
    };
    return LAKE_OK;
}

static lake_status list_place(struct listing *listing, const struct place *place,
                              struct lake_error *err);

static lake_status list_children(struct listing *listing, int directory_fd,
                                 const struct place *place, const struct names *names,
                                 struct lake_error *err)
{
    lake_status status = LAKE_OK;
    for (size_t i = 0; i < names->count && status == LAKE_OK && listing->count < listing->wanted;
         i++) {
        struct place child;
        if (!place_enter(place, names->items[i], &child))
            continue;
        status = child.path[child.size - 1] == '/'
                     ? list_place(listing, &child, err)
                     : add_entry(listing, directory_fd, names->items[i], &child, err);
    }
    return status;
}

/* Opens the directory of a place for readdir; NOT_FOUND when it is gone. */
static lake_status open_place(const struct local_store *store, const struct place *place, DIR **out,
                              struct lake_error *err)
{
    lake_status status = base_fault_io("storage.list", err);
    if (status != LAKE_OK)
        return status;
    char path[sizeof(place->path)];
    struct lake_str key = {place->path, place->size == 0 ? 0 : place->size - 1};
    memcpy(path, place->path, key.size);
    path[key.size] = '\0';
    int flags = O_RDONLY | O_DIRECTORY;
    int fd = key.size == 0 ? openat(store->root_fd, ".", flags | O_CLOEXEC)
                           : local_open_beneath(store->root_fd, path, flags);
    if (fd < 0)
        return local_fail_open(store, key, errno, err);
    DIR *directory = fdopendir(fd);
    if (directory == NULL) {
        status =
            base_fail_errno(err, errno, "directory %s/%s cannot be listed", store->directory, path);
        (void)close(fd);
        return status;
    }
    *out = directory;
    return LAKE_OK;
}

static lake_status list_place(struct listing *listing, const struct place *place,
                              struct lake_error *err)
{
    DIR *directory;
    lake_status status = open_place(listing->store, place, &directory, err);
    if (status == LAKE_NOT_FOUND) {
        lake_error_clear(err);
        return LAKE_OK; /* no such directory: no such keys */
    }
    if (status != LAKE_OK)
        return status;
    char resume[NAME_MAX + 2];
    bool resumed = false;
    bool more = true;
    while (status == LAKE_OK && more && listing->count < listing->wanted) {
        struct names names;
        status = names_init(&names, err);
        if (status == LAKE_OK)
            status = collect_names(listing, directory, place, resumed ? resume : NULL, &names, err);
        if (status == LAKE_OK)
            status = list_children(listing, dirfd(directory), place, &names, err);
        more = names.dropped;
        if (status == LAKE_OK && more) {
            const char *last = names.items[names.count - 1];
            memcpy(resume, last, strlen(last) + 1);
            resumed = true;
        }
        names_fini(&names);
    }
    (void)closedir(directory);
    return status;
}

/* The deepest directory that holds every key with `prefix`. */
static lake_status place_of_prefix(const struct local_store *store, struct lake_str prefix,
                                   struct place *out, struct lake_error *err)
{
    *out = (struct place){.size = 0};
    const char *slash = prefix.size == 0 ? NULL : memrchr(prefix.data, '/', prefix.size);
    if (slash == NULL)
        return LAKE_OK;
    struct lake_str key = {prefix.data, (size_t)(slash - prefix.data)};
    struct local_path path;
    lake_status status = local_path_of(store, key, &path, err);
    if (status != LAKE_OK)
        return status;
    memcpy(out->path, key.data, key.size);
    memcpy(out->path + key.size, "/", 2);
    out->size = key.size + 1;
    for (size_t i = 0; i < out->size; i++)
        out->depth += out->path[i] == '/';
    return LAKE_OK;
}

lake_status local_list(void *context, struct lake_str prefix, struct lake_str start_after,
                       size_t limit, struct storage_list_page *out, struct lake_error *err)
{
    struct listing listing = {
        .store = context, .prefix = prefix, .start_after = start_after, .wanted = limit + 1};
    struct place place;
    lake_status status = place_of_prefix(context, prefix, &place, err);
    if (status != LAKE_OK)
        return status;
    listing.entries = base_alloc_array(listing.wanted, sizeof(*listing.entries));
    if (listing.entries == NULL)
        return base_fail_no_memory(err, listing.wanted * sizeof(*listing.entries));
    status = list_place(&listing, &place, err);
    struct storage_list_page page = {.entries = listing.entries, .count = listing.count};
    if (status != LAKE_OK) {
        storage_list_page_fini(&page);
        return status;
    }
    if (page.count > limit) {
        base_free(page.entries[--page.count].key);
        page.more = true;
    }
    *out = page;
    return LAKE_OK;
}

struct sweep {
    const struct local_store *store;
    int64_t oldest_ms; /* modified at or before this: old enough */
    uint64_t removed;
};

/* A file that is gone, young or held by a writer stays; so does one that cannot be opened, which a
 * later sweep meets again. */
static void sweep_file(struct sweep *sweep, int directory_fd, const char *name)
{
    int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        (int64_t)info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1000000 <= sweep->oldest_ms &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(directory_fd, name, 0) == 0)
        sweep->removed++;
    (void)close(fd);
}

static lake_status sweep_place(struct sweep *sweep, const struct place *place,
                               struct lake_error *err)
{
    DIR *directory;
    lake_status status = open_place(sweep->store, place, &directory, err);
    if (status == LAKE_NOT_FOUND || status == LAKE_PERMISSION_DENIED) {
        lake_error_clear(err);
        return LAKE_OK;
    }
    if (status != LAKE_OK)
        return status;
    struct dirent *entry;
    while (status == LAKE_OK && (entry = readdir(directory)) != NULL) {
        unsigned char type = entry_type(dirfd(directory), entry);
        char name[NAME_MAX + 2];
        struct place child;
        if (type == DT_REG && is_temporary(entry->d_name)) {
            sweep_file(sweep, dirfd(directory), entry->d_name);
        } else if (type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
                   strcmp(entry->d_name, "..") != 0) {
            size_t size = strlen(entry->d_name);
            memcpy(name, entry->d_name, size);
            memcpy(name + size, "/", 2);
            if (place_enter(place, name, &child))
                status = sweep_place(sweep, &child, err);
        }
    }
    (void)closedir(directory);
    return status;
}

lake_status storage_local_sweep(struct storage_store *store, int64_t age_ms, uint64_t *removed,
                                struct lake_error *err)
{
    /* Child stores of child stores: their prefixes are put together from the inside out. */
    struct place place = {.size = 0};
    struct storage_store *parent;
    struct lake_str prefix;
    while (storage_child_parts(store, &parent, &prefix)) {
        if (prefix.size > sizeof(place.path) - 1 - place.size)
            return lake_fail(err, LAKE_INVALID_ARGUMENT, "the prefix of %s is too long",
                             storage_store_uri(store));
        memmove(place.path + prefix.size, place.path, place.size + 1);
        memcpy(place.path, prefix.data, prefix.size);
        place.size += prefix.size;
        store = parent;
    }
    struct local_store *local = storage_store_context(store, &local_methods);
    if (local == NULL)
        return lake_fail(err, LAKE_UNIMPLEMENTED,
                         "%s is not a local directory: it has no temporary files to sweep",
                         storage_store_uri(store));
    struct sweep sweep = {.store = local, .oldest_ms = base_clock_unix_ms() - age_ms};
    lake_status status = sweep_place(&sweep, &place, err);
    if (status == LAKE_OK)
        *removed = sweep.removed;
    return status;
}
