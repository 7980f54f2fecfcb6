/* Utilities without MPI, for every file: clock, text, memory, maps and locks. */
#pragma once
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* ---- visibility, clock and limits, for every file */

#define PUBLIC __attribute__((visibility("default")))
#define CALLER() __builtin_return_address(0)

enum { PATH_BYTES = 4096 };

static inline int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Large tables of which most processes touch little or nothing. They have a section after all other
 * data (sparse.ld), because each page with a small variable is memory of its own in every process. */
#ifndef SPARSE /* empty in builds for AddressSanitizer, which checks no variable with a section */
#define SPARSE __attribute__((section(".bss.sparse")))
#endif

/* ---- hash functions (hash.c), which are equal in every process */

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u ^ b; /* then the finaliser of splitmix64 */

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* length < 0 hashes up to the terminating zero */
uint64_t hash_text(uint64_t h, const char *text, int length);

/* ---- mutexes of the recorder (lock.c) */

void lock_acquire(pthread_mutex_t *lock);
void lock_release(pthread_mutex_t *lock);
int lock_disable_cancel(void);
void lock_restore_cancel(int state);

/* ---- hash table with lock-free readers (map.c) */

struct map_table;
struct map {
    struct map_table *_Atomic table;
};
/* Return the key of a handle of MPI, which is a pointer or an integer. */
#define map_key(handle) ((uint64_t)(uintptr_t)(handle))
void *map_get(const struct map *m, uint64_t key);
/* the caller must have locked recorder.lock; a NULL value removes the key */
bool map_put(struct map *m, uint64_t key, void *value);
void map_free(struct map *m); /* no thread may still read the map */

/* ---- small allocations, with a reserve for when memory is exhausted (memory.c) */

enum { MEMORY_RESERVED_MB = 32 }; /* address space that must remain for the MPI library */

void memory_start(int processes);
extern bool memory_reserve_exists;   /* without it, no call may run on a schedule */
void *memory_allocate(size_t bytes); /* zeroed, like calloc */
void *memory_resize(void *memory, size_t before, size_t bytes);
void memory_free(void *memory);
char *memory_copy_text(const char *text);
/* whole pages of static memory */
void memory_pages_release(void *memory, size_t bytes);
bool memory_is_short(void);
bool memory_is_left(size_t bytes);

/* ---- mapped files that other processes may truncate (mapped.c) */

/* true if no handler can replace lost pages (bus_error.c) */
extern atomic_bool mapped_is_unguarded;

void *mapped_add(int descriptor, off_t offset, size_t bytes, int flags);
void mapped_set_message(const char *folder, const char *file);
bool mapped_replace(const void *address); /* called in a signal handler */
struct mapping;
struct mapping *mapped_newest(void);
void mapped_replace_beyond(struct mapping *newest, off_t end);
bool mapped_is_lost(const void *address);
void mapped_remove(void *start);

/* ---- writes that must not kill the program (signal_guard.c) */

struct stat;
struct signal_guard {
    sigset_t mask, pending;
    int cancel;
};
void signal_guard_begin(struct signal_guard *g);
void signal_guard_end(const struct signal_guard *g);
void signal_guard_print(const char *line, size_t length);
bool signal_guard_file_status(int descriptor, struct stat *s);

/* ---- growing text, JSON, and shell words (text.c) */

struct text {
    char *bytes;
    size_t length, room;
    bool cut; /* memory was short and some text is missing */
};
void text_add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_format(struct text *t, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
int text_scan(const char *s, const char *format, ...) __attribute__((format(scanf, 2, 3)));
void text_bytes(struct text *t, const char *bytes, size_t length);
bool text_read(struct text *t, const char *path); /* false if it cannot be read, or is empty */
void text_json(struct text *t, const char *string, long length);
void text_quoted(struct text *t, const char *word);
void text_free(struct text *t);
