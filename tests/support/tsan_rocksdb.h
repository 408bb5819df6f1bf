/*
 * For programs that use RocksDB under ThreadSanitizer: the distribution's library is not
 * instrumented, so its lock-free structures look like races. What it does inside is left out; our
 * own accesses are still checked. Include it in one file of the program.
 */
#ifndef TSAN_ROCKSDB_H
#define TSAN_ROCKSDB_H

#if defined(__SANITIZE_THREAD__)
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:librocksdb.so\n";
}
#endif

#endif
