/* Log of the intervals between calls that took INTERVAL_NS or longer, with the thread's counters.
 *
 * The records are in the log of messages (message_log.c): now and then one of the node's pressure
 * (node_pressure.c), two or three of counters, then the interval. Counters are differences of two readings,
 * each of which takes about 2 us.
 *
 *   first    at the end of a call, if INTERVAL_NS have passed since the last reading, and the last
 *            interval after such a call was long. Otherwise an earlier reading serves, and the
 *            record contains how long before the interval it was.
 *   second   at the end of the interval. Its time belongs to the interval.
 *
 * Calls are judged by readings of the same counters (stalled_call.c).
 *
 * Threads: any; a thread's state is its own.
 */
#include "record/interval.h"

#include "base/recorder.h"
#include "callsite/callsite.h"
#include "record/interval_counters.h"
#include "record/message_log.h"
#include "record/node_pressure.h"
#include "record/quota_use.h"
#include "record/record.h"
#include "record/thread_times.h"
#include "tracefile/tracefile.h"

enum { OTHER_THREADS_NS = 20000 }; /* less is not recorded */

static bool gc_is_counted;

static uint32_t value_saturate(int64_t value)
{
    return value < 0 ? 0 : value < UINT32_MAX ? (uint32_t)value : UINT32_MAX - 1;
}

/* Return a difference, or -1 if one of the values is unknown. */
static int64_t value_difference(int64_t before, int64_t now)
{
    return before < 0 || now < before ? -1 : now - before;
}

/* Return the processor time of the other threads between two readings, which are not exactly
 * simultaneous for the thread and the process. */
static int64_t other_threads_ns(const struct counters *a, const struct counters *b)
{
    return b->process_ns - a->process_ns - (b->processor_ns - a->processor_ns);
}

static void counters_write(struct record *r, const struct counters *a, const struct counters *b)
{
    const int64_t gc_us = (b->gc_ns - a->gc_ns) / 1000;
    const int64_t untracked_us = (b->untracked_ns - a->untracked_ns + 999) / 1000; /* 0: no call */

    if (other_threads_ns(a, b) >= OTHER_THREADS_NS)
        *r++ = (struct record){.enter_ns = other_threads_ns(a, b), .kind = KIND_interval_threads};
    r[0] = (struct record){.enter_ns = b->processor_ns - a->processor_ns,
                           .exit_ns = value_difference(a->queue_ns, b->queue_ns),
                           .sequence = value_saturate(b->voluntary - a->voluntary),
                           .shape = value_saturate(b->involuntary - a->involuntary),
                           .outside_ns = value_saturate(untracked_us),
                           .thread = a->processor,
                           .kind = KIND_interval_times,
                           .choice = 1};
    r[1] = (struct record){.enter_ns = value_difference(a->instructions, b->instructions),
                           .exit_ns = value_difference(a->cycles, b->cycles),
                           .sequence = value_saturate(b->minor_faults - a->minor_faults),
                           .shape = value_saturate(b->major_faults - a->major_faults),
                           .outside_ns = gc_is_counted ? value_saturate(gc_us) : UINT32_MAX,
                           .thread = b->processor,
                           .kind = KIND_interval_counts};
}

/* Read the counters of the calling thread. */
void interval_read_counters(struct interval *i)
{
    record_check();
    interval_counter_read(i, &i->last);
    affinity_check(i->last.at_ns);
    quota_use_check(i->last.at_ns);
    i->last.untracked_ns =
        self.window->head.one_sided_ns + self.window->head.files_ns + self.other_ns;
    i->expected &= ~(UINT64_C(1) << i->shape % 64);
}

/* Log the interval until `enter_ns`, and return its end, after the log was written. */
int64_t interval_log(struct interval *i, int64_t enter_ns, uint32_t shape)
{
    const struct counters before = i->last;

    if (record_is_paused())
        return enter_ns;
    record_check();
    const int64_t pressure_since = node_pressure_due(i->left_ns, enter_ns);

    interval_read_counters(i);
    const bool has_threads = other_threads_ns(&before, &i->last) >= OTHER_THREADS_NS;
    const int counters = before.at_ns != 0 ? 2 + has_threads : 0;

    if (before.at_ns != 0 && other_threads_ns(&before, &i->last) >= BUSY_THREADS_NS)
        thread_times_read(i->last.at_ns);
    const int parts = counters + (pressure_since != 0);
    struct record *const r = message_log_records(parts);

    if (r == NULL) { /* the log is full */
        interval_end();
        return enter_ns;
    }
    i->expected |= UINT64_C(1) << i->shape % 64;
    if (pressure_since != 0)
        node_pressure_read(r, pressure_since);
    if (counters > 0)
        counters_write(r + parts - counters, &before, &i->last);
    r[parts] = (struct record){.sequence = i->shape,
                               .shape = shape,
                               .outside_ns = value_saturate(i->left_ns - before.at_ns),
                               .thread = (uint16_t)self.number};
    const int64_t now = now_ns();

    message_log_close(r + parts, parts, KIND_interval, i->left_ns, now);
    i->entered_ns = now;
    return now;
}

/* Read the counters at the end of a long call, and judge the call. */
void interval_check_call(struct interval *i, int64_t exit_ns, uint32_t shape)
{
    const struct counters before = i->last;

    interval_read_counters(i);
    stalled_call_check(&before, &i->last, i->entered_ns, exit_ns, shape);
}

/* Read the counters after a time in which the thread should have polled, and judge this time. */
void interval_check_poll(struct interval *i, int64_t since_ns, int64_t now, uint32_t shape)
{
    const struct counters before = i->last;

    interval_read_counters(i);
    stalled_call_check_poll(&before, &i->last, since_ns, now, shape);
}

/* Python's garbage collector begins or ends a pause of the calling thread. */
static void gc_changed(bool begins)
{
    struct interval *const i = self.interval;

    if (i == NULL)
        return;
    const int64_t now = now_ns();

    if (!begins && i->gc_since_ns != 0)
        i->gc_ns += now - i->gc_since_ns;
    i->gc_since_ns = begins ? now : 0;
}

/* Start the log, with an interval from now on for the calling thread. */
void interval_start(void)
{
    const struct options *const o = &recorder.options;

    if (!o->intervals || o->summary || o->ring > 0 || atomic_load(&recorder.stopped))
        return;
    atomic_store(&recorder.logs_intervals, true);
    node_pressure_start();
    if (python_site_is_initialised()) {
        const char *const obstacle = python_gc_start(gc_changed);

        gc_is_counted = obstacle == NULL;
        if (!gc_is_counted)
            interval_counter_note("garbage_collection", obstacle);
    }
    if (!record_window_ensure() || self.interval == NULL)
        return;
    interval_read_counters(self.interval);
    self.interval->left_ns = now_ns();
}

/* End the log of the calling thread. */
void interval_end(void)
{
    interval_counter_close(self.interval);
    self.interval = NULL;
}
