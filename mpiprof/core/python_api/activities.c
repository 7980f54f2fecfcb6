/* Activities of all ranks by time: recorded calls, and long intervals between calls.
 *
 * mpiprof/metrics/activities.py describes them. It has no MPI and no state. Caller: that module,
 * from any thread. The caller owns all arrays. */
#include "python_api/activities.h"

/* Recorded calls, and then intervals. The fields have the order of activities.PARTS. */
struct parts {
    int64_t calls, ranks, short_ns;
    const int64_t *first; /* of each rank: its first activity; and the number of activities */
    const int64_t *order; /* rows of the activities */
    const int64_t *begin_ns, *end_ns;
    const int32_t *site, *last_site; /* of each call; of the calls before and after an interval */
};

/* Returns true if an activity follows another one without a call between them. */
static bool follows(const struct parts *p, int64_t before, int64_t row)
{
    const int64_t pause_ns = p->begin_ns[row] - p->end_ns[before];
    const bool is_same_call = p->site[row] == p->last_site[before] && pause_ns <= p->short_ns;

    return (row < p->calls) != (before < p->calls) && (pause_ns == 0 || is_same_call);
}

/* Writes the activities in their order. */
PUBLIC void activities_arrange(const struct parts *p, struct activity *activities)
{
    for (int64_t rank = 0; rank < p->ranks; rank++) {
        const int64_t begin = p->first[rank];

        for (int64_t i = begin, first = begin; i < p->first[rank + 1]; i++) {
            const int64_t row = p->order[i];

            first = i > begin && follows(p, p->order[i - 1], row) ? first : i;
            activities[i] = (struct activity){p->begin_ns[row], p->end_ns[row], first,
                                              p->last_site[row], row < p->calls};
        }
    }
}

/* Returns the first of the activities from `begin` to before `end` that begins after a time.
 *
 * near: such an activity for a time nearby. */
static int64_t begins_after(const struct activity *a, int64_t begin, int64_t end, int64_t time_ns,
                            int64_t near)
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

/* Finds the last pause of ranks up to some times, as Activities.last_pause describes.
 *
 * first: of each rank, its first activity. near: of each rank, likewise; it is changed. Results:
 * last_ns, since_ns (INT64_MIN without an activity before). */
PUBLIC void activities_find_pauses(const struct activity *a, const int64_t *first, int64_t *near,
                                   int64_t count, const int64_t *rank, const int64_t *time_ns,
                                   int64_t *last_ns, int64_t *since_ns)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = first[rank[i]], end = first[rank[i] + 1];
        int64_t before = begins_after(a, begin, end, time_ns[i], near[rank[i]]);

        near[rank[i]] = before--;
        last_ns[i] = time_ns[i];
        if (before >= begin && a[before].end_ns > time_ns[i]) {
            last_ns[i] = a[a[before].first].begin_ns;
            before = a[before].first - 1;
        }
        since_ns[i] = before >= begin ? a[before].end_ns : INT64_MIN;
    }
}

/* Finds the begin of the next activity of ranks from some times on, or INT64_MAX. */
PUBLIC void activities_find_next(const struct activity *a, const int64_t *first, int64_t *near,
                                 int64_t count, const int64_t *rank, const int64_t *time_ns,
                                 int64_t *next_ns)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = first[rank[i]], end = first[rank[i] + 1];
        const int64_t next = begins_after(a, begin, end, time_ns[i] - 1, near[rank[i]]);

        near[rank[i]] = next;
        next_ns[i] = next < end ? a[next].begin_ns : INT64_MAX;
    }
}
