/* Length of a key's windows, from the permitted cost of the statistics. */
#include "selection/online/selection.h"

enum {
    COST_SHARE = 200,   /* window time / time of its reductions */
    PROBE_SHARE = 100,  /* the same during probing, which takes few windows */
    LONGEST_GAP = 20000 /* instances between two windows */
};

/* Return true if members are so far apart that one often calls again before another has called. */
bool window_length_runs_ahead(const struct arrivals *w)
{
    int ahead = 0;

    for (int i = 0; i + 1 < w->count; i++)
        ahead += w->results[i + 1].first < w->results[i].last;
    return w->wait_rule != WAIT_ALL_FOR_ALL && ahead * 10 > w->count;
}

/* Return the typical cost of a window's reductions in ns. The maximum over the members is sometimes
 * that of an interrupted one, hence the median.
 *
 * Besides the time to start and complete the reductions, the cost includes their progress inside
 * the program's calls, about the time of two reductions. With windows of five instances of 2 ms,
 * this progress slowed all calls by a quarter. It counts less during probing, when results are
 * worth more, unless probes wait for their budget. */
static int64_t cost_of(const struct selection *s)
{
    const int64_t way = 2 * s->observed.latency_ns * log2_ceiling(s->arrivals->member.members);

    return rank_test_median_of(s->window_cost.costs_ns,
                               s->window_cost.costs < 3 ? s->window_cost.costs : 3) +
           (s->choice.state == STATE_CHOSEN ? way
            : s->probing.short_of_budget    ? way / 2
                                            : way / 8);
}

/* Set the length of the next window so that its reductions take 1/200 of the time, or 1/100 during
 * probing. With selection, waits for late ranks are not part of that time. */
void window_length_set(struct selection *s)
{
    struct arrivals *const w = s->arrivals;
    const int64_t score = rank_test_median(&s->list[s->choice.current]);
    const int64_t least =
        s->switches && score > 0 && score < s->observed.elapsed_ns ? score : s->observed.elapsed_ns;
    const int64_t each = least > 0 ? least : 1;
    const int shortest = window_length_runs_ahead(w) ? 32 : 4;

    if (w->extras[EXTRA_COST] > 0) /* the first window has no cost yet */
        s->window_cost.costs_ns[s->window_cost.costs++ % 3] = w->extras[EXTRA_COST];
    const int share = s->choice.state == STATE_PROBE ? PROBE_SHARE : COST_SHARE;
    int64_t cycle = share * cost_of(s) / each;

    if (w->wait_rule != WAIT_ALL_FOR_ALL && w->extras[EXTRA_WAITED] > each * w->cycle / 20) {
        cycle = cycle < LONGEST_WINDOW ? LONGEST_WINDOW : cycle;
        if (++s->window_cost.strikes == 3) {
            current_choice_abandon(s);
            current_choice_choose(s, NATIVE,
                                  "some ranks run far ahead: statistics would delay them");
        }
    } else {
        s->window_cost.strikes = 0;
    }
    cycle = cycle < shortest ? shortest : cycle > LONGEST_GAP ? LONGEST_GAP : cycle;
    const int length = cycle < LONGEST_WINDOW ? (int)cycle : LONGEST_WINDOW;

    arrivals_next(w, length, (int)cycle - length);
}
