/* Calls and polls of which the thread had no processor for most of the time, as lines of the tables.
 *
 * A thread waits for a message on its processor if the library polls, and off the processor if the
 * library sleeps or yields. So time off the processor is a stall only in a process whose long calls
 * usually keep the processor: a stopped process is neither running nor ready, and on a busy node it
 * is ready for long. Two kinds of time are therefore judged separately: most of a call is of a kind,
 * and in most of the other long calls less than a quarter. The other calls are the earlier ones, and
 * for one of the first LEAST_CALLS calls the rest of these. A program that polls keeps the processor
 * by its own calls, in which the library does not wait.
 *
 * The counters before the call were read at the end of an earlier call or interval, and include the
 * time since then. So the times written are lower bounds.
 *
 * Threads: any. Each of the first calls is kept by the thread that made it, until one thread judges
 * all of them.
 */
#include "record/stalled_call.h"

#include <errno.h>

#include "base/recorder.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

enum { LEAST_CALLS = 4, LINES_PER_LIMIT = 100 };
enum { MOST_FAULTS = 8 }; /* with input, as of a process whose memory was swapped out */
enum { ASLEEP, READY, KINDS };
struct stall {
    int64_t enter_ns, exit_ns, asleep_ns, queue_ns; /* queue_ns: -1 if unknown */
    uint32_t shape;
    unsigned thread;
    bool mostly[KINDS], partly[KINDS]; /* whether a half or a quarter of the time is of a kind */
    bool may_be_written;
};

static atomic_uint measured, calls[KINDS], lines[KINDS];
/* doubles, so the number of lines is bounded */
static _Atomic int64_t least_ns[KINDS] = {STALLED_CALL_NS, STALLED_CALL_NS};
static struct stall first_calls[LEAST_CALLS];
static atomic_bool is_kept[LEAST_CALLS];

static int64_t positive(int64_t value)
{
    return value > 0 ? value : 0;
}

static bool line_is_due(const struct stall *s)
{
    const int kind = s->mostly[ASLEEP] ? ASLEEP : READY;

    if (s->exit_ns - s->enter_ns < atomic_load(&least_ns[kind]))
        return false;
    if (atomic_fetch_add(&lines[kind], 1) % LINES_PER_LIMIT == LINES_PER_LIMIT - 1)
        atomic_store(&least_ns[kind], 2 * atomic_load(&least_ns[kind]));
    return true;
}

static void stall_write(const struct stall *s)
{
    const int kept = errno; /* errno belongs to the program */
    struct text t = {0};

    if (!s->may_be_written || !line_is_due(s))
        return;
    text_add(&t,
             "{\"rank\": %d, \"stalled_call\": {\"enter_ns\": %lld, \"exit_ns\": %lld, "
             "\"shape\": %u, \"thread\": %u, \"asleep_ns\": %lld, \"queue_ns\": %lld}}\n",
             recorder.rank, (long long)s->enter_ns, (long long)s->exit_ns, s->shape, s->thread,
             (long long)s->asleep_ns, (long long)s->queue_ns);
    if (!t.cut)
        file_write_line(&t);
    text_free(&t);
    errno = kept;
}

/* Measure a call, or return false if the counters before it are too old. */
static bool stall_measure(struct stall *s, const struct counters *before,
                          const struct counters *after)
{
    const int64_t length = s->exit_ns - s->enter_ns, gap = positive(s->enter_ns - before->at_ns);
    const int64_t run = positive(after->processor_ns - before->processor_ns);
    const bool has_queue = before->queue_ns >= 0 && after->queue_ns >= 0;
    const int64_t ready = has_queue ? positive(after->queue_ns - before->queue_ns) : 0;
    const int64_t queue = positive(ready - gap); /* in the gap, it may have been ready */

    if (before->at_ns == 0 || gap > length)
        return false;
    s->thread = self.number;
    s->asleep_ns = positive(length - run - ready);
    s->queue_ns = has_queue ? queue : -1;
    const int64_t times[KINDS] = {s->asleep_ns, queue};

    for (int kind = 0; kind < KINDS; kind++) {
        s->mostly[kind] = 2 * times[kind] >= length;
        s->partly[kind] = 4 * times[kind] >= length;
    }
    s->may_be_written =
        after->major_faults - before->major_faults <= MOST_FAULTS && !record_is_paused();
    return true;
}

/* Write those of the first calls that were off the processor in a way in which fewer than half of
 * the others were. */
static void first_calls_judge(unsigned count)
{
    unsigned usual[KINDS] = {0};

    for (unsigned i = 0; i < count; i++)
        for (int kind = 0; kind < KINDS; kind++)
            usual[kind] += atomic_load(&is_kept[i]) && first_calls[i].partly[kind];
    for (unsigned i = 0; i < count; i++) {
        bool is_unusual = false;

        for (int kind = 0; kind < KINDS && atomic_load(&is_kept[i]); kind++)
            is_unusual |= first_calls[i].mostly[kind] && 2 * (usual[kind] - 1) < count - 1;
        if (is_unusual)
            stall_write(&first_calls[i]);
    }
}

/* Judge a call that took STALLED_CALL_NS or longer. shape: of the call. */
void stalled_call_check(const struct counters *before, const struct counters *after,
                        int64_t enter_ns, int64_t exit_ns, uint32_t shape)
{
    struct stall s = {.enter_ns = enter_ns, .exit_ns = exit_ns, .shape = shape};
    bool is_unusual = false;

    if (!stall_measure(&s, before, after))
        return;
    const unsigned earlier = atomic_fetch_add(&measured, 1);

    for (int kind = 0; kind < KINDS; kind++)
        if (s.partly[kind])
            is_unusual |= 2 * atomic_fetch_add(&calls[kind], 1) < earlier && s.mostly[kind];
    if (earlier >= LEAST_CALLS) {
        if (is_unusual)
            stall_write(&s);
        return;
    }
    first_calls[earlier] = s;
    atomic_store(&is_kept[earlier], true);
    if (earlier == LEAST_CALLS - 1)
        first_calls_judge(LEAST_CALLS);
}

/* Judge a time of STALLED_POLL_NS or longer in which a thread should have polled. */
void stalled_call_check_poll(const struct counters *before, const struct counters *after,
                             int64_t since_ns, int64_t now, uint32_t shape)
{
    struct stall s = {.enter_ns = since_ns, .exit_ns = now, .shape = shape};

    if (stall_measure(&s, before, after) && s.mostly[ASLEEP])
        stall_write(&s);
}

/* Judge the first calls of a process that has made few long ones. */
void stalled_call_end(void)
{
    const unsigned count = atomic_load(&measured);

    if (count < LEAST_CALLS)
        first_calls_judge(count);
}
