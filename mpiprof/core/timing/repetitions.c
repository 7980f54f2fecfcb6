/* The time of a message from repeated measurements, and its repeatability.
 *
 * The distance of two processors varies: the scheduler moves a process to another core, and a host
 * moves the processors of its guests. On one virtual machine a cache line took 28 ns or 130 ns to
 * the other processor, and a message 125 ns or 335 ns. Either lasted for milliseconds or for a
 * minute. So the repetitions have two levels, and their median is sometimes at one and sometimes at
 * the other. The lower level is reproducible, so the time is the first decile of the repetitions.
 *
 * This requires that the lower level occurs again and again. So the repetitions, in order of time,
 * are divided into batches. The minimum of a batch is the result that a shorter measurement would
 * have found. The spread is the median of these minima relative to the time.
 */
#include <stdlib.h>
#include <string.h>

#include "timing/timing.h"

enum { ENOUGH = 12, PARTS = 8, TENTH = 10 };

void repetition_add(struct repetitions *r, double ns, bool clean)
{
    if (r->count[clean] < MOST_ROUNDS)
        r->ns[clean][r->count[clean]++] = ns;
}

bool repetitions_suffice(const struct repetitions *r)
{
    return r->count[1] >= ENOUGH;
}

/* Return 1 to use the clean repetitions, or 0 if there are too few. */
static bool uses_clean(const struct repetitions *r)
{
    return r->count[1] >= LEAST_CLEAN || r->count[1] >= r->count[0];
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Return the time in ns, or 0 without any repetition. */
double repetition_time(const struct repetitions *r)
{
    const int count = r->count[uses_clean(r)];
    double sorted[MOST_ROUNDS];

    if (count == 0)
        return 0;
    memcpy(sorted, r->ns[uses_clean(r)], (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    return sorted[count / TENTH];
}

/* Return the spread. It is 1 if the time is reproducible or there is none. */
double repetition_spread(const struct repetitions *r)
{
    const int count = r->count[uses_clean(r)], parts = count < PARTS ? count : PARTS;
    const double *ns = r->ns[uses_clean(r)], time = repetition_time(r);
    double shortest[PARTS];

    for (int part = 0; part < parts; part++) {
        const int end = (part + 1) * count / parts;

        shortest[part] = ns[part * count / parts];
        for (int i = part * count / parts; i < end; i++)
            shortest[part] = ns[i] < shortest[part] ? ns[i] : shortest[part];
    }
    qsort(shortest, (size_t)parts, sizeof *shortest, compare_doubles);
    return time > 0 && shortest[parts / 2] > time ? shortest[parts / 2] / time : 1;
}
