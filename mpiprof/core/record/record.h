/* Records, the windows that they are written to, and the state of each thread. */
#pragma once
#include "base/base.h"
#include "base/recorder.h"
#include "base/symbol_lookup.h"
#include "record/communicator.h"
#include "tracefile/event.h"

/* ---- per-thread state of the recorder (record.c) */

struct communicator;
struct call_shape;
struct shape_group;
struct site;
struct message_entry;
struct message_pack;
struct interval;

enum { RECENT = 8 };
struct call_arguments { /* arguments of a call, only for comparison */
    int root;
    unsigned form; /* C or Fortran, large counts, in-place sides */
    int64_t counts[2];
    uint64_t types[2], op;
};
struct recent { /* lookup results of the thread's last calls, by return address */
    const void *address, *caller;
    MPI_Comm handle;
    int operation;
    uint32_t generation;
    struct communicator *comm;
    struct site *native; /* NULL if the address alone does not determine the site */
    struct shape_group *shape_group;
    /* of the last call described by its arguments alone, with its results: */
    struct call_arguments arguments;
    const struct shape_group *described_group;
    const struct call_shape *described_shape;
};
struct thread {
    struct recent recent[RECENT];
    struct chunk *window, *messages; /* messages: window of the message log */
    struct message_pack *pack;       /* its earlier contents; on the heap, NULL before them */
    int64_t unrecorded_ns, other_ns, recorder_ns;
    const void *fortran_caller;
    /* The active calls of this thread. They may have been abandoned: check with unwind_is_live()
     * first. */
    struct call *call;
    struct activity message, creation, freeing, completion;
    struct message_entry *message_entries; /* on the heap, because static TLS is scarce */
    struct interval *interval;             /* on the heap; NULL if intervals are not logged */
    struct poll *poll;                     /* on the heap; NULL before the first call in vain */
    bool polls;                            /* its poll has begun, and may continue */
    uint64_t last_stamp;
    uint32_t used_records, used_messages, number, calls;
    bool refused;
    enum { BUS_UNKNOWN, BUS_OPEN, BUS_BLOCKED } bus; /* state of SIGBUS in the thread's mask */
};
extern _Thread_local struct thread self;

/* ---- windows of records, one per thread (record.c) */

struct record *record_new(uint32_t extensions);
void record_drop(void);
struct call;
void record_summarise(const struct call *c, int64_t sent, int64_t received);
struct record *record_statistics(uint32_t shape);
struct record *record_message_count(uint32_t shape);
struct record *record_totals_make(enum content content, struct call_shape *shape);
bool record_messages_ensure(void);
bool record_window_append(struct chunk *w, uint32_t *used);
void record_window_clear(struct chunk *w, uint32_t *used);
void record_start_up(void);
void record_flush(void);
void record_signal(int number, int sender); /* called in a signal handler */
bool record_window_ensure(void);
void record_check_length(void);
int64_t record_overhead_ns(void);
uint64_t record_dropped(void);

/* Check the file's length before a write to the window, in the cases that no handler can cover. */
static inline void record_check(void)
{
    if (self.bus != BUS_OPEN || atomic_load_explicit(&mapped_is_unguarded, memory_order_relaxed))
        record_check_length();
}

static inline void record_publish(struct record *r, enum kind kind)
{
    atomic_thread_fence(memory_order_release);
    r->kind = (uint8_t)kind;
}

static inline void record_write_extension(struct record *r, enum extension what, int64_t value)
{
    r->sequence = (uint32_t)what;
    r->exit_ns = value;
    r->thread = (uint16_t)self.number;
    record_publish(r, KIND_extension);
}

/* ---- sections without a lock while one thread of the process calls MPI (single_thread.c) */

extern atomic_bool single_thread_is_over, single_thread_is_inside;
void single_thread_start(void);
void single_thread_add(void);

/* Enter a section, if no other thread has called MPI. Otherwise returns false, and the caller needs
 * a lock or atomic operations. Sections are short, not nested, and contain no cancellation point. */
static inline bool single_thread_enter(void)
{
    if (atomic_load_explicit(&single_thread_is_over, memory_order_relaxed))
        return false;
    atomic_store_explicit(&single_thread_is_inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* another thread provides the processor's barrier */
    if (!atomic_load_explicit(&single_thread_is_over, memory_order_relaxed))
        return true;
    atomic_store_explicit(&single_thread_is_inside, false, memory_order_release);
    return false;
}

static inline void single_thread_leave(bool entered)
{
    if (entered)
        atomic_store_explicit(&single_thread_is_inside, false, memory_order_release);
}

/* ---- totals of a shape: a summary with its extensions */

/* Add to a number in the trace. single: true in a section that no other thread enters. */
static inline void record_add(int64_t *sum, int64_t value, bool single)
{
    if (single)
        *sum += value;
    else
        __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
}

static inline void record_totals_add(struct record *r, int64_t calls, int64_t elapsed, int64_t sent,
                                     int64_t received, bool single)
{
    record_add(&r[0].enter_ns, elapsed, single);
    record_add(&r[0].exit_ns, calls, single);
    if (sent > 0)
        record_add(&r[1].exit_ns, sent, single);
    if (received > 0)
        record_add(&r[2].exit_ns, received, single);
    /* two threads may race for the maximum; either is a long call */
    if (elapsed > __atomic_load_n(&r[3].exit_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&r[3].exit_ns, elapsed, __ATOMIC_RELAXED);
}

/* Return true if calls are added to totals: from the start, or since the log has reached its
 * limit. */
static inline bool record_is_summed(void)
{
    return recorder.options.summary ||
           atomic_load_explicit(&recorder.limited, memory_order_relaxed);
}

/* Return true after MPI_Pcontrol(0): calls are counted and messages numbered, but not recorded. */
static inline bool record_is_paused(void)
{
    return atomic_load_explicit(&recorder.paused, memory_order_relaxed);
}

/* Return true if a call is sampled. `identity` is that of the communicator. */
static inline bool record_is_sampled(uint64_t identity, uint32_t sequence, int64_t start)
{
    const unsigned k = recorder.options.sample;

    return k <= 1 || hash_mix(hash_mix(identity, sequence), (uint64_t)start) % k == 0;
}

/* ---- the call that a thread is in, stored in its window for readers during the call */

static inline void function_enter(int operation)
{
    record_check();
    if (self.window == NULL && !record_window_ensure())
        return;
    self.window->head.since_ns = 0;
    self.window->head.function = (uint16_t)(operation + 1);
}

/* Store the begin of the call. */
static inline void function_entered(int64_t since_ns)
{
    if (self.window != NULL)
        self.window->head.since_ns = since_ns;
}

static inline void function_leave(void)
{
    if (self.window == NULL)
        return;
    record_check();
    self.window->head.function = 0;
}

/* ---- time in calls that are no collectives, summed up by class in the thread's window */

enum spent { SPENT_POINT_TO_POINT, SPENT_COMPLETION, SPENT_ONE_SIDED, SPENT_FILES, SPENT_OTHER };

/* Add the time of calls. Only point-to-point time goes to the next record, because the analysis of
 * arrivals accounts for messages only. */
static inline void spent_count(enum spent what, int64_t ns)
{
    if (what <= SPENT_COMPLETION)
        self.unrecorded_ns += ns;
    if (self.window == NULL && !record_window_ensure())
        return;
    record_check();
    struct chunk_head *const head = &self.window->head;

    switch (what) {
    case SPENT_POINT_TO_POINT: head->point_to_point_ns += ns; break;
    case SPENT_COMPLETION: head->completion_ns += ns; break;
    case SPENT_ONE_SIDED: head->one_sided_ns += ns; break;
    case SPENT_FILES: head->files_ns += ns; break;
    case SPENT_OTHER: self.other_ns += ns; break;
    }
}

/* End a call, and add its time. */
static inline void spent_add(enum spent what, int64_t ns)
{
    spent_count(what, ns);
    if (self.window != NULL)
        self.window->head.function = 0;
}
