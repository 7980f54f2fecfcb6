/* Counters of a thread, and their sources. */
#pragma once
#include "base/base.h"
#include "tracefile/tracefile.h"

/* ---- instructions and cycles of a thread in user space (perf_counters.c) */

struct perf_counters {
    int descriptors[2]; /* instructions and cycles; -1 if not available */
    uint64_t id;        /* the kernel's id of the first event */
};
void perf_counters_open(struct perf_counters *p, const char **obstacle);
void perf_counters_read(const struct perf_counters *p, int64_t values[2]);
void perf_counters_close(struct perf_counters *p);

/* ---- all counters (interval_counters.c) */

enum { UNKNOWN_PROCESSOR = UINT16_MAX };
struct counters {                     /* of the thread's life, except at_ns and processor */
    int64_t at_ns;                    /* 0 if never read */
    int64_t processor_ns, process_ns; /* on processors: of the thread, and of all threads */
    int64_t queue_ns;                 /* waiting for a processor; -1 if unknown */
    int64_t instructions, cycles;     /* in user space; -1 if unknown */
    int64_t voluntary, involuntary;   /* context switches */
    int64_t minor_faults, major_faults;
    int64_t untracked_ns, gc_ns; /* the caller sets these */
    uint16_t processor;
};
struct interval {         /* state of a thread */
    const void *inside;   /* the call that the thread is in */
    int64_t left_ns;      /* end of the previous call; INT64_MAX if unknown */
    int64_t entered_ns;   /* begin of the call that the thread is in */
    uint32_t shape;       /* of the previous call */
    uint64_t expected;    /* bit `shape % 64`: the last interval after such a call was long */
    struct counters last; /* at the last reading */
    int64_t gc_ns, gc_since_ns;
    struct fd_guard queue;
    struct perf_counters perf;
};
struct interval *interval_counter_open(void);
void interval_counter_read(const struct interval *i, struct counters *now);
void interval_counter_close(struct interval *i);
void interval_counter_note(const char *counter, const char *obstacle);
