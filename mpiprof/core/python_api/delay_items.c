/* Items of a recorded run, by rank and time: its intervals of work and its waits.
 *
 * It has no MPI and no state. Caller: mpiprof/account/delay_graph.py, from any thread. The caller
 * owns all arrays. */
#include "python_api/delays.h"

/* All arrays. The fields have the names and the order of delay_graph.ARRANGED. */
struct arranged {
    int64_t ranks, intervals, waits, wait_key;
    const int64_t *first; /* of each rank: its first item; and the number of items */
    const int64_t *order; /* by rank and begin: intervals, and then waits, the last one first */
    const int64_t *begin_ns, *end_ns, *key;             /* of each interval */
    const int64_t *wait_begin_ns, *wait_end_ns, *group; /* of each wait */
    struct item *items;                                 /* result */
};

static struct item make_item(const struct arranged *run, int64_t row)
{
    const int64_t wait = run->intervals + run->waits - 1 - row;

    if (row < run->intervals)
        return (struct item){.begin_ns = run->begin_ns[row],
                             .end_ns = run->end_ns[row],
                             .index = (int32_t)row,
                             .key = (int32_t)run->key[row]};
    return (struct item){.begin_ns = run->wait_begin_ns[wait],
                         .end_ns = run->wait_end_ns[wait],
                         .index = (int32_t)run->group[wait],
                         .key = (int32_t)run->wait_key};
}

/* Shortens items that overlap, as those of several threads may: their time counts once. */
static void remove_overlaps(struct item *items, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        items[i].end_ns = greater(items[i].end_ns, items[i - 1].end_ns);
        items[i].begin_ns = greater(items[i].begin_ns, items[i - 1].end_ns);
    }
}

/* Writes the items of each rank in order, without overlaps. */
PUBLIC void delay_items_arrange(const struct arranged *run)
{
    for (int64_t rank = 0; rank < run->ranks; rank++) {
        const int64_t first = run->first[rank], end = run->first[rank + 1];
        bool overlap = false;

        for (int64_t i = first; i < end; i++) {
            run->items[i] = make_item(run, run->order[i]);
            overlap |= i > first && run->items[i].begin_ns < run->items[i - 1].end_ns;
        }
        if (overlap)
            remove_overlaps(run->items + first, end - first);
    }
}
