/* State machine of `--switch robust`, the all-to-all routine of Faraj et al. 2008, Section 7.
 *
 *    probe   ten consecutive instances of each algorithm: 80 probes of 8 algorithms
 *      --> first decision: the algorithm with the lowest mean time
 *    chosen  2 instances that the decision disturbs, then a period of 20 instances
 *      --> second decision: keep the algorithm, and double the next period; or replace its time by
 *          that of the period, and evaluate all times again
 *
 * A time is the mean over members and instances of the time in the call, waits included (Section
 * 3). The second decision evaluates again if the mean of the whole period and the mean of its last
 * ten instances exceed the time of the second best algorithm by 10 %.
 *
 * Sources: Section 7 for the algorithms and the 80 probes. Section 7 refers to STAR-MPI (Faraj,
 * Yuan and Lowenthal 2006) for the rest. The period, the 10 % and the skipped instances are those
 * of the implementation that its authors published with MPICH for Blue Gene/P.
 *
 * Like decide(), these functions use no clock and no call site. Each member sums its own times, and
 * the members add their sums before a decision (robust_instance.c).
 */
#include "selection/online/selection.h"

#include <string.h>

enum { SKIPPED = 2, FIRST_PERIOD = 2 * ROBUST_RUNS, LONGEST_PERIOD = 1 << 20, PERCENT_WORSE = 10 };

/* Indices of the sums of a period. */
enum { WHOLE, LAST, PERIOD_SUMS };

/* Start, or start again while the members cannot run other algorithms yet. */
void robust_routine_start(struct selection *s)
{
    s->is_robust = true;
    s->robust = (struct robust){.period = FIRST_PERIOD};
    s->probing.ran = s->list[NATIVE].tried = 0;
    s->phases.number = 1;
    current_choice_probe(s, "start");
}

/* Return the candidate that the next instance runs. */
int robust_routine_candidate(const struct selection *s)
{
    return s->choice.state == STATE_PROBE ? s->robust.measuring : s->choice.current;
}

/* Return the number of algorithms with a known time. */
static int known_count(const struct selection *s)
{
    int count = 0;

    for (int i = 0; i < s->count; i++)
        count += s->robust.means[i] > 0;
    return count;
}

/* Add a probe. Returns true after the last probe. */
static bool probe_add(struct selection *s, bool ran, int64_t elapsed_ns)
{
    struct robust *const r = &s->robust;

    s->probing.ran++;
    s->list[r->measuring].tried++;
    r->sums[r->measuring] += elapsed_ns;
    r->missed[r->measuring] |= !ran;
    if (++r->runs < ROBUST_RUNS)
        return false;
    r->runs = 0;
    return ++r->measuring == s->count && s->listed;
}

/* Add an instance of the chosen algorithm. Returns true at the end of a period. */
static bool period_add(struct selection *s, bool ran, int64_t elapsed_ns)
{
    struct robust *const r = &s->robust;
    const int current = s->choice.current;

    if (known_count(s) < 2 || r->skipped++ < SKIPPED)
        return false;
    r->missed[current] |= !ran;
    r->sums[WHOLE] += elapsed_ns;
    if (r->monitored >= r->period - ROBUST_RUNS)
        r->sums[LAST] += elapsed_ns;
    return ++r->monitored == r->period;
}

/* Add an instance. `ran` is set if the algorithm of robust_routine_candidate ran, and not the
 * library's instead. Returns true if the members must now add their sums. */
bool robust_routine_note(struct selection *s, bool ran, int64_t elapsed_ns)
{
    return s->choice.state == STATE_PROBE ? probe_add(s, ran, elapsed_ns)
                                          : period_add(s, ran, elapsed_ns);
}

/* Store this member's sums for the reduction. Returns their number. */
int robust_routine_sums(const struct selection *s, struct sum_max *sums)
{
    const struct robust *const r = &s->robust;
    const bool probes = s->choice.state == STATE_PROBE;
    const int count = probes ? s->count : PERIOD_SUMS;

    for (int i = 0; i < count; i++)
        sums[i] = (struct sum_max){r->sums[i], r->missed[probes ? i : s->choice.current]};
    return count;
}

/* ---- decisions */

static int best_but(const struct selection *s, int but)
{
    int best = but == NATIVE ? -1 : NATIVE;

    for (int i = 0; i < s->count; i++)
        if (i != but && s->robust.means[i] > 0 &&
            (best < 0 || s->robust.means[best] == 0 || s->robust.means[i] < s->robust.means[best]))
            best = i;
    return best;
}

static void mean_set(struct selection *s, int i, int64_t mean_ns)
{
    s->robust.means[i] = s->list[i].last_ns = mean_ns;
}

static int64_t mean_of(const struct selection *s, const struct sum_max *sum, int instances)
{
    return 1 + sum->sum / ((int64_t)s->arrivals->member.members * instances);
}

static void period_start(struct selection *s, int period)
{
    struct robust *const r = &s->robust;

    memset(r->sums, 0, sizeof r->sums);
    memset(r->missed, 0, sizeof r->missed);
    r->period = period;
    r->monitored = r->skipped = 0;
}

static void decide_first(struct selection *s, const struct sum_max *all)
{
    for (int i = 0; i < s->count; i++) /* an algorithm that did not run always has no time */
        mean_set(s, i, all[i].most > 0 ? 0 : mean_of(s, &all[i], ROBUST_RUNS));
    current_choice_conclude(s, best_but(s, -1), "lowest mean time of ten instances");
    period_start(s, FIRST_PERIOD);
}

/* Evaluate all times again, with the new time of the current choice. */
static void evaluate_again(struct selection *s, int64_t mean_ns, const char *why)
{
    mean_set(s, s->choice.current, mean_ns);
    s->phases.number++;
    current_choice_probe(s, "score");
    current_choice_conclude(s, best_but(s, -1), why);
    period_start(s, FIRST_PERIOD);
}

static void decide_second(struct selection *s, const struct sum_max *all)
{
    const int period = s->robust.period, current = s->choice.current;
    const int64_t second = s->robust.means[best_but(s, current)];
    const int64_t worse = second + second * PERCENT_WORSE / 100;
    const int64_t whole = mean_of(s, &all[WHOLE], period);
    const int64_t last = mean_of(s, &all[LAST], ROBUST_RUNS);

    if (all[WHOLE].most > 0) {
        evaluate_again(s, 0, "the algorithm could not always run");
    } else if (whole >= worse && last >= worse) {
        evaluate_again(s, whole, "lowest time after the previous choice became slower");
    } else if (whole >= worse) {
        current_choice_choose(s, current, "unchanged: the last ten instances were not slower");
        period_start(s, period);
    } else {
        current_choice_choose(s, current, "unchanged: no slower than the second best algorithm");
        period_start(s, period < LONGEST_PERIOD ? 2 * period : period);
    }
}

/* Decide by the sums over all members. All members call it with the same numbers. */
void robust_routine_decide(struct selection *s, const struct sum_max *all)
{
    if (s->choice.state == STATE_PROBE)
        decide_first(s, all);
    else
        decide_second(s, all);
}
