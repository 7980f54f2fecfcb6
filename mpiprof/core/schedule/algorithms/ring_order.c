/* Order of the processes in a ring for irregular data.
 *
 * Source: Traeff et al. 2009, Sections 2.2 and 2.3.
 *
 *   ranks   by rank
 *   spread  the processes without data at equal distances between the others (Figure 3):
 *              3 3 3 0 0 0   becomes   0 3 0 3 0 3
 *           so that no rank waits long for its first block
 *   nodes   node by node, so that one process per node receives from another node and one sends
 *           to another (Figure 1). The sender has data, if any process of its node has, so that
 *           the nodes start with data at once.
 *   both    nodes without data at equal distances between nodes with data, and within a node the
 *           same for processes; the last process of a node has data, if any has
 *
 * The order depends only on facts that every rank knows, so that all ranks compute the same order.
 */
#include "schedule/algorithms/building_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* A process or a node: `count` entries of the list of processes from `first` on. */
struct ring_item {
    int64_t data, first, count;
};

static struct ring_item take_next(const struct ring_item *items, int64_t *at, bool with_data)
{
    while ((items[*at].data > 0) != with_data)
        (*at)++;
    return items[(*at)++];
}

/* Arrange n items so that the numbers of empty items before each item with data differ by at most
 * one. */
static void spread(struct ring_item *items, int64_t n, struct ring_item *work)
{
    int64_t full = 0, at_full = 0, at_empty = 0, made = 0;

    for (int64_t i = 0; i < n; i++)
        full += items[i].data > 0;
    if (full == 0)
        return;
    for (int64_t i = 1; i <= full; i++) {
        while (made < i * (n - full) / full + i - 1)
            work[made++] = take_next(items, &at_empty, false);
        work[made++] = take_next(items, &at_full, true);
    }
    memcpy(items, work, sizeof *items * (size_t)n);
}

/* Move the last item with data to the end. */
static void end_with_data(struct ring_item *items, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--)
        if (items[i].data > 0) {
            const struct ring_item last = items[i];

            memmove(items + i, items + i + 1, sizeof *items * (size_t)(n - 1 - i));
            items[n - 1] = last;
            return;
        }
}

static int64_t node_of(const struct problem *p, int64_t rank)
{
    if (p->order != ORDER_NODES && p->order != ORDER_BOTH)
        return 0;
    return p->nodes != NULL ? p->nodes[rank] : rank;
}

static int by_node(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* List the processes by node and rank, and the range of each node. Returns the number of nodes. */
static int64_t list_nodes(const struct problem *p, int64_t *order, struct ring_item *processes,
                          struct ring_item *nodes)
{
    int64_t count = 0;

    for (int64_t i = 0; i < p->size; i++)
        order[i] = node_of(p, i) << 32 | i;
    qsort(order, (size_t)p->size, sizeof *order, by_node);
    for (int64_t i = 0; i < p->size; i++) {
        const int64_t rank = order[i] & 0xffffffff;
        const int64_t data = p->counts != NULL ? p->counts[rank] : p->bytes;

        if (i == 0 || order[i] >> 32 != order[i - 1] >> 32)
            nodes[count++] = (struct ring_item){.first = i};
        nodes[count - 1].data += data;
        nodes[count - 1].count++;
        processes[i] = (struct ring_item){.data = data, .first = rank};
    }
    return count;
}

bool ring_order(const struct problem *p, int64_t *order)
{
    struct ring_item *const processes = memory_allocate(sizeof *processes * 3 * (size_t)p->size);

    if (processes == NULL)
        return false;
    struct ring_item *const nodes = processes + p->size, *const work = nodes + p->size;
    const int64_t count = list_nodes(p, order, processes, nodes);
    int64_t placed = 0;

    for (int64_t i = 0; i < count; i++)
        if (p->order == ORDER_NODES)
            end_with_data(processes + nodes[i].first, nodes[i].count);
        else if (p->order != ORDER_RANKS)
            spread(processes + nodes[i].first, nodes[i].count, work);
    if (p->order == ORDER_BOTH)
        spread(nodes, count, work);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < nodes[i].count; k++)
            order[placed++] = processes[nodes[i].first + k].first;
    memory_free(processes);
    return true;
}
