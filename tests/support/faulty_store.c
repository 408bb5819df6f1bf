#include "faulty_store.h"

#include <string.h>

static bool contains(struct lake_str key, const char *part)
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
static struct faulty_rule *strike(struct faulty_store *faulty, unsigned op, struct lake_str key)
{
    faulty->op_count++;
    faulty->recent = op;
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

static lake_status answer(const struct faulty_rule *rule, struct lake_error *err)
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

static lake_status faulty_stat(void *context, struct lake_str key, struct storage_object_info *out,
                               struct lake_error *err)
{
    FAULTY_CALL(FAULTY_STAT, key, storage_stat(faulty->inner, key, out, err));
}

static lake_status faulty_read(void *context, struct lake_str key, uint64_t offset,
                               size_t size_bytes, uint8_t *out, struct lake_error *err)
{
    FAULTY_CALL(FAULTY_READ, key,
                storage_read_range(faulty->inner, key, offset, size_bytes, out, err));
}

static lake_status faulty_put(void *context, struct lake_str key, struct lake_bytes data,
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

static lake_status faulty_writer_open(void *context, struct lake_str key, bool only_if_absent,
                                      void **out, struct lake_error *err)
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

static lake_status faulty_writer_write(void *context, struct lake_bytes data,
                                       struct lake_error *err)
{
    struct faulty_writer *writer = context;
    struct faulty_rule *rule = strike(writer->faulty, FAULTY_WRITER, base_str_of(writer->key));
    return rule != NULL ? answer(rule, err) : storage_writer_write(writer->inner, data, err);
}

static lake_status faulty_writer_commit(void *context, struct lake_error *err)
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

static void faulty_writer_abort(void *context)
{
    struct faulty_writer *writer = context;
    storage_writer_abort(writer->inner);
    base_free(writer);
}

static lake_status faulty_remove(void *context, struct lake_str key, struct lake_error *err)
{
    FAULTY_CALL(FAULTY_REMOVE, key, storage_remove(faulty->inner, key, err));
}

static lake_status faulty_list(void *context, struct lake_str prefix, struct lake_str start_after,
                               size_t limit, struct storage_list_page *out, struct lake_error *err)
{
    struct faulty_store *faulty = context;
    struct faulty_rule *rule = strike(faulty, FAULTY_LIST, prefix);
    return rule != NULL ? answer(rule, err)
                        : storage_list(faulty->inner, prefix, start_after, limit, out, err);
}

static void faulty_free(void *context)
{
    (void)context;
}

void faulty_store_init(struct faulty_store *faulty, struct storage_store *inner)
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

void faulty_store_fini(struct faulty_store *faulty)
{
    storage_store_unref(faulty->store);
}

void faulty_store_clear(struct faulty_store *faulty)
{
    memset(faulty->rules, 0, sizeof(faulty->rules));
}
