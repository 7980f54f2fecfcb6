/* Activities of a recorded run by rank and time: its recorded calls, and long intervals between
 * calls. */
#pragma once
#include "base/base.h"

struct activity {
    int64_t begin_ns, end_ns;
    int32_t last_site; /* of the call, or of the call that ends the interval */
    uint32_t is_call : 1,
        before : 31; /* number of activities before it without a call between them */
};

/* Returns the first of the activities from `begin` to before `end` that begins after a time.
 *
 * near: such an activity for a time nearby. */
static inline int64_t activity_after(const struct activity *a, int64_t begin, int64_t end,
                                     int64_t time_ns, int64_t near)
{
    int64_t low = near, high = near, step = 1;

    for (; low > begin && a[low - 1].begin_ns > time_ns; step *= 2) {
        high = low - 1;
        low = low - begin > step ? low - step : begin;
    }
    for (step = 1; high < end && a[high].begin_ns <= time_ns; step *= 2) {
        low = high + 1;
        high = end - high > step ? high + step : end;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;

        if (a[middle].begin_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
