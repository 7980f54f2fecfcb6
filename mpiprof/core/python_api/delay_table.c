/* Sums over the intervals of each rank and pair of call sites.
 *
 * It has no MPI and no state. Caller: mpiprof/account/delay_library.py, from any thread. The
 * caller owns all arrays. */
#include "base/base.h"

/* Intervals of work. The fields have the names and the order of delay_library.INTERVALS. */
struct intervals {
    int64_t count, keys;
    const int64_t *rank, *key, *begin_ns, *end_ns;
    const double *cost, *direct;
    const int64_t *number;                 /* by code: rank * keys + key */
    double *cost_ns, *direct_ns, *work_ns; /* results by number: 0 */
    int64_t *intervals, *late_intervals;   /* results by number: 0 */
};

/* Sets the elements of `number` whose codes occur to 1. Other elements remain 0. */
PUBLIC void delay_table_mark(int64_t count, int64_t keys, const int64_t *rank, const int64_t *key,
                             int64_t *number)
{
    for (int64_t i = 0; i < count; i++)
        number[rank[i] * keys + key[i]] = 1;
}

/* Adds up the intervals of each number. */
PUBLIC void delay_table_sum(const struct intervals *of)
{
    for (int64_t i = 0; i < of->count; i++) {
        const int64_t number = of->number[of->rank[i] * of->keys + of->key[i]];

        of->cost_ns[number] += of->cost[i];
        of->direct_ns[number] += of->direct[i];
        of->work_ns[number] += (double)(of->end_ns[i] - of->begin_ns[i]);
        of->intervals[number]++;
        of->late_intervals[number] += of->cost[i] > 0;
    }
}
