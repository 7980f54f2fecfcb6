/* Costs of delays in a recorded run: one pass over its waits, the latest first.
 *
 * mpiprof/account/delay_graph.py describes the method. It is a library without MPI and without
 * state. Caller: mpiprof/account/delay_graph.py, from any thread. The caller owns all arrays.
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
    double lack;    /* time of the ranks that wait in this work, while the awaited rank awaits it */
    double more;    /* time of the ranks that wait in this work, minus the awaited rank's */
    double length;  /* usual length of an item, without the excess */
    double portion; /* of the excess in all keys */
    int64_t count;  /* items of the awaited rank */
};

struct early {              /* windows of the ranks that wait, averaged */
    double outside, worked; /* time outside items, and without waits */
    int64_t keys;           /* of the awaited rank and of these ranks */
};

/* All arrays of a run. The fields have the names and the order of delay_graph.RUN. */
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
    const int64_t *same;                     /* first key with the same work, for each key */
};

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
        run->sums[run->same[item->key]].more -= length;
        *outside -= length;
    }
    return keys;
}

/* Returns the first item of a rank that ends after a time. */
static int64_t item_after(const struct run *run, int64_t rank, int64_t time_ns)
{
    int64_t low = run->item_first[rank], high = run->item_first[rank + 1];

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;

        if (run->items[middle].end_ns > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns the time of a rank in the same work as that of a key, between two times. */
static double time_in_work(const struct run *run, int64_t rank, int32_t key,
                           const struct window *between)
{
    const int64_t end = run->item_first[rank + 1];
    double sum = 0;

    for (int64_t i = item_after(run, rank, between->low); i < end; i++) {
        const struct item *const item = &run->items[i];

        if (item->begin_ns >= between->high)
            break;
        if (run->same[item->key] == run->same[key])
            sum += length_within(between, item);
    }
    return sum;
}

/* Returns the time of an item in which the rank of another window waits for a rank that does the
 * same work at the same time.
 *
 * at: items of that window before it end before the item. It is changed. */
static double time_in_waits(const struct run *run, const struct window *w, const struct item *item,
                            int64_t *at)
{
    const struct window inside = intersection(w, item);
    double sum = 0;

    while (*at < w->end && run->items[*at].end_ns <= item->begin_ns)
        (*at)++;
    for (int64_t i = *at; i < w->end && run->items[i].begin_ns < item->end_ns; i++) {
        const struct item *const wait = &run->items[i];
        const struct window both = intersection(&inside, wait);

        if (wait->key == run->wait_key && both.low < both.high)
            sum += time_in_work(run, run->awaited[wait->index], item->key, &both);
    }
    return sum;
}

/* Adds the time of a rank that waits to the sums of a key. missed: while the awaited rank waits for
 * the same work. */
static void add_usual(const struct run *run, struct early *e, int32_t key, double length,
                      double missed)
{
    struct sums *const sums = &run->sums[key];

    if (sums->count == 0 && sums->usual == 0 && length > 0)
        run->used[e->keys++] = key;
    sums->usual += length;
    run->sums[run->same[key]].more += length;
    run->sums[run->same[key]].lack += missed;
}

/* Adds the windows of the ranks that wait, averaged with their waits as weights.
 *
 * late: the window of the awaited rank. */
static void add_early(const struct run *run, int64_t group, const struct window *late,
                      struct early *e)
{
    const int64_t first = run->first[group], end = run->first[group + 1];
    const double whole = group_wait(run, group);

    for (int64_t m = first; m < end && whole > 0; m++) {
        const double weight = (double)(run->end_ns[m] - run->begin_ns[m]) / whole;
        const struct window w = window_between(run, run->rank[m], late->low, run->begin_ns[m],
                                               run->member_end[m - first]);
        double items = 0, waits = 0;
        int64_t at = late->first;

        for (int64_t i = w.first; i < w.end; i++) {
            const struct item *const item = &run->items[i];
            const double length = length_within(&w, item);
            const double missed =
                item->key == run->wait_key ? 0 : time_in_waits(run, late, item, &at);

            items += length;
            waits += item->key == run->wait_key ? length : 0;
            add_usual(run, e, item->key, length * weight, missed * weight);
        }
        e->outside += ((double)(w.high - w.low) - items) * weight;
        e->worked += ((double)(w.high - w.low) - waits) * weight;
    }
}

/* Returns the time of a wait in which the rank that it awaits does work that the present awaited
 * rank lacks. It reduces the lack. */
static double match_wait(const struct run *run, const struct window *w, const struct item *wait)
{
    const struct window inside = intersection(w, wait);
    const int64_t rank = run->awaited[wait->index], end = run->item_first[rank + 1];
    double matched = 0;

    for (int64_t i = item_after(run, rank, inside.low); i < end; i++) {
        const struct item *const item = &run->items[i];
        struct sums *const sums = &run->sums[run->same[item->key]];
        double length;

        if (item->begin_ns >= inside.high)
            break;
        if (item->key == run->wait_key || sums->lack <= 0)
            continue;
        length = length_within(&inside, item);
        length = length < sums->lack ? length : sums->lack;
        sums->lack -= length;
        matched += length;
    }
    return matched;
}

/* Finds the time of each wait of the awaited rank in which another rank does the work that the ranks
 * that wait do meanwhile, and returns the sum. The earliest waits come first. Results: in `beyond`.
 */
static double match_waits(const struct run *run, const struct window *w, int64_t keys)
{
    double sum = 0, lack = 0;

    for (int64_t i = 0; i < keys; i++) {
        struct sums *const sums = &run->sums[run->same[run->used[i]]];

        if (sums->lack > positive(sums->more))
            sums->lack = positive(sums->more);
        lack += sums->lack;
    }
    for (int64_t i = w->first; i < w->end; i++) {
        const struct item *const item = &run->items[i];
        const bool is_wait = item->key == run->wait_key;

        run->beyond[i - w->first] = is_wait && sum < lack ? match_wait(run, w, item) : 0;
        sum += run->beyond[i - w->first];
    }
    if (sum > 0)
        run->sums[run->wait_key].late -= sum;
    return sum;
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
 * whole: the sum of all excess. The time in `beyond` is no excess. */
static void divide_excess(const struct run *run, int64_t group, const struct window *w,
                          int64_t keys, double whole)
{
    for (int64_t i = 0; i < keys; i++) {
        struct sums *const sums = &run->sums[run->used[i]];

        sums->length = sums->count > 0 ? (sums->late - sums->usual) / (double)sums->count : 0;
        sums->portion = sums->usual / whole;
    }
    for (int64_t i = w->first; i < w->end; i++) {
        struct sums *const sums = &run->sums[run->items[i].key];
        const double matched = run->beyond[i - w->first];
        const double length = length_within(w, &run->items[i]) - matched;

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
    double late_rest, whole, rest, work;
    struct early e = {.keys = add_late(run, &w, &late_rest)};

    add_early(run, group, &w, &e);
    work = (double)(w.high - w.low) - run->sums[run->wait_key].late - e.worked;
    work += match_waits(run, &w, e.keys);
    rest = find_excess(run, e.keys, work, positive(late_rest - e.outside), &whole);
    *run->direct = group_wait(run, group) * run->chosen[group];
    run->rest[awaited] += run->cost[group] * (whole > 0 ? rest / whole : 1);
    if (whole > 0)
        divide_excess(run, group, &w, e.keys, whole);
    for (int64_t i = 0; i < e.keys; i++)
        run->sums[run->used[i]] = run->sums[run->same[run->used[i]]] = (struct sums){0};
}

/* Divides the costs of all groups, the latest first. */
PUBLIC void delays_divide_costs(const struct run *run)
{
    for (int64_t group = 0; group < run->groups; group++)
        run->cost[group] = group_wait(run, group) * run->chosen[group];
    for (int64_t group = 0; group < run->groups; group++)
        divide_cost(run, group);
}
