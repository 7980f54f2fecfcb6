/* The time of a message from rounds that were measured, and whether it would come out again.
 *
 * Two processors are at times nearer to each other, and at times farther: the scheduler moves a
 * process to another core, and a host moves the processors of its guests. On one virtual machine a
 * cache line took 28 ns or 130 ns from the one to the other, and a message 125 ns or 335 ns, for
 * milliseconds or for a minute. So rounds have two levels, and their middle is now on the one, now
 * on the other. The lower one comes again: the time is the first tenth's end of the rounds.
 *
 * That holds where the lower level is met again and again. The rounds, in the order of time, fall
 * into parts, and each part's shortest round is what a shorter measurement would have found. The
 * spread is by how much the middle one of the parts lies above the time.
 */
#include <stdlib.h>
#include <string.h>

#include "machine/rounds.h"

enum { ENOUGH = 12, LEAST = 4, PARTS = 8, TENTH = 10 };

void rounds_keep(struct rounds *r, double ns, bool clean)
{
    if (r->count[clean] < MOST_ROUNDS)
        r->ns[clean][r->count[clean]++] = ns;
}

bool rounds_enough(const struct rounds *r)
{
    return r->count[1] >= ENOUGH;
}

/* Whether the clean rounds count: where there are too few, the others do. */
static bool kind(const struct rounds *r)
{
    return r->count[1] >= LEAST || r->count[1] >= r->count[0];
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ns; 0 without any round. */
double rounds_time(const struct rounds *r)
{
    const int count = r->count[kind(r)];
    double sorted[MOST_ROUNDS];

    if (count == 0)
        return 0;
    memcpy(sorted, r->ns[kind(r)], (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return sorted[count / TENTH];
}

/* 1 where the time would come out again, and where there is none. */
double rounds_spread(const struct rounds *r)
{
    const int count = r->count[kind(r)], parts = count < PARTS ? count : PARTS;
    const double *ns = r->ns[kind(r)], time = rounds_time(r);
    double shortest[PARTS];

    for (int part = 0; part < parts; part++) {
        const int end = (part + 1) * count / parts;

        shortest[part] = ns[part * count / parts];
        for (int i = part * count / parts; i < end; i++)
            shortest[part] = ns[i] < shortest[part] ? ns[i] : shortest[part];
    }
    qsort(shortest, (size_t)parts, sizeof *shortest, compare);
    return time > 0 && shortest[parts / 2] > time ? shortest[parts / 2] / time : 1;
}
