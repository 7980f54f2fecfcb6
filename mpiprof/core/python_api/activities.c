/* Joins the activities of a recorded run from their sources: calls of collectives, calls on
 * messages, and intervals.
 *
 * mpiprof/metrics/activities.py describes them. It has no MPI and no state. Caller: that module,
 * from any thread. The caller owns all arrays. */
#include "python_api/activities.h"

enum { SOURCES = 3, INTERVALS = SOURCES - 1 };

/* Rows by rank and time. The fields have the order of activities.SOURCE. */
struct source {
    int64_t count;
    const int32_t *rank;
    const int64_t *begin_ns, *end_ns; /* end_ns: 0 for an open call, which is left out */
    const int32_t *site, *last_site;  /* of each call; of the calls before and after an interval */
};

struct row {
    int64_t begin_ns, end_ns;
    int32_t site, last_site;
    bool is_call;
};

/* Moves `at` to the next closed call or interval of a rank, and returns false without one. */
static bool source_next(const struct source *s, int64_t *at, int64_t rank)
{
    while (*at < s->count && s->rank[*at] == rank && s->end_ns[*at] == 0)
        (*at)++;
    return *at < s->count && s->rank[*at] == rank;
}

/* Takes the earliest row of a rank from the sources; of equal ones, that of the first source. */
static bool take_earliest(const struct source *const sources[SOURCES], int64_t *at, int64_t rank,
                          struct row *row)
{
    int best = -1;

    for (int k = 0; k < SOURCES; k++)
        if (source_next(sources[k], &at[k], rank) &&
            (best < 0 || sources[k]->begin_ns[at[k]] < sources[best]->begin_ns[at[best]]))
            best = k;
    if (best < 0)
        return false;
    const struct source *const s = sources[best];
    const int64_t i = at[best]++;

    *row =
        (struct row){s->begin_ns[i], s->end_ns[i], s->site[i], s->last_site[i], best != INTERVALS};
    return true;
}

/* Returns true if an activity follows another one without a call between them. */
static bool follows(const struct row *before, const struct row *row, int64_t short_ns)
{
    const int64_t pause_ns = row->begin_ns - before->end_ns;
    const bool is_same_call = row->site == before->last_site && pause_ns <= short_ns;

    return row->is_call != before->is_call && (pause_ns == 0 || is_same_call);
}

/* Writes the activities of all ranks, and the first of each rank to `first`: ranks + 1 numbers.
 *
 * short_ns: shorter calls are not recorded. */
PUBLIC void activities_join(const struct source *calls, const struct source *message_calls,
                            const struct source *intervals, int64_t ranks, int64_t short_ns,
                            struct activity *activities, int64_t *first)
{
    const struct source *const sources[SOURCES] = {calls, message_calls, intervals};
    int64_t at[SOURCES] = {0}, count = 0;

    for (int64_t rank = 0; rank < ranks; rank++) {
        struct row before = {0}, row;
        uint32_t chain = 0;

        first[rank] = count;
        while (take_earliest(sources, at, rank, &row)) {
            chain = count > first[rank] && follows(&before, &row, short_ns) ? chain + 1 : 0;
            activities[count++] = (struct activity){row.begin_ns, row.end_ns, row.last_site,
                                                    row.is_call, chain & 0x7fffffff};
            before = row;
        }
    }
    first[ranks] = count;
}
