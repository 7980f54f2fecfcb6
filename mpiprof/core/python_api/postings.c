/* The message that a call waits for: the one that is posted last.
 *
 * It has no MPI and no state. Caller: mpiprof/metrics/message_waits.py, from any thread. The caller
 * owns all arrays. */
#include "base/base.h"

/* Returns value / unit, rounded down. */
static int64_t divide_down(int64_t value, int64_t unit)
{
    return value / unit - (value % unit < 0);
}

/* Writes the index of the last message of each call to `last`, and their number to `calls`.
 *
 * call: of each message, ascending. Messages whose posted_ns are equal in units of tie_ns are
 * compared by `order`; of equal ones the last counts. */
PUBLIC void postings_find_last(int64_t count, const int64_t *call, const int64_t *posted_ns,
                               int64_t tie_ns, const int64_t *order, int64_t *last, int64_t *calls)
{
    int64_t found = 0;

    for (int64_t i = 0, next; i < count; i = next) {
        int64_t best = i;

        for (next = i + 1; next < count && call[next] == call[i]; next++) {
            const int64_t time = divide_down(posted_ns[next], tie_ns);
            const int64_t latest = divide_down(posted_ns[best], tie_ns);

            if (time > latest || (time == latest && order[next] >= order[best]))
                best = next;
        }
        last[found++] = best;
    }
    *calls = found;
}
