/*
 * A store around another that fails as it is told: before doing something, or after having done it
 * (the answer is lost). All of it is in this header, so that a test is one file.
 */
#ifndef FAULTY_STORE_H
#define FAULTY_STORE_H

#include <storage/storage.h>

#include <string.h>

enum faulty_op {
    FAULTY_STAT = 1,
    FAULTY_READ = 2,
    FAULTY_PUT = 4,
    FAULTY_PUT_IF_ABSENT = 8,
    FAULTY_WRITER = 16, /* open, write and commit of a writer */
    FAULTY_REMOVE = 32,
    FAULTY_LIST = 64,
    FAULTY_ANY = 127
};

struct faulty_rule {
    unsigned ops;           /* of enum faulty_op */
    const char *key;        /* part of the key; NULL: any */
    uint32_t skip;          /* matching operations that go through first */
    uint32_t times;         /* and how many then fail; 0: the rule is off */
    lake_status status;     /* what the caller gets; of a list OK: what there is */
    bool done;              /* true: the operation is carried out, only its answer is lost */
    void (*before)(void *); /* called before the failing operation; may be NULL */
    void *context;
};

#define FAULTY_MAX_RULES 4

struct faulty_store {
    struct storage_store *store; /* the faulty one */
    struct storage_store *inner;
    struct faulty_rule rules[FAULTY_MAX_RULES];
    uint64_t op_count; /* all operations so far */
};

static inline bool contains(struct lake_str key, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= key.size; i++) {
        if (memcmp(key.data + i, part, size) == 0) {
            return true;
        }
    }
    return false;
}

/* The rule that strikes this operation, or NULL. */
static inline struct faulty_rule *strike(struct faulty_store *faulty, unsigned op,
                                         struct lake_str key)
{
    faulty->op_count++;
    for (size_t i = 0; i < FAULTY_MAX_RULES; i++) {
        struct faulty_rule *rule = &faulty->rules[i];
        bool matches = rule->times > 0 && (rule->ops & op) != 0 &&
                       (rule->key == NULL || contains(key, rule->key));
        if (!matches) {
            continue;
        }
        if (rule->skip > 0) {
            rule->skip--;
            continue;
        }
        rule->times--;
        if (rule->before != NULL) {
            rule->before(rule->context);
        }
        return rule;
    }
    return NULL;
}

static inline lake_status answer(const struct faulty_rule *rule, struct lake_error *err)
{
    return lake_fail(err, rule->status, "the test's store fails here");
}

/* `call` is carried out unless a rule says that it fails before. */
#define FAULTY_CALL(op, key, call)                                           \
    do {                                                                     \
        struct faulty_store *faulty = context;                               \
        struct faulty_rule *rule = strike(faulty, (op), (key));              \
        lake_status status = rule != NULL && !rule->done ? LAKE_OK : (call); \
        if (rule == NULL) {                                                  \
            return status;                                                   \
        }                                                                    \
        return answer(rule, err);                                            \
    } while (0)

static inline lake_status faulty_stat(void *context, struct lake_str key,
                                      struct storage_object_info *out, struct lake_error *err)
{
    FAULTY_CALL(FAULTY_STAT, key, storage_stat(faulty->inner, key, out, err));
}

static inline lake_status faulty_read(void *context, struct lake_str key, uint64_t offset,
                                      size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    FAULTY_CALL(FAULTY_READ, key,
                storage_read_range(faulty->inner, key, offset, size_bytes, out, err));
}

static inline lake_status faulty_put(void *context, struct lake_str key, struct lake_bytes data,
                                     bool only_if_absent, struct lake_error *err)
{
    FAULTY_CALL(only_if_absent ? FAULTY_PUT_IF_ABSENT : FAULTY_PUT, key,
                only_if_absent ? storage_put_if_absent(faulty->inner, key, data, err)
                               : storage_put(faulty->inner, key, data, err));
}

struct faulty_writer {
    struct faulty_store *faulty;
    struct storage_writer *inner;
    char key[STORAGE_MAX_KEY_BYTES + 1];
};

static inline lake_status faulty_writer_open(void *context, struct lake_str key,
                                             bool only_if_absent, void **out,
                                             struct lake_error *err)
{
    struct faulty_store *faulty = context;
    struct faulty_rule *rule = strike(faulty, FAULTY_WRITER, key);
    if (rule != NULL) {
        return answer(rule, err);
    }
    struct faulty_writer *writer = base_calloc_array(1, sizeof(*writer));
    if (writer == NULL) {
        return base_fail_no_memory(err, sizeof(*writer));
    }
    writer->faulty = faulty;
    memcpy(writer->key, key.data, key.size);
    lake_status status =
        storage_writer_open(faulty->inner, key, only_if_absent, &writer->inner, err);
    if (status != LAKE_OK) {
        base_free(writer);
        return status;
    }
    *out = writer;
    return LAKE_OK;
}

static inline lake_status faulty_writer_write(void *context, struct lake_bytes data,
                                              struct lake_error *err)
{
    struct faulty_writer *writer = context;
    struct faulty_rule *rule = strike(writer->faulty, FAULTY_WRITER, base_str_of(writer->key));
    return rule != NULL ? answer(rule, err) : storage_writer_write(writer->inner, data, err);
}

static inline lake_status faulty_writer_commit(void *context, struct lake_error *err)
{
    struct faulty_writer *writer = context;
    struct faulty_rule *rule = strike(writer->faulty, FAULTY_WRITER, base_str_of(writer->key));
    lake_status status = LAKE_OK;
    if (rule == NULL || rule->done) {
        status = storage_writer_commit(writer->inner, err);
    } else {
        storage_writer_abort(writer->inner);
    }
    base_free(writer);
    return rule != NULL ? answer(rule, err) : status;
}

static inline void faulty_writer_abort(void *context)
{
    struct faulty_writer *writer = context;
    storage_writer_abort(writer->inner);
    base_free(writer);
}

static inline lake_status faulty_remove(void *context, struct lake_str key, struct lake_error *err)
{
    FAULTY_CALL(FAULTY_REMOVE, key, storage_remove(faulty->inner, key, err));
}

static inline lake_status faulty_list(void *context, struct lake_str prefix,
                                      struct lake_str start_after, size_t limit,
                                      struct storage_list_page *out, struct lake_error *err)
{
    struct faulty_store *faulty = context;
    struct faulty_rule *rule = strike(faulty, FAULTY_LIST, prefix);
    return rule != NULL && rule->status != LAKE_OK
               ? answer(rule, err)
               : storage_list(faulty->inner, prefix, start_after, limit, out, err);
}

static inline void faulty_free(void *context)
{
    (void)context;
}

/* Borrows `inner`. Not for several threads while rules change. */
static inline void faulty_store_init(struct faulty_store *faulty, struct storage_store *inner)
{
    static const struct storage_methods methods = {
        .stat = faulty_stat,
        .read_range = faulty_read,
        .put = faulty_put,
        .writer_open = faulty_writer_open,
        .writer_write = faulty_writer_write,
        .writer_commit = faulty_writer_commit,
        .writer_abort = faulty_writer_abort,
        .remove = faulty_remove,
        .list = faulty_list,
        .free = faulty_free,
    };
    *faulty = (struct faulty_store){.inner = inner};
    if (storage_store_new(&methods, faulty, "faulty:", &faulty->store, NULL) != LAKE_OK) {
        __builtin_trap();
    }
}

static inline void faulty_store_fini(struct faulty_store *faulty)
{
    storage_store_unref(faulty->store);
}

/* No rules. */
static inline void faulty_store_clear(struct faulty_store *faulty)
{
    memset(faulty->rules, 0, sizeof(faulty->rules));
}

#endif
