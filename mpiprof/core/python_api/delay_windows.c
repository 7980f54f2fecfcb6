/* Begins of the windows in which the ranks of a wait are compared: when they last met before.
 *
 * mpiprof/account/delay_graph.py describes the method. It has no MPI and no state. Caller:
 * mpiprof/account/delay_costs.py, from any thread. The caller owns all arrays. */
#include "base/base.h"

/* Waits in groups. The fields have the names and the order of delay_costs.GROUPS. */
struct groups {
    int64_t count;
    const int64_t *awaited, *until_ns; /* of each group, the latest first */
    const int64_t *first;           /* of each group: its first member; and the number of members */
    const int64_t *rank, *begin_ns; /* of each member */
    const uint8_t *meets;           /* of each group: whether it waits until all members have met */
    int64_t *since_ns;              /* of each group: result */
};

/* Returns the number of times that are at most `at_ns`. near: such a number for a time nearby. */
static int64_t count_until(const int64_t *times, int64_t count, int64_t at_ns, int64_t near)
{
    int64_t low = near, high = near, step = 1;

    while (low > 0 && times[low - 1] > at_ns) {
        high = low - 1;
        low = low > step ? low - step : 0;
        step *= 2;
    }
    for (step = 1; high < count && times[high] <= at_ns; step *= 2) {
        low = high + 1;
        high = count - high > step ? high + step : count;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;

        if (times[middle] <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the begin of the first wait of a group, or INT64_MAX if not all its ranks are members. */
static int64_t first_begin(const struct groups *g, int64_t group, const uint8_t *is_member)
{
    int64_t first_ns = INT64_MAX;

    if (!is_member[g->awaited[group]])
        return INT64_MAX;
    for (int64_t m = g->first[group]; m < g->first[group + 1]; m++) {
        if (!is_member[g->rank[m]])
            return INT64_MAX;
        if (g->begin_ns[m] < first_ns)
            first_ns = g->begin_ns[m];
    }
    return first_ns;
}

/* Moves the begin of each window to the last meeting of all its ranks before their waits.
 *
 * is_member: of each rank, whether it takes part in the meetings. times: of the meetings, ascending.
 */
PUBLIC void delay_windows_add_meetings(const struct groups *g, const uint8_t *is_member,
                                       const int64_t *times, int64_t count)
{
    int64_t at = count;

    for (int64_t group = 0; group < g->count; group++) {
        const int64_t first_ns = first_begin(g, group, is_member);

        if (first_ns == INT64_MAX)
            continue;
        at = count_until(times, count, first_ns, at);
        if (at > 0 && times[at - 1] > g->since_ns[group])
            g->since_ns[group] = times[at - 1];
    }
}

/* Entry of a hash table: when one of two ranks last waited for the other. */
struct rank_pair {
    int64_t code; /* -1 if the entry is empty */
    int64_t until_ns;
};

static struct rank_pair *pair_find(struct rank_pair *table, uint64_t mask, int64_t a, int64_t b)
{
    const int64_t code = a < b ? a << 32 | b : b << 32 | a;
    uint64_t at = hash_mix(0, (uint64_t)code) & mask;

    while (table[at].code >= 0 && table[at].code != code)
        at = (at + 1) & mask;
    table[at].code = code;
    return &table[at];
}

/* Moves the begin of a window to the last time by which each of its ranks had met the awaited one.
 *
 * Two ranks meet when one has waited for the other. */
static void add_pairs(const struct groups *g, struct rank_pair *table, uint64_t mask, int64_t group)
{
    int64_t since_ns = INT64_MAX;

    for (int64_t m = g->first[group]; m < g->first[group + 1]; m++) {
        struct rank_pair *const pair = pair_find(table, mask, g->awaited[group], g->rank[m]);
        const int64_t met_ns = pair->until_ns <= g->begin_ns[m] ? pair->until_ns : INT64_MIN;

        since_ns = met_ns < since_ns ? met_ns : since_ns;
        pair->until_ns = g->until_ns[group];
    }
    if (since_ns < INT64_MAX && since_ns > g->since_ns[group])
        g->since_ns[group] = since_ns;
}

/* Moves the begin of each window to the last waits for each other of its pairs of ranks.
 *
 * Groups of several ranks that wait until all ranks meet are left out. table: has room for `size`
 * entries, a power of two and more than the number of pairs. */
PUBLIC void delay_windows_add_pairs(const struct groups *g, struct rank_pair *table, int64_t size)
{
    for (int64_t i = 0; i < size; i++)
        table[i] = (struct rank_pair){-1, INT64_MIN};
    /* From the earliest group on; equal times are in the order of the groups. */
    for (int64_t end = g->count, begin; end > 0; end = begin) {
        begin = end - 1;
        while (begin > 0 && g->until_ns[begin - 1] == g->until_ns[begin])
            begin--;
        for (int64_t group = begin; group < end; group++)
            if (!g->meets[group] || g->first[group + 1] - g->first[group] == 1)
                add_pairs(g, table, (uint64_t)size - 1, group);
    }
}
