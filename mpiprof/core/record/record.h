/* Windows of records, one per thread (record.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mapped.h"
#include "base/recorder.h"
#include "record/thread.h"

struct record *record_new(uint32_t extensions);
void record_drop(void);
struct call;
void record_summarise(const struct call *c, int64_t sent, int64_t received);
struct record *record_statistics(uint32_t shape);
void record_start_up(void);
void record_flush(void);
void record_signal(int number); /* called in a signal handler */
bool record_window(void);
void record_check_length(void);
int64_t record_overhead_ns(void);
uint64_t record_dropped(void);

/* Check the file's length before a write to the window, in the cases that no handler can cover. */
static inline void record_check(void)
{
    if (self.bus != BUS_OPEN || atomic_load_explicit(&mapped_unguarded, memory_order_relaxed))
        record_check_length();
}

static inline void record_publish(struct record *r, enum kind kind)
{
    atomic_thread_fence(memory_order_release);
    r->kind = (uint8_t)kind;
}

static inline void record_extend(struct record *r, enum extension what, int64_t value)
{
    r->sequence = (uint32_t)what;
    r->exit_ns = value;
    r->thread = (uint16_t)self.number;
    record_publish(r, KIND_extension);
}

/* Return true if calls are added to totals: from the start, or since the log has reached its
 * limit. */
static inline bool record_is_summed(void)
{
    return recorder.options.summary ||
           atomic_load_explicit(&recorder.limited, memory_order_relaxed);
}

/* Return true if a call is sampled. `identity` is that of the communicator. */
static inline bool record_samples(uint64_t identity, uint32_t sequence, int64_t start)
{
    const unsigned k = recorder.options.sample;

    return k <= 1 || hash_mix(hash_mix(identity, sequence), (uint64_t)start) % k == 0;
}
