/* Calls of which the thread had no processor for most of the time, as lines of the tables.
 *
 * A thread waits for a message on its processor if the library polls, and off the processor if the
 * library sleeps or yields. So time off the processor is a stall only in a process whose long calls
 * usually keep the processor: a stopped process is neither running nor ready, and on a busy node it
 * is ready for long. Two kinds of time are therefore judged separately, each by the share of earlier
 * long calls that were mostly of this kind.
 *
 * The counters before the call were read at the end of an earlier call or interval, and include the
 * time since then. So the times written are lower bounds.
 *
 * Threads: any.
 */
#include "record/stalled_call.h"

#include <errno.h>

#include "base/recorder.h"
#include "record/record.h"
#include "tracefile/tracefile.h"

enum { LEAST_CALLS = 4, LINES_PER_LIMIT = 100 };
enum { MOST_FAULTS = 8 }; /* with input, as of a process whose memory was swapped out */

static atomic_uint measured, asleep_calls, queued_calls, lines;
static _Atomic int64_t least_ns = STALLED_CALL_NS; /* doubles, so the number of lines is bounded */

static int64_t positive(int64_t value)
{
    return value > 0 ? value : 0;
}

/* Count a call, and return true if most of it was off the processor in a way in which fewer than
 * half of the earlier calls were. */
static bool is_unusual(bool mostly, atomic_uint *calls, unsigned earlier)
{
    const unsigned usual = mostly ? atomic_fetch_add(calls, 1) : atomic_load(calls);

    return mostly && earlier >= LEAST_CALLS && 2 * usual < earlier;
}

static bool line_is_due(int64_t length_ns)
{
    if (length_ns < atomic_load(&least_ns))
        return false;
    if (atomic_fetch_add(&lines, 1) % LINES_PER_LIMIT == LINES_PER_LIMIT - 1)
        atomic_store(&least_ns, 2 * atomic_load(&least_ns));
    return true;
}

/* Judge a call that took STALLED_CALL_NS or longer. shape: of the call. */
void stalled_call_check(const struct counters *before, const struct counters *after,
                        int64_t enter_ns, int64_t exit_ns, uint32_t shape)
{
    const int64_t length = exit_ns - enter_ns, gap = positive(enter_ns - before->at_ns);
    const int64_t run = positive(after->processor_ns - before->processor_ns);
    const bool has_queue = before->queue_ns >= 0 && after->queue_ns >= 0;
    const int64_t ready = has_queue ? positive(after->queue_ns - before->queue_ns) : 0;
    /* In the gap, the thread may have run or been ready all the time. */
    const int64_t queue = positive(ready - gap), asleep = positive(length - run - ready);

    if (before->at_ns == 0 || gap > length)
        return;
    const unsigned earlier = atomic_fetch_add(&measured, 1);
    const bool slept = is_unusual(2 * asleep >= length, &asleep_calls, earlier);
    const bool queued = is_unusual(2 * queue >= length, &queued_calls, earlier);

    if ((!slept && !queued) || after->major_faults - before->major_faults > MOST_FAULTS ||
        record_is_paused() || !line_is_due(length))
        return;
    const int kept = errno; /* errno belongs to the program */
    struct text t = {0};

    text_add(&t,
             "{\"rank\": %d, \"stalled_call\": {\"enter_ns\": %lld, \"exit_ns\": %lld, "
             "\"shape\": %u, \"thread\": %u, \"asleep_ns\": %lld, \"queue_ns\": %lld}}\n",
             recorder.rank, (long long)enter_ns, (long long)exit_ns, shape, self.number,
             (long long)asleep, has_queue ? (long long)queue : -1);
    if (!t.cut)
        file_write_line(&t);
    text_free(&t);
    errno = kept;
}
