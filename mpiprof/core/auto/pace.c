/* How long a key's windows are: what its statistics may cost. */
#include "auto/pace.h"

#include "auto/arrival.h"
#include "auto/candidates.h"
#include "auto/hold.h"
#include "auto/robust.h"
#include "auto/selection.h"
#include "base/operation.h"
#include "schedule/schedule.h"

enum {
    COST_SHARE = 200,   /* a window is that many times as long as its reductions; */
    PROBE_SHARE = 100,  /* while probing, which few windows do */
    LONGEST_GAP = 20000 /* instances between windows */
};

/* Whether members are so far apart that one calls again before another has called at all. */
bool pace_runs_ahead(const struct arrivals *w)
{
    int ahead = 0;

    for (int i = 0; i + 1 < w->count; i++)
        ahead += w->results[i + 1].first < w->results[i].last;
    return w->semantics != SYNCHRONISES && ahead * 10 > w->count;
}

/* What a window's reductions take, usually: the longest over the members is that of one that was
 * interrupted, now and then. Beside what this rank spends in starting and ending them there is
 * their way through the library, within the program's own calls: that of two reductions. In windows
 * of five at 2 ms an instance that made all calls a quarter slower. While something is found out it
 * is worth more than later; less so where probes wait for their budget and not for windows. */
static int64_t cost_of(const struct selection *s)
{
    const int64_t way = 2 * s->observed.latency_ns * log2_ceiling(s->arrivals->own.members);

    return robust_median_of(s->pace.costs_ns, s->pace.costs < 3 ? s->pace.costs : 3) +
           (s->hold.state == STATE_HOLD  ? way
            : s->probing.short_of_budget ? way / 2
                                         : way / 8);
}

/* How long the next window is, so that its reductions take a two-hundredth of the time, or a
 * hundredth; where an algorithm is chosen, waiting for late ranks is none of that. */
void pace_window(struct selection *s)
{
    struct arrivals *const w = s->arrivals;
    const int64_t score = robust_median(&s->list[s->hold.current]);
    const int64_t least =
        s->switches && score > 0 && score < s->observed.elapsed_ns ? score : s->observed.elapsed_ns;
    const int64_t each = least > 0 ? least : 1;
    const int shortest = pace_runs_ahead(w) ? 32 : 4;

    if (w->extras[EXTRA_COST] > 0) /* the first window has none yet */
        s->pace.costs_ns[s->pace.costs++ % 3] = w->extras[EXTRA_COST];
    const int share = s->hold.state == STATE_PROBE ? PROBE_SHARE : COST_SHARE;
    int64_t cycle = share * cost_of(s) / each;

    if (w->semantics != SYNCHRONISES && w->extras[EXTRA_WAITED] > each * w->cycle / 20) {
        cycle = cycle < LONGEST_WINDOW ? LONGEST_WINDOW : cycle;
        if (++s->pace.strikes == 3) {
            hold_leave(&s->hold);
            hold_choose(&s->hold, NATIVE,
                        "some ranks run far ahead: statistics would hold them back");
        }
    } else {
        s->pace.strikes = 0;
    }
    cycle = cycle < shortest ? shortest : cycle > LONGEST_GAP ? LONGEST_GAP : cycle;
    const int length = cycle < LONGEST_WINDOW ? (int)cycle : LONGEST_WINDOW;

    arrivals_next(w, length, (int)cycle - length);
}
