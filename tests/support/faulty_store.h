/*
 * A store around another that fails as it is told: before doing something, or after having done it
 * (the answer is lost). Tests include faulty_store.c.
 */
#ifndef FAULTY_STORE_H
#define FAULTY_STORE_H

#include <storage/storage.h>

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
    lake_status status;     /* what the caller gets */
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
    unsigned recent;   /* the kind of the last operation */
};

/* Borrows `inner`. Not for several threads while rules change. */
void faulty_store_init(struct faulty_store *faulty, struct storage_store *inner);
void faulty_store_fini(struct faulty_store *faulty);
void faulty_store_clear(struct faulty_store *faulty); /* no rules */

#endif
