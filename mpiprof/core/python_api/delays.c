/* Costs of delays in a recorded run: one pass over its waits, the latest first.
 *
 * mpiprof/diagnosis/delay_graph.py describes the method. It is a library without MPI and without
 * state. Caller: mpiprof/diagnosis/delay_library.py, from any thread. The caller owns all arrays.
 *
 * Items are the intervals of work and the waits of all ranks, by rank and time and without overlaps.
 * Their times are positions: rank * stride + time - origin. When a group is reached, its cost is
 * complete, because only later groups add to it. It is then divided among the items of the awaited
 * rank's window, so that the shares need not be stored. */
#include "base/base.h"

/* All arrays of a run. The fields have the names and the order of delay_library.Run. */
struct run {
    int64_t groups, wait_key, stride, origin, reach;
    const int64_t *order; /* groups, the latest first */
    const int64_t *first,
        *member; /* members of group g: member[first[g]] to member[first[g + 1]] */
    const int64_t *awaited, *since_ns, *until_ns; /* of each group */
    const int64_t *rank, *begin_ns, *end_ns;      /* of each member */
    const int64_t *item_begin, *item_end;
    const int64_t *item_index; /* of the interval, or of the wait's group */
    const int32_t *item_key;
    const int64_t *item_first; /* of each rank, and the number of items */
    int64_t *cursor;           /* of each rank: its items that begin before the current time */
    uint8_t *done;             /* of each group: 0 */
    const double *direct;      /* of each group: its waits */
    double *cost;              /* of each group: at first its waits */
    double *interval_cost, *interval_direct; /* of each interval: 0 */
    double *rest;                            /* of each rank: 0 */
    double *late, *usual, *beyond;           /* of each key: 0 */
    int64_t *count;                          /* of each key: 0 */
    int32_t *used;                           /* room for each key */
};

struct window {
    int64_t low, high, first, end; /* positions, and items from `first` to before `end` */
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

static int64_t position_of(const struct run *run, int64_t rank, int64_t time_ns)
{
    return rank * run->stride + (time_ns - run->origin);
}

/* Returns the length of an item within a window. */
static double length_within(const struct run *run, const struct window *w, int64_t item)
{
    return (double)(lesser(run->item_end[item], w->high) - greater(run->item_begin[item], w->low));
}

/* Moves a rank's cursor back to a time. The times descend from group to group. */
static void cursor_rewind(const struct run *run, int64_t rank, int64_t until_ns)
{
    const int64_t high = position_of(run, rank, until_ns), least = run->item_first[rank];
    int64_t end = run->cursor[rank];

    while (end > least && run->item_begin[end - 1] >= high)
        end--;
    run->cursor[rank] = end;
}

/* Returns the window of a rank up to a time, which is not later than that of its cursor. */
static struct window window_until(const struct run *run, int64_t rank, int64_t until_ns)
{
    struct window w = {.high = position_of(run, rank, until_ns), .end = run->cursor[rank]};

    while (w.end > run->item_first[rank] && run->item_begin[w.end - 1] >= w.high)
        w.end--;
    return w;
}

/* Returns the begin of a window of at most `reach` items, or since_ns if that is later. */
static int64_t window_limit(const struct run *run, const struct window *w, int64_t rank,
                            int64_t since_ns)
{
    const int64_t first = w->end - run->reach;

    if (first <= run->item_first[rank] ||
        run->item_end[first - 1] <= position_of(run, rank, since_ns))
        return since_ns;
    return greater(since_ns, run->item_begin[first] - rank * run->stride + run->origin);
}

/* Sets the begin of a window. */
static void window_begin(const struct run *run, struct window *w, int64_t rank, int64_t since_ns)
{
    w->low = lesser(position_of(run, rank, since_ns), w->high);
    w->first = w->end;
    while (w->first > run->item_first[rank] && run->item_end[w->first - 1] > w->low)
        w->first--;
}

/* Returns the time since which the ranks of a group are compared. */
static int64_t group_since(const struct run *run, int64_t group)
{
    const int64_t awaited = run->awaited[group];
    const struct window late = window_until(run, awaited, run->until_ns[group]);
    int64_t since = window_limit(run, &late, awaited, run->since_ns[group]);

    for (int64_t i = run->first[group]; i < run->first[group + 1]; i++) {
        const int64_t m = run->member[i], rank = run->rank[m];
        struct window early;

        cursor_rewind(run, rank, run->until_ns[group]);
        early = window_until(run, rank, run->begin_ns[m]);
        since = window_limit(run, &early, rank, since);
    }
    return since;
}

/* Sums up the window of the awaited rank by key, and returns the number of keys. */
static int add_late(const struct run *run, const struct window *w, double *outside)
{
    int keys = 0;

    *outside = (double)(w->high - w->low);
    for (int64_t i = w->end - 1; i >= w->first; i--) {
        const int32_t key = run->item_key[i];
        const double length = length_within(run, w, i);

        if (run->count[key]++ == 0)
            run->used[keys++] = key;
        run->late[key] += length;
        *outside -= length;
    }
    return keys;
}

/* Adds the windows of the ranks that wait, averaged with their waits as weights.
 *
 * outside: time outside items. worked: time without waits. */
static void add_early(const struct run *run, int64_t group, int64_t since, double *outside,
                      double *worked)
{
    double whole = 0;

    *outside = *worked = 0;
    for (int64_t i = run->first[group]; i < run->first[group + 1]; i++)
        whole += (double)(run->end_ns[run->member[i]] - run->begin_ns[run->member[i]]);
    for (int64_t i = run->first[group]; i < run->first[group + 1] && whole > 0; i++) {
        const int64_t m = run->member[i], rank = run->rank[m];
        const double weight = (double)(run->end_ns[m] - run->begin_ns[m]) / whole;
        struct window w = window_until(run, rank, run->begin_ns[m]);
        double items = 0, waits = 0;

        window_begin(run, &w, rank, since);
        for (int64_t j = w.first; j < w.end; j++) {
            const int32_t key = run->item_key[j];
            const double length = length_within(run, &w, j);

            items += length;
            waits += key == run->wait_key ? length : 0;
            if (run->count[key] > 0)
                run->usual[key] += length * weight;
        }
        *outside += ((double)(w.high - w.low) - items) * weight;
        *worked += ((double)(w.high - w.low) - waits) * weight;
    }
}

/* Replaces `usual` by the excess of each used key, and returns the excess outside items.
 *
 * The excess of work in all keys together is at most that of the whole window's work, because the
 * early ranks may do the same work under other keys. whole: receives the sum of all excess. */
static double find_excess(const struct run *run, int keys, double work, double rest, double *whole)
{
    double sum = rest, scale;

    for (int i = 0; i < keys; i++) {
        const int32_t key = run->used[i];

        run->usual[key] = positive(run->late[key] - run->usual[key]);
        sum += key == run->wait_key ? 0 : run->usual[key];
    }
    scale = sum > 0 ? (positive(work) < sum ? positive(work) / sum : 1) : 0;
    *whole = rest *= scale;
    for (int i = 0; i < keys; i++) {
        const int32_t key = run->used[i];

        run->usual[key] *= key == run->wait_key ? 1 : scale;
        *whole += run->usual[key];
    }
    return rest;
}

/* Returns the length of an item beyond the usual length of its key, without the excess. */
static double find_beyond(const struct run *run, const struct window *w, int64_t item)
{
    const int32_t key = run->item_key[item];
    const double usual = (run->late[key] - run->usual[key]) / (double)run->count[key];

    return run->usual[key] > 0 ? positive(length_within(run, w, item) - usual) : 0;
}

/* Adds a share of a group's cost to an item. */
static void add_share(const struct run *run, int64_t group, int64_t item, double share)
{
    const int64_t index = run->item_index[item];

    if (run->item_key[item] != run->wait_key) {
        run->interval_cost[index] += run->cost[group] * share;
        run->interval_direct[index] += run->direct[group] * share;
    } else if (!run->done[index]) {
        run->cost[index] += run->cost[group] * share;
    } else { /* a wait that does not end before the awaited rank arrives (damaged times) */
        run->rest[run->awaited[group]] += run->cost[group] * share;
    }
}

/* Divides the cost of a group among the items of the awaited rank's window. */
static void divide_cost(const struct run *run, int64_t group)
{
    const int64_t awaited = run->awaited[group];
    double late_rest, early_rest, worked, whole, rest, work;
    int64_t since;
    struct window w;
    int keys;

    run->done[group] = 1;
    cursor_rewind(run, awaited, run->until_ns[group]);
    since = group_since(run, group);
    w = window_until(run, awaited, run->until_ns[group]);
    window_begin(run, &w, awaited, since);
    keys = add_late(run, &w, &late_rest);
    add_early(run, group, since, &early_rest, &worked);
    work = (double)(w.high - w.low) - run->late[run->wait_key] - worked;
    rest = find_excess(run, keys, work, positive(late_rest - early_rest), &whole);
    run->rest[awaited] += run->cost[group] * (whole > 0 ? rest / whole : 1);
    for (int64_t i = w.first; i < w.end && whole > 0; i++)
        run->beyond[run->item_key[i]] += find_beyond(run, &w, i);
    for (int64_t i = w.first; i < w.end && whole > 0; i++) {
        const int32_t key = run->item_key[i];
        const double beyond = find_beyond(run, &w, i);

        if (beyond > 0)
            add_share(run, group, i, run->usual[key] / whole * beyond / run->beyond[key]);
    }
    for (int i = 0; i < keys; i++) {
        const int32_t key = run->used[i];

        run->late[key] = run->usual[key] = run->beyond[key] = 0;
        run->count[key] = 0;
    }
}

/* Divides the costs of all groups, the latest first. */
PUBLIC void delays_divide_costs(const struct run *run)
{
    for (int64_t i = 0; i < run->groups; i++)
        divide_cost(run, run->order[i]);
}
