/* Costs of delays in a recorded run: one pass over its waits, the latest first.
 *
 * mpiprof/diagnosis/delay_graph.py describes the method. It is a library without MPI and without
 * state. Caller: mpiprof/diagnosis/delay_library.py, from any thread. The caller owns all arrays.
 *
 * Items are the intervals of work and the waits of all ranks, by rank and time and without overlaps.
 * When a group is reached, its cost is complete, because only later groups add to it. It is then
 * divided among the items of the awaited rank's window, so that the shares need not be stored. */
#include "python_api/delays.h"

/* Sums over a window, by key. */
struct sums {
    double late;  /* time of the awaited rank */
    double usual; /* time of the ranks that wait; then the excess, of which beyond the usual: */
    double beyond;
    double length;  /* usual length of an item, without the excess */
    double portion; /* of the excess in all keys */
    int64_t count;  /* items of the awaited rank */
};

/* All arrays of a run. The fields have the names and the order of delay_library.Run. */
struct run {
    int64_t groups, wait_key, reach;
    const int64_t *awaited, *since_ns, *until_ns; /* of each group, the latest first */
    const int64_t *first; /* of each group: its first member; and the number of members */
    const int64_t *rank, *begin_ns, *end_ns; /* of each member */
    const struct item *items;
    const int64_t *item_first; /* of each rank, and the number of items */
    int64_t *cursor;           /* of each rank: its items that begin before the current time */
    int64_t *member_end;       /* room for each rank: its items that begin before its wait */
    const double *chosen;      /* of each group: factor of its waits */
    double *direct;            /* room for one number: the waits of the present group */
    double *cost;              /* result: of each group */
    double *interval_cost, *interval_direct; /* of each interval: 0 */
    double *rest;                            /* of each rank: 0 */
    struct sums *sums;                       /* of each key: 0 */
    int64_t *used;                           /* room for each key */
    double *beyond;                          /* room for each item of a window */
};

struct window {
    int64_t low, high, first, end; /* times, and items from `first` to before `end` */
};

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double positive(double value)
{
    return value > 0 ? value : 0;
}

/* Returns the length of an item within a window. */
static double length_within(const struct window *w, const struct item *item)
{
    return (double)(lesser(item->end_ns, w->high) - greater(item->begin_ns, w->low));
}

/* Returns the sum of the waits of a group. */
static double group_wait(const struct run *run, int64_t group)
{
    double sum = 0;

    for (int64_t m = run->first[group]; m < run->first[group + 1]; m++)
        sum += (double)(run->end_ns[m] - run->begin_ns[m]);
    return sum;
}

/* Returns the number of a rank's first `end` items that begin before a time. */
static int64_t items_before(const struct run *run, int64_t rank, int64_t end, int64_t time_ns)
{
    const int64_t least = run->item_first[rank];

    while (end > least && run->items[end - 1].begin_ns >= time_ns)
        end--;
    return end;
}

/* Returns the begin of a window of at most `reach` items before `end`, or since_ns if that is
 * later. */
static int64_t window_limit(const struct run *run, int64_t rank, int64_t end, int64_t since_ns)
{
    const int64_t first = end - run->reach;

    if (first <= run->item_first[rank] || run->items[first - 1].end_ns <= since_ns)
        return since_ns;
    return greater(since_ns, run->items[first].begin_ns);
}

/* Returns the window of a rank between two times. end: its items that begin before the later. */
static struct window window_between(const struct run *run, int64_t rank, int64_t since_ns,
                                    int64_t until_ns, int64_t end)
{
    struct window w = {lesser(since_ns, until_ns), until_ns, end, end};

    while (w.first > run->item_first[rank] && run->items[w.first - 1].end_ns > w.low)
        w.first--;
    return w;
}

/* Moves the cursors of a group's ranks back to its time, and returns the time since which the ranks
 * are compared. The times descend from group to group. */
static int64_t group_begin(const struct run *run, int64_t group)
{
    const int64_t awaited = run->awaited[group], until_ns = run->until_ns[group];
    const int64_t first = run->first[group];
    int64_t since_ns = run->since_ns[group];

    run->cursor[awaited] = items_before(run, awaited, run->cursor[awaited], until_ns);
    since_ns = window_limit(run, awaited, run->cursor[awaited], since_ns);
    for (int64_t m = first; m < run->first[group + 1]; m++) {
        const int64_t rank = run->rank[m];

        run->cursor[rank] = items_before(run, rank, run->cursor[rank], until_ns);
        run->member_end[m - first] = items_before(run, rank, run->cursor[rank], run->begin_ns[m]);
        since_ns = window_limit(run, rank, run->member_end[m - first], since_ns);
    }
    return since_ns;
}

/* Sums up the window of the awaited rank by key, and returns the number of keys. */
static int64_t add_late(const struct run *run, const struct window *w, double *outside)
{
    int64_t keys = 0;

    *outside = (double)(w->high - w->low);
    for (int64_t i = w->end - 1; i >= w->first; i--) {
        const struct item *const item = &run->items[i];
        struct sums *const sums = &run->sums[item->key];
        const double length = length_within(w, item);

        if (sums->count++ == 0)
            run->used[keys++] = item->key;
        sums->late += length;
        *outside -= length;
    }
    return keys;
}

/* Adds the windows of the ranks that wait, averaged with their waits as weights.
 *
 * outside: time outside items. worked: time without waits. */
static void add_early(const struct run *run, int64_t group, int64_t since_ns, double *outside,
                      double *worked)
{
    const int64_t first = run->first[group], end = run->first[group + 1];
    const double whole = group_wait(run, group);

    *outside = *worked = 0;
    for (int64_t m = first; m < end && whole > 0; m++) {
        const double weight = (double)(run->end_ns[m] - run->begin_ns[m]) / whole;
        const struct window w = window_between(run, run->rank[m], since_ns, run->begin_ns[m],
                                               run->member_end[m - first]);
        double items = 0, waits = 0;

        for (int64_t i = w.first; i < w.end; i++) {
            const struct item *const item = &run->items[i];
            struct sums *const sums = &run->sums[item->key];
            const double length = length_within(&w, item);

            items += length;
            waits += item->key == run->wait_key ? length : 0;
            if (sums->count > 0)
                sums->usual += length * weight;
        }
        *outside += ((double)(w.high - w.low) - items) * weight;
        *worked += ((double)(w.high - w.low) - waits) * weight;
    }
}

/* Replaces `usual` by the excess of each used key, and returns the excess outside items.
 *
 * The excess of work in all keys together is at most that of the whole window's work, because the
 * early ranks may do the same work under other keys. whole: receives the sum of all excess. */
static double find_excess(const struct run *run, int64_t keys, double work, double rest,
                          double *whole)
{
    double sum = rest, scale;

    for (int64_t i = 0; i < keys; i++) {
        struct sums *const sums = &run->sums[run->used[i]];

        sums->usual = positive(sums->late - sums->usual);
        sum += run->used[i] == run->wait_key ? 0 : sums->usual;
    }
    scale = sum > 0 ? (positive(work) < sum ? positive(work) / sum : 1) : 0;
    *whole = rest *= scale;
    for (int64_t i = 0; i < keys; i++) {
        struct sums *const sums = &run->sums[run->used[i]];

        sums->usual *= run->used[i] == run->wait_key ? 1 : scale;
        *whole += sums->usual;
    }
    return rest;
}

/* Adds a share of a group's cost to an item. */
static void add_share(const struct run *run, int64_t group, const struct item *item, double share)
{
    if (item->key != run->wait_key) {
        run->interval_cost[item->index] += run->cost[group] * share;
        run->interval_direct[item->index] += *run->direct * share;
    } else if (item->index > group) {
        run->cost[item->index] += run->cost[group] * share;
    } else { /* a wait that does not end before the awaited rank arrives (damaged times) */
        run->rest[run->awaited[group]] += run->cost[group] * share;
    }
}

/* Divides the excess of each key among its items, in proportion to their length beyond the usual.
 *
 * whole: the sum of all excess. */
static void divide_excess(const struct run *run, int64_t group, const struct window *w,
                          int64_t keys, double whole)
{
    for (int64_t i = 0; i < keys; i++) {
        struct sums *const sums = &run->sums[run->used[i]];

        sums->length = (sums->late - sums->usual) / (double)sums->count;
        sums->portion = sums->usual / whole;
    }
    for (int64_t i = w->first; i < w->end; i++) {
        struct sums *const sums = &run->sums[run->items[i].key];
        const double length = length_within(w, &run->items[i]);

        run->beyond[i - w->first] = sums->usual > 0 ? positive(length - sums->length) : 0;
        sums->beyond += run->beyond[i - w->first];
    }
    for (int64_t i = w->first; i < w->end; i++) {
        const struct sums *const sums = &run->sums[run->items[i].key];
        const double beyond = run->beyond[i - w->first];

        if (beyond > 0)
            add_share(run, group, &run->items[i], sums->portion * beyond / sums->beyond);
    }
}

/* Divides the cost of a group among the items of the awaited rank's window. */
static void divide_cost(const struct run *run, int64_t group)
{
    const int64_t awaited = run->awaited[group], since_ns = group_begin(run, group);
    const struct window w =
        window_between(run, awaited, since_ns, run->until_ns[group], run->cursor[awaited]);
    double late_rest, early_rest, worked, whole, rest, work;
    const int64_t keys = add_late(run, &w, &late_rest);

    add_early(run, group, since_ns, &early_rest, &worked);
    work = (double)(w.high - w.low) - run->sums[run->wait_key].late - worked;
    rest = find_excess(run, keys, work, positive(late_rest - early_rest), &whole);
    *run->direct = group_wait(run, group) * run->chosen[group];
    run->rest[awaited] += run->cost[group] * (whole > 0 ? rest / whole : 1);
    if (whole > 0)
        divide_excess(run, group, &w, keys, whole);
    for (int64_t i = 0; i < keys; i++)
        run->sums[run->used[i]] = (struct sums){0};
}

/* Divides the costs of all groups, the latest first. */
PUBLIC void delays_divide_costs(const struct run *run)
{
    for (int64_t group = 0; group < run->groups; group++)
        run->cost[group] = group_wait(run, group) * run->chosen[group];
    for (int64_t group = 0; group < run->groups; group++)
        divide_cost(run, group);
}
