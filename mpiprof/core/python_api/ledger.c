/* Segments of a thread from its calls: the ledger.
 *
 * It has no MPI and no state. Caller: mpiprof/account/ledger.py, from any thread. The caller owns
 * all arrays. */
#include "base/base.h"

enum { OUTSIDE = -1 };

/* The fields have the names and the order of ledger.COLUMNS. */
struct segment {
    int64_t begin_ns, end_ns;
    int32_t shape;
    bool completes;
    int64_t polls;
};

static int64_t clip(int64_t time_ns, int64_t low_ns, int64_t high_ns)
{
    const int64_t least_ns = time_ns > low_ns ? time_ns : low_ns;

    return least_ns < high_ns ? least_ns : high_ns;
}

/* Limits the times of calls to the life of a thread, at whose end open calls end. `are_ordered`
 * becomes 1 if the calls are in order of their begin and, of an equal begin, the longest first. */
PUBLIC void ledger_clip(int64_t count, struct segment *calls, int64_t begin_ns, int64_t end_ns,
                        int64_t *are_ordered)
{
    *are_ordered = 1;
    for (int64_t i = 0; i < count; i++) {
        struct segment *const call = &calls[i];

        if (call->end_ns == 0)
            call->end_ns = end_ns;
        call->begin_ns = clip(call->begin_ns, begin_ns, end_ns);
        call->end_ns = clip(call->end_ns, begin_ns, end_ns);
        if (i > 0 && (call->begin_ns < call[-1].begin_ns ||
                      (call->begin_ns == call[-1].begin_ns && call->end_ns > call[-1].end_ns)))
            *are_ordered = 0;
    }
}

/* Writes the segments of a life from its calls in order, which ledger_clip has limited, and their
 * number. A call within another call belongs to the outer one. segments: has 2 * calls + 1. */
PUBLIC void ledger_fill(int64_t calls, const struct segment *call, int64_t begin_ns, int64_t end_ns,
                        struct segment *segments, int64_t *count)
{
    int64_t reached_ns = begin_ns, at = 0;

    for (int64_t i = 0; i <= calls; i++) {
        const int64_t next_ns = i < calls ? call[i].begin_ns : end_ns;

        if (i < calls && call[i].end_ns <= (next_ns > reached_ns ? next_ns : reached_ns))
            continue;
        if (next_ns > reached_ns)
            segments[at++] =
                (struct segment){.begin_ns = reached_ns, .end_ns = next_ns, .shape = OUTSIDE};
        if (i == calls)
            break;
        segments[at] = call[i];
        segments[at].begin_ns = next_ns > reached_ns ? next_ns : reached_ns;
        reached_ns = segments[at++].end_ns;
    }
    *count = at;
}
