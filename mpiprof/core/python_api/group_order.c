/* Order statistics of the values of each group, such as the median, in linear time.
 *
 * It has no MPI and no state. Caller: mpiprof/account/row_order.py, from any thread. The caller
 * owns all arrays. The values of each group are collected first. Then each group is divided around
 * a pivot until the pivot is at the index. */
#include "base/base.h"

static void swap(double *a, double *b)
{
    const double value = *a;

    *a = *b;
    *b = value;
}

/* Returns an index in [low, high), at random so that no order of the values is slow. */
static int64_t choose_pivot(int64_t low, int64_t high, uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((*state >> 33) % (uint64_t)(high - low));
}

/* Returns the value that would be at an index if the values were in order. NaN equals all. */
static double select_value(double *values, int64_t count, int64_t index)
{
    int64_t low = 0, high = count;
    uint64_t state = 1;

    while (high - low > 1) {
        const double pivot = values[choose_pivot(low, high, &state)];
        int64_t less = low, more = high; /* values between them equal the pivot, or are unread */

        for (int64_t at = low; at < more;) {
            if (values[at] < pivot)
                swap(&values[less++], &values[at++]);
            else if (values[at] > pivot)
                swap(&values[at], &values[--more]);
            else
                at++;
        }
        if (index < less)
            high = less;
        else if (index >= more)
            low = more;
        else
            return pivot;
    }
    return values[low];
}

/* Writes a value of each group: the one at index[g] in order, or 0 if the group is shorter.
 *
 * group: below `groups`. end: the first row of each group in `room`, if the rows are by group; then
 * its end. room: has one element for each value. */
PUBLIC void group_order_select(int64_t count, int64_t groups, const int64_t *group,
                               const double *values, const int64_t *index, int64_t *end,
                               double *room, double *selected)
{
    for (int64_t i = 0; i < count; i++)
        room[end[group[i]]++] = values[i];
    for (int64_t g = 0, first = 0; g < groups; first = end[g++]) {
        const bool is_inside = index[g] >= 0 && index[g] < end[g] - first;

        selected[g] = is_inside ? select_value(room + first, end[g] - first, index[g]) : 0;
    }
}
