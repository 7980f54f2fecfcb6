/* Probing: who runs for a while, who is left, who takes the place.
 *
 *      lap 1: 2 runs each --> half of the field --> lap 2: 3 runs each
 *                         --> of the best one's block size the half and the double, 3 runs each,
 *                             while those are better
 *                         --> where that says nothing sure: a duel of 6 runs
 *
 * A candidate takes the library's place only if it is better by more than the noise says: by 95 %,
 * divided by the candidates that were tried (Bonferroni); what misses that meets the library once
 * more in a duel of fresh instances, where 95 % is enough, as nothing was picked from those.
 * (Faraj et al., Section 7, take the mean of ten instances of each algorithm in turn; here the
 * field halves, and the runs are interleaved, so that what drifts hits all alike.)
 */
#include <string.h>

#include "auto/arrival.h"
#include "auto/budget.h"
#include "auto/candidates.h"
#include "auto/field.h"
#include "auto/hold.h"
#include "auto/probe.h"
#include "auto/robust.h"
#include "auto/selection.h"

enum {
    MOST_CLIMBS = 2,    /* laps of block sizes, in one phase */
    PATIENT_WINDOWS = 8 /* of a lap, in which the budget has allowed no probe */
};
static const int runs_of_lap[] = {0, 2, 3, 6};
/* In standard deviations: 95 %, one-sided, of the best of so many candidates. */
static const double sure_of[MOST_FIELD + 1] = {1.645, 1.645, 1.96, 2.13, 2.24, 2.33, 2.39, 2.45};
static const double likely = 1.645;

static double sure(const struct selection *s)
{
    return sure_of[s->probing.field < MOST_FIELD ? s->probing.field : MOST_FIELD];
}

static bool takes_part(const struct selection *s, int i)
{
    return i == s->hold.current || !s->list[i].out;
}

/* What a run of a candidate will lose. One that was never measured may take half as long again, or
 * an eighth if it is predicted to be ahead. */
static int64_t risk_of(const struct selection *s, const struct candidate *c)
{
    const int64_t usual = robust_known(&s->list[s->hold.current]), p = c->predicted_ns;
    int64_t takes = usual + usual / 2;

    if (robust_known(c) > 0)
        takes = robust_known(c);
    else if (p > 0 && p < usual * 3 / 4)
        takes = usual + usual / 8;
    else if (p > takes)
        takes = p;
    return takes > usual ? takes - usual : 0;
}

static bool wants_run(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];
    const bool enough = i == NATIVE && s->probing.lap < 3 && c->seen >= 4;

    return i != s->hold.current && takes_part(s, i) && !enough &&
           c->asked < runs_of_lap[s->probing.lap];
}

/* Whether the first run of a candidate that may be far slower is still on its way: the second waits
 * for what that says. */
static bool is_unproven(const struct selection *s, const struct candidate *c)
{
    return c->asked > c->got && robust_known(c) == 0 &&
           risk_of(s, c) * 4 > robust_known(&s->list[s->hold.current]);
}

/* The candidates, those first that will lose least. */
static void by_risk(const struct selection *s, int *order)
{
    for (int i = 0; i < s->count; i++) {
        int j = i;

        for (; j > 0 && risk_of(s, &s->list[order[j - 1]]) > risk_of(s, &s->list[i]); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

/* Whether a candidate was slower than what runs now, by more than a share of that and the noise. Of
 * the library's own, and in a duel, only the end of a lap decides. */
static bool is_behind(const struct selection *s, int i, int share)
{
    const struct candidate *const c = &s->list[i], *const now = &s->list[s->hold.current];
    const int64_t usual = robust_median(now);

    return i != NATIVE && s->probing.lap < 3 && c->seen > 0 &&
           robust_median(c) > usual + usual / share + 4 * robust_spread(now);
}

/* Plans the next window's probes, in turns, as far as the budget goes; what is known to be no
 * slower needs none. What was slower gets no second run that the budget does not allow. Where
 * nothing may be probed the next window has none. */
void probe_plan(struct selection *s, bool may)
{
    const struct arrivals *const w = s->arrivals;
    const int room = w->next_length - (w->next_length + 3) / 4;
    /* The process's budget counts waiting for late ranks as time, of which a key may have much: its
     * own one does not, so that no key takes 3 % longer for what was tried. */
    const int64_t each = robust_usual(s);
    const int64_t own = 2 * each + each * s->instances / LOSS_SHARE - s->observed.lost_ns;
    const int64_t all = -w->extras[EXTRA_BUDGET];
    int64_t budget =
        (own < all ? own : all) - s->probing.in_flight_ns[0] - s->probing.in_flight_ns[1];
    int64_t risk = 0;
    int placed = 0, last = -1, order[MOST_LIST];

    memset(s->probing.next, NOBODY, sizeof s->probing.next);
    if (!may)
        return;
    s->probing.short_of_budget = false;
    by_risk(s, order);
    while (placed < room && placed != last) {
        last = placed;
        for (int n = 0; n < s->count && placed < room; n++) {
            const int i = order[n];
            const int64_t loss = risk_of(s, &s->list[i]);

            if (!wants_run(s, i) || is_unproven(s, &s->list[i]) ||
                s->probing.probes >= s->probing.limit)
                continue;
            if (loss > 0 && loss > budget) {
                s->list[i].out = is_behind(s, i, 20);
                s->probing.short_of_budget = true;
                continue;
            }
            s->probing.next[placed * w->next_length / room] = (uint8_t)i;
            placed++;
            s->probing.probes++;
            s->probing.later_probes += s->phases.number > 1;
            s->list[i].asked++;
            risk += loss;
            budget -= loss;
        }
    }
    s->probing.in_flight_ns[1] = s->probing.in_flight_ns[0];
    s->probing.in_flight_ns[0] = risk;
    s->probing.stalled += placed == 0;
}

/* Before the first window. */
void probe_start(struct selection *s)
{
    memset(s->probing.plan, NOBODY, sizeof s->probing.plan);
    memset(s->probing.next, NOBODY, sizeof s->probing.next);
}

/* The candidate to probe at a position of the window; NOBODY: none, or between windows. */
int probe_at(struct selection *s, int position)
{
    if (position < 0 || position >= s->arrivals->length || s->probing.plan[position] == NOBODY)
        return NOBODY;
    s->probing.ran++;
    return s->probing.plan[position];
}

/* From position `first` of its window on, the next one's plan holds. */
void probe_take(struct selection *s, int first)
{
    memcpy(s->probing.plan + first, s->probing.next, (size_t)(LONGEST_WINDOW - first));
    memset(s->probing.next, NOBODY, sizeof s->probing.next);
}

/* Whether the window that has just ended has nothing to tell, and the next one nothing to add to
 * what is planned: it only waited for the numbers of the one before. Both are reduced as one. */
bool probe_waits(const struct selection *s)
{
    if (s->hold.state != STATE_PROBE)
        return false;
    for (int i = 0; i < LONGEST_WINDOW; i++)
        if (s->probing.plan[i] != NOBODY)
            return false;
    for (int i = 0; i < s->count; i++)
        if (wants_run(s, i) && s->probing.probes < s->probing.limit)
            return false;
    return true;
}

/* What is far behind needs no second look, what was behind twice no third one; nor does what the
 * budget has not allowed for long. */
static void drop_hopeless(struct selection *s)
{
    for (int i = 0; i < s->count; i++) {
        struct candidate *const c = &s->list[i];

        if (i == s->hold.current || c->out)
            continue;
        if (c->got == c->asked)
            c->out = is_behind(s, i, c->seen < 2 ? 3 : 20);
        if (s->probing.stalled > PATIENT_WINDOWS && wants_run(s, i))
            c->out = true;
    }
}

static bool lap_is_over(const struct selection *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->got < c->asked || (wants_run(s, i) && s->probing.probes < s->probing.limit))
            return false;
    }
    return s->list[s->hold.current].seen >= 4;
}

static void begin_lap(struct selection *s)
{
    s->probing.lap++;
    s->probing.stalled = 0;
    for (int i = 0; i < s->count; i++)
        s->list[i].asked = s->list[i].got = 0;
}

/* A phase of at most so many probes, in which one rank comes last (-1: none does). */
void probe_begin(struct selection *s, int limit, int late)
{
    s->probing.limit = limit;
    s->probing.late = late;
    s->probing.lap = s->probing.probes = s->probing.climbs = 0;
    s->probing.field = field_choose(s);
    begin_lap(s);
}

static int best_of(const struct selection *s)
{
    int best = s->hold.current;

    for (int i = 0; i < s->count; i++)
        if (takes_part(s, i) && s->list[i].seen > 0 &&
            robust_median(&s->list[i]) < robust_median(&s->list[best]))
            best = i;
    return best;
}

/* After the first lap the slower half leaves; what is clearly ahead runs from here on. */
static void halve(struct selection *s)
{
    int field = 0;

    for (int i = 1; i < s->count; i++)
        field += !s->list[i].out && s->list[i].seen > 0;
    const int best = best_of(s);

    for (int left = field / 2; left > 0; left--) {
        int worst = -1;

        for (int i = 1; i < s->count; i++)
            if (!s->list[i].out && i != s->hold.current && i != best &&
                (worst < 0 || robust_median(&s->list[i]) > robust_median(&s->list[worst])))
                worst = i;
        if (worst >= 0)
            s->list[worst].out = true;
    }
    if (robust_better(&s->list[best], &s->list[s->hold.current], likely, 10))
        hold_run_on(&s->hold, best);
    begin_lap(s);
}

/* The other block size, if there is one that this phase has not measured; 0: there is none. */
static int unmeasured(struct selection *s, int which, int64_t block_size)
{
    if (block_size < LEAST_BLOCK || block_size >= s->problem.bytes)
        return 0;
    struct variant wanted = s->list[which].variant;

    wanted.block_size = block_size;
    const int found = candidate_changed(s->list, &s->count, which, &wanted);

    if (found == 0 || s->list[found].seen > 0)
        return 0;
    if (s->list[found].last_ns == 0) /* until it is measured, what its neighbour takes */
        s->list[found].last_ns = robust_median(&s->list[which]);
    return found;
}

/* Begins a lap of the best one's neighbours in block size, where it has any. */
static bool climb(struct selection *s, int best)
{
    const int64_t block_size = s->list[best].variant.block_size;

    if (block_size == 0 || s->probing.climbs == MOST_CLIMBS ||
        s->probing.probes + 3 * runs_of_lap[2] > s->probing.limit)
        return false;
    const int half = unmeasured(s, best, block_size / 2);
    const int twice = unmeasured(s, best, block_size * 2);

    if (half == 0 && twice == 0)
        return false;
    for (int i = 1; i < s->count; i++)
        s->list[i].out = i != best && i != half && i != twice;
    s->probing.climbs++;
    s->probing.field += (half > 0) + (twice > 0);
    s->probing.lap = 1;
    begin_lap(s);
    return true;
}

/* What runs unless something is better: in the first phase the library's own; later what is known
 * to be the better one of that and what ran before. */
static int incumbent(const struct selection *s)
{
    if (s->phases.number == 1 || s->list[NATIVE].seen == 0)
        return s->phases.number == 1 ? NATIVE : s->phases.before;
    return s->list[s->phases.before].seen > 0 &&
                   robust_median(&s->list[s->phases.before]) < robust_median(&s->list[NATIVE])
               ? s->phases.before
               : NATIVE;
}

static void begin_duel(struct selection *s, int best, int other)
{
    for (int i = 0; i < s->count; i++)
        s->list[i].out = i != best && i != other;
    s->list[best].seen = s->list[other].seen = 0;
    s->probing.rival = other;
    if (s->hold.current != best)
        hold_run_on(&s->hold, other);
    begin_lap(s);
}

/* After each window: on to the next lap, or to the end. True: the phase has come to a choice. */
bool probe_step(struct selection *s)
{
    drop_hopeless(s);
    const int best = best_of(s), other = s->probing.lap == 3 ? s->probing.rival : incumbent(s);

    if (!lap_is_over(s))
        return false;
    if (s->probing.lap == 1) {
        halve(s);
        return false;
    }
    if (s->probing.lap == 2 && climb(s, best))
        return false;
    if (best == other) {
        hold_conclude(&s->hold, other, "nothing was faster");
    } else if (s->probing.lap == 3 && !takes_part(s, other)) {
        hold_conclude(&s->hold, best, "so far ahead that the other one was too slow to run again");
    } else if (robust_better(&s->list[best], &s->list[other],
                             s->probing.lap == 3 ? likely : sure(s), 1)) {
        hold_conclude(&s->hold, best, "faster by more than the noise");
    } else if (s->probing.lap == 2 && s->probing.probes + runs_of_lap[3] <= s->probing.limit) {
        begin_duel(s, best, other);
        return false;
    } else {
        hold_conclude(&s->hold, other, "nothing was faster by more than the noise");
    }
    return true;
}
