/* Intervals and waits of all ranks as items, by rank and time and without overlaps.
 *
 * It has no MPI and no state. Caller: mpiprof/account/delay_library.py, from any thread. The
 * caller owns all arrays. */
#include <string.h>

#include "python_api/delays.h"

/* Intervals and waits. The fields have the names and the order of delay_library.PARTS. */
struct parts {
    int64_t intervals, groups, ranks, are_ordered, wait_key;
    const int64_t *order; /* rows of the intervals by rank and time, unless they are in order */
    const int64_t *rank, *begin_ns, *end_ns, *key; /* of each interval */
    const int64_t *group_first; /* first wait of each group, the latest first; number of waits */
    const int64_t *wait_rank, *wait_begin_ns, *wait_end_ns; /* of each wait */
    int64_t *first;    /* result: of each rank: its first item; and the number of items */
    int64_t *waits_of; /* room for each rank: 0 */
};

/* Returns the row of the next interval by rank and time. */
static int64_t interval_row(const struct parts *p, int64_t at)
{
    return p->are_ordered ? at : p->order[at];
}

/* Counts the items and the waits of each rank. */
static void count_items(const struct parts *p)
{
    memset(p->first, 0, (size_t)(p->ranks + 1) * sizeof *p->first);
    for (int64_t i = 0; i < p->intervals; i++)
        p->first[p->rank[i] + 1]++;
    for (int64_t i = 0; i < p->group_first[p->groups]; i++) {
        p->first[p->wait_rank[i] + 1]++;
        p->waits_of[p->wait_rank[i]]++;
    }
    for (int64_t rank = 0; rank < p->ranks; rank++)
        p->first[rank + 1] += p->first[rank];
}

/* Writes the waits of each rank by time to the end of its items. */
static void add_waits(const struct parts *p, struct item *items)
{
    for (int64_t rank = 0; rank < p->ranks; rank++)
        p->waits_of[rank] = p->first[rank + 1] - p->waits_of[rank];
    for (int64_t group = p->groups - 1; group >= 0; group--)
        for (int64_t i = p->group_first[group + 1] - 1; i >= p->group_first[group]; i--)
            items[p->waits_of[p->wait_rank[i]]++] = (struct item){
                p->wait_begin_ns[i], p->wait_end_ns[i], (int32_t)group, (int32_t)p->wait_key};
}

/* Sorts the waits of a rank, which are in order unless they are of several threads. */
static void sort_waits(struct item *waits, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        const struct item wait = waits[i];
        int64_t at = i;

        for (; at > 0 && waits[at - 1].begin_ns > wait.begin_ns; at--)
            waits[at] = waits[at - 1];
        waits[at] = wait;
    }
}

/* Merges the intervals of a rank, from the interval number `at` on, with its waits, which are the
 * last of its items, and returns the row after them. */
static int64_t merge_intervals(const struct parts *p, struct item *items, int64_t rank, int64_t at)
{
    const int64_t end = p->first[rank + 1];
    int64_t intervals = 0, latest_ns = INT64_MIN, wait;

    while (at + intervals < p->intervals && p->rank[interval_row(p, at + intervals)] == rank)
        intervals++;
    wait = p->first[rank] + intervals;
    sort_waits(items + wait, end - wait);
    intervals += at;
    for (int64_t i = p->first[rank]; i < end; i++) {
        const int64_t row = at < intervals ? interval_row(p, at) : -1;
        struct item item;

        if (row >= 0 && (wait == end || p->begin_ns[row] <= items[wait].begin_ns)) {
            item =
                (struct item){p->begin_ns[row], p->end_ns[row], (int32_t)row, (int32_t)p->key[row]};
            at++;
        } else {
            item = items[wait++];
        }
        /* Those of several threads may overlap; the time counts once. */
        item.begin_ns = item.begin_ns > latest_ns ? item.begin_ns : latest_ns;
        item.end_ns = item.end_ns > latest_ns ? item.end_ns : latest_ns;
        latest_ns = item.end_ns;
        items[i] = item;
    }
    return at;
}

/* Writes the items of all ranks. */
PUBLIC void delay_items_arrange(const struct parts *p, struct item *items)
{
    int64_t at = 0;

    count_items(p);
    add_waits(p, items);
    for (int64_t rank = 0; rank < p->ranks; rank++)
        at = merge_intervals(p, items, rank, at);
}

static int64_t pair_code(int32_t first, int32_t second, int64_t low, int64_t count)
{
    return (first - low) * count + second - low;
}

/* Sets the elements of `number` whose codes of pairs occur to 1. Other elements remain 0. */
PUBLIC void delay_items_mark_pairs(int64_t rows, const int32_t *first, const int32_t *second,
                                   int64_t low, int64_t count, int64_t *number)
{
    for (int64_t row = 0; row < rows; row++)
        number[pair_code(first[row], second[row], low, count)] = 1;
}

/* Writes the number of each pair. number: by the code of a pair. */
PUBLIC void delay_items_number_pairs(int64_t rows, const int32_t *first, const int32_t *second,
                                     int64_t low, int64_t count, const int64_t *number, int64_t *of)
{
    for (int64_t row = 0; row < rows; row++)
        of[row] = number[pair_code(first[row], second[row], low, count)];
}
