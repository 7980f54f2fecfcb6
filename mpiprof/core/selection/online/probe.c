/* Probing: the trial runs of candidates, and the test that replaces the current choice.
 *
 *    candidate set (candidate_set.c)
 *      --> one run each, in the order of their estimates
 *      --> up to 3 runs of each candidate that may still be best, then of equivalent library
 *          algorithms
 *      --> the neighbouring block sizes of the best candidate that has a block size, unless it
 *          takes a quarter longer than the best of all
 *      --> without a significant result: up to 9 runs of the best one and of the library's default
 *
 * Test: a candidate replaces the library's default only if it is better at a significance of 95 %,
 * corrected for the number of candidates that were tried (Bonferroni).
 *
 * Budget: the loss by probing is bounded, per key and per process.
 *
 * Faraj et al., Section 7, take the mean of ten consecutive instances of each algorithm. Here the
 * trials are interleaved with runs of the current choice, so that drift affects all candidates
 * equally.
 */
#include <string.h>

#include "selection/online/selection.h"

enum {
    RUNS = 3,            /* runs of each candidate that may be best */
    FINAL_RUNS = 9,      /* runs of the best candidate and its rival */
    FIRST = 2,           /* candidates that may start on a prediction alone */
    MOST_OWN = 4,        /* library algorithms per phase */
    PATIENT_WINDOWS = 12 /* windows without budget for a probe, after which a phase ends */
};
/* Standard deviations for 95 %, one-sided, by the number of candidates tried. */
static const double sure_of[] = {1.645, 1.645, 1.96, 2.13, 2.24, 2.33, 2.39, 2.45};
static const double likely = 1.645;
static const char significance[] = "faster by more than the noise";
static const char no_significance[] = "no algorithm was faster by more than the noise";

/* Return the required significance in standard deviations. The first phase corrects for the
 * candidates tried and for a second look in a final. A later phase has a known reason to begin. */
static double required_significance(const struct selection *s)
{
    const int most = sizeof sure_of / sizeof *sure_of - 1;
    int tried = s->probing.final;

    if (s->phases.number > 1)
        return likely;
    for (int i = 1; i < s->count; i++)
        tried += s->list[i].measured > 0;
    return sure_of[tried < most ? tried : most];
}

/* ---- the plan of a window */

/* Return the expected loss of one run in ns. An unmeasured candidate may take 1/2 longer than the
 * current choice, or 1/8 if it is predicted to be much faster. */
static int64_t risk_of(const struct selection *s, int i)
{
    const int64_t usual = rank_test_known(&s->list[s->choice.current]);
    const int64_t measured = rank_test_known(&s->list[i]), model = candidate_set_estimate(s, i);
    const int64_t guess = usual + usual / (model > 0 && model < usual * 3 / 4 ? 8 : 2);
    const int64_t takes = measured > 0 ? measured : model > guess ? model : guess;

    return takes > usual ? takes - usual : 0;
}

/* Return the loss in ns that is still allowed. The process's budget counts waits for late ranks as
 * time; the key's own budget excludes them. */
static int64_t budget_of(const struct selection *s)
{
    const int64_t each = rank_test_default_time(s);
    const int64_t own = 2 * each + each * s->instances / LOSS_SHARE - s->observed.lost_ns;
    const int64_t all = -s->arrivals->extras[EXTRA_BUDGET];

    return (own < all ? own : all) - s->probing.in_flight_ns[0] - s->probing.in_flight_ns[1];
}

/* Return the cost in ns of the resources for a first run. */
static int64_t price_of(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];

    return c->variant.library_algorithm == NULL || c->has_needs ? 0 : s->observed.private_ns;
}

/* Limit the library algorithms. Exclude one if its resources would wait long for budget, or if
 * their creation would block members that run ahead. */
static bool may_enter(const struct selection *s, int i)
{
    const int64_t price = price_of(s, i);
    int tried = 0;

    if (s->list[i].variant.library_algorithm == NULL || s->list[i].planned > 0)
        return true;
    for (int j = 1; j < s->count; j++)
        tried += s->list[j].variant.library_algorithm != NULL && s->list[j].planned > 0;
    return tried < MOST_OWN && !candidate_set_is_waiting(s, i) &&
           (price <= rank_test_default_time(s) || price <= budget_of(s)) &&
           (s->list[i].has_needs || !window_length_runs_ahead(s->arrivals));
}

/* Return true if a candidate needs another run. An unmeasured candidate has at most two active
 * runs. */
static bool wants_run(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];
    const int under_way = c->planned - c->measured, measured = rank_test_samples(c);

    if (i == s->choice.current || c->excluded || (measured == 0 && under_way > 1) ||
        !may_enter(s, i) || !candidate_set_contains(s, i))
        return false;
    return measured + under_way < (s->probing.final ? FINAL_RUNS : RUNS);
}

static void by_promise(const struct selection *s, int *order)
{
    for (int i = 0; i < s->count; i++) {
        int j = i;

        for (; j > 0 && candidate_set_estimate(s, order[j - 1]) > candidate_set_estimate(s, i); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
}

/* Plan a run, and charge its resources, which auto.c creates before the next instance. */
static void probe_place(struct selection *s, int i, int position)
{
    observe_loss(s, price_of(s, i));
    s->list[i].has_needs = true;
    s->list[i].planned++;
    s->probing.next[position] = (uint8_t)i;
    s->probing.probes++;
    s->probing.later_probes += s->phases.number > 1;
}

/* Return the number of active runs of candidates that only the model knows. */
static int guess_count(const struct selection *s)
{
    int count = 0;

    for (int i = 1; i < s->count; i++)
        count += s->list[i].planned > s->list[i].measured && rank_test_known(&s->list[i]) == 0;
    return count;
}

/* Plan the probes of the next window in rotation, within the budget. Candidates without expected
 * loss need none. If `may` is false, the window has no probes. */
void probe_plan(struct selection *s, bool may)
{
    const int length = s->arrivals->next_length, room = length - (length + 3) / 4;
    int64_t budget = budget_of(s), risk = 0;
    int placed = 0, last = -1, order[MOST_LIST];

    memset(s->probing.next, NOBODY, sizeof s->probing.next);
    if (!may)
        return;
    s->probing.short_of_budget = false;
    by_promise(s, order);
    while (placed < room && placed != last) {
        last = placed;
        for (int n = 0; n < s->count && placed < room; n++) {
            const int i = order[n];
            const int64_t loss = risk_of(s, i), cost = loss + price_of(s, i);

            if (!wants_run(s, i) || s->probing.probes >= s->probing.limit ||
                (s->model.measured == 0 && rank_test_known(&s->list[i]) == 0 &&
                 s->list[i].planned == 0 && guess_count(s) == FIRST))
                continue;
            if (cost > 0 && cost > budget) {
                s->probing.short_of_budget = true;
                continue;
            }
            probe_place(s, i, placed++ * length / room);
            risk += loss;
            budget -= cost;
        }
    }
    s->probing.in_flight_ns[1] = s->probing.in_flight_ns[0];
    s->probing.in_flight_ns[0] = risk;
    s->probing.stalled = placed > 0 ? 0 : s->probing.stalled + s->probing.short_of_budget;
}

/* Remove a planned candidate without its resources. */
void probe_refuse(struct selection *s, int i)
{
    struct candidate *const c = &s->list[i];

    for (int position = 0; position < LONGEST_WINDOW; position++)
        if (s->probing.next[position] == i)
            s->probing.next[position] = NOBODY;
    c->planned = c->measured;
    c->refused = c->excluded = true;
}

/* ---- windows */

void probe_start(struct selection *s)
{
    memset(s->probing.plan, NOBODY, sizeof s->probing.plan);
    memset(s->probing.next, NOBODY, sizeof s->probing.next);
}

/* Return the candidate to probe at a position, or NOBODY. */
int probe_candidate_at(struct selection *s, int position)
{
    if (position < 0 || position >= s->arrivals->length || s->probing.plan[position] == NOBODY)
        return NOBODY;
    s->probing.ran++;
    return s->probing.plan[position];
}

/* Start the next plan at position `first` of the current window. */
void probe_assign(struct selection *s, int first)
{
    memcpy(s->probing.plan + first, s->probing.next, (size_t)(LONGEST_WINDOW - first));
    memset(s->probing.next, NOBODY, sizeof s->probing.next);
}

static bool is_waiting(const struct selection *s)
{
    for (int i = 0; i < s->count; i++)
        if (wants_run(s, i) && s->probing.probes < s->probing.limit)
            return true;
    return false;
}

/* Return true if the finished window has no probe and the next one adds none. It only waited for
 * results, so both can be reduced together. */
bool probe_waits(const struct selection *s)
{
    if (s->choice.state != STATE_PROBE)
        return false;
    for (int i = 0; i < LONGEST_WINDOW; i++)
        if (s->probing.plan[i] != NOBODY)
            return false;
    return !is_waiting(s);
}

/* ---- a phase */

/* Begin a phase of at most `limit` probes, in which rank `late` (-1 for none) arrives last. Returns
 * the number of candidates. */
int probe_begin(struct selection *s, int limit, int late)
{
    s->probing.limit = limit;
    s->probing.late = late;
    s->probing.probes = s->probing.stalled = 0;
    s->probing.final = false;
    for (int i = 0; i < s->count; i++)
        s->list[i].planned = s->list[i].measured = 0;
    return candidate_set_begin(s);
}

/* Except in a final, exclude candidates that cannot be best or lacked budget for long. */
static void hopeless_drop(struct selection *s)
{
    for (int i = 1; i < s->count && !s->probing.final; i++) {
        struct candidate *const c = &s->list[i];
        const bool blocked = s->probing.stalled > PATIENT_WINDOWS && wants_run(s, i);

        if (i != s->choice.current && c->measured >= c->planned &&
            (!candidate_set_contains(s, i) || blocked))
            c->excluded = true;
    }
}

static bool is_over(const struct selection *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->list[i].measured < s->list[i].planned)
            return false;
    return s->list[s->choice.current].seen >= RUNS &&
           (!is_waiting(s) || s->probing.stalled > PATIENT_WINDOWS);
}

static int best_of(const struct selection *s)
{
    int best = s->choice.current;

    for (int i = 0; i < s->count; i++)
        if ((i == s->choice.current || !s->list[i].excluded) && s->list[i].seen > 0 &&
            rank_test_median(&s->list[i]) < rank_test_median(&s->list[best]))
            best = i;
    return best;
}

/* Return the candidate that a new choice must beat. */
static int rival_of(const struct selection *s)
{
    return s->phases.number == 1 ? NATIVE : s->phases.before;
}

/* Return the choice if nothing is significantly better: the library's default, or a faster earlier
 * choice. */
static int fallback_choice(const struct selection *s)
{
    const struct candidate *const native = &s->list[NATIVE], *const before = &s->list[rival_of(s)];

    return native->seen == 0 || rank_test_median(before) < rank_test_median(native) ? rival_of(s)
                                                                                    : NATIVE;
}

static bool is_surely_better(const struct selection *s, int which, int than)
{
    return rank_test_better(&s->list[which], &s->list[than], required_significance(s), 1);
}

/* Conclude with the library's default or an earlier choice. An excluded candidate may have been
 * faster in its one or two runs. */
static void conclude_unchanged(struct selection *s, int which)
{
    const char *why = "nothing was faster";

    for (int i = 0; i < s->count; i++)
        if (s->list[i].seen > 0 &&
            rank_test_median(&s->list[i]) < rank_test_median(&s->list[which]))
            why = no_significance;
    current_choice_conclude(s, which, why);
}

/* Advance the phase after a window. Returns true if the phase has made a choice. */
bool probe_step(struct selection *s)
{
    candidate_set_correct(s);
    hopeless_drop(s);
    const int best = best_of(s), other = rival_of(s);
    const bool better = is_surely_better(s, best, other);

    if (s->list[best].seen > 1 &&
        rank_test_better(&s->list[best], &s->list[s->choice.current], likely, 10))
        current_choice_run_on(s, best);
    if (!is_over(s) && !(s->probing.final && better))
        return false;
    const bool may_probe = !s->probing.final && s->probing.probes < s->probing.limit;

    if (may_probe && candidate_set_extend_blocks(s, best))
        return false;
    if (better) {
        current_choice_conclude(s, best, significance);
    } else if (best == fallback_choice(s)) {
        conclude_unchanged(s, best);
    } else if (may_probe) {
        for (int i = 0; i < s->count; i++)
            s->list[i].excluded = i != best && i != other;
        s->probing.final = true;
        return false;
    } else if (is_surely_better(s, s->choice.current, other)) { /* the best one was disturbed */
        current_choice_conclude(s, s->choice.current, significance);
    } else {
        current_choice_conclude(s, fallback_choice(s), no_significance);
    }
    return true;
}
