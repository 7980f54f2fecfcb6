/* Intervals and waits of all ranks as items, by rank and time and without overlaps.
 *
 * It has no MPI and no state. Caller: mpiprof/diagnosis/delay_library.py, from any thread. The
 * caller owns all arrays. */
#include "python_api/delays.h"

/* Intervals and waits. The fields have the names and the order of delay_library.Parts. */
struct parts {
    int64_t intervals, ranks, wait_key;
    const int64_t *first; /* of each rank: its first item; and the number of items */
    const int64_t *order; /* rows of the items: intervals, then waits */
    const int64_t *begin_ns, *end_ns, *key; /* of each interval */
    const int64_t *group;                   /* of each wait */
    const int64_t *wait_begin_ns, *wait_end_ns;
};

static struct item item_of_row(const struct parts *p, int64_t row)
{
    const int64_t wait = row - p->intervals;

    if (wait < 0)
        return (struct item){p->begin_ns[row], p->end_ns[row], row, p->key[row]};
    return (struct item){p->wait_begin_ns[wait], p->wait_end_ns[wait], p->group[wait], p->wait_key};
}

/* Writes the items in their order. Those of several threads may overlap; the time counts once. */
PUBLIC void delay_items_arrange(const struct parts *p, struct item *items)
{
    for (int64_t rank = 0; rank < p->ranks; rank++) {
        int64_t latest_ns = INT64_MIN;

        for (int64_t i = p->first[rank]; i < p->first[rank + 1]; i++) {
            struct item item = item_of_row(p, p->order[i]);

            item.begin_ns = item.begin_ns > latest_ns ? item.begin_ns : latest_ns;
            item.end_ns = item.end_ns > latest_ns ? item.end_ns : latest_ns;
            latest_ns = item.end_ns;
            items[i] = item;
        }
    }
}
