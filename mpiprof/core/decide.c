/* Observe, probe, hold: what a key's instances run on, from the statistics of its windows.
 *
 *      observe --> probe: lap 1 (2 runs each) --> half of the field, lap 2 (3 runs each)
 *                                             --> where that says nothing sure: a duel of 6 runs
 *              --> hold, until two windows in a row are unlike what they were --> probe
 *
 * A candidate takes the library's place only if it is better by more than the noise says. The test
 * is Mann and Whitney's rank sum, one-sided: it needs no distribution, and one disturbed instance
 * weighs no more than any other. 95 %, divided by the candidates that were tried (Bonferroni);
 * what misses that meets the library once more in a duel of fresh instances, where 95 % is enough,
 * as nothing was picked from those. (Faraj et al., Section 7, take the mean of ten instances of
 * each algorithm in turn; here the field halves, and the runs are interleaved, so that what
 * drifts hits all alike.)
 *
 * A pure function of numbers that are the same on all members: no clock and no call site of this
 * rank is looked at.
 */
#include <string.h>

#include "auto.h"

enum {
    MOST_FIELD = 7,      /* candidates beside the library's own, in one phase */
    MOST_PROBES = 40,    /* instances, in one phase */
    FEWEST_PROBES = 6,   /* else a phase is not worth beginning */
    COST_SHARE = 200,    /* a window is that many times as long as its reductions */
    LONGEST_GAP = 20000, /* instances between windows */
    FIRST_PATIENCE = 16  /* instances from one phase to the next, doubled when nothing changes */
};
static const int runs_of_lap[] = {0, 2, 3, 6};
static const double sure = 2.45, likely = 1.645, unlike = 2.3; /* in standard deviations */

/* ---- order statistics */

static int64_t median_of(const int64_t *values, int count)
{
    int64_t sorted[LONGEST_WINDOW];

    for (int i = 0; i < count; i++) {
        int j = i;

        for (; j > 0 && sorted[j - 1] > values[i]; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = values[i];
    }
    return count > 0 ? sorted[count / 2] : 0;
}

static int samples_of(const struct candidate *c)
{
    return c->seen < MOST_SAMPLES ? c->seen : MOST_SAMPLES;
}

int64_t candidate_median(const struct candidate *c)
{
    return median_of(c->samples, samples_of(c));
}

/* The median distance from the median. */
int64_t candidate_spread(const struct candidate *c)
{
    const int64_t middle = candidate_median(c);
    int64_t distances[MOST_SAMPLES];

    for (int i = 0; i < samples_of(c); i++)
        distances[i] = c->samples[i] > middle ? c->samples[i] - middle : middle - c->samples[i];
    return median_of(distances, samples_of(c));
}

/* Whether a is smaller than b by at least z standard deviations of the rank sum. */
static bool smaller(const int64_t *a, int n, const int64_t *b, int m, double z)
{
    double u = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            u += a[i] < b[j] ? 1 : a[i] == b[j] ? 0.5 : 0;
    const double above = u - 0.5 * n * m - 0.5, variance = n * (double)m * (n + m + 1) / 12;

    return above > 0 && above * above >= z * z * variance;
}

static bool better(const struct candidate *a, const struct candidate *b, double z, int percent)
{
    return candidate_median(a) * 100 <= candidate_median(b) * (100 - percent) &&
           smaller(a->samples, samples_of(a), b->samples, samples_of(b), z);
}

/* ---- what a window brings */

static void give_up(struct selection *s, const char *why)
{
    s->left = true;
    s->current = NATIVE;
    s->state = STATE_HOLD;
    s->why = why;
    explain_choice(s);
}

/* Scores, what probing has lost, what switching has saved by its own estimate. */
static void take(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;
    const int64_t usual = candidate_median(&s->list[s->current]);
    int64_t values[LONGEST_WINDOW] = {0};

    for (int i = 0; i < w->count; i++) {
        const struct sample *const r = &w->results[i];
        struct candidate *const c = &s->list[r->candidate];

        c->samples[c->seen++ % MOST_SAMPLES] = r->score;
        c->tried++;
        c->last_ns = r->score;
        if (r->probe) {
            c->got++;
            if (c->seen > 1 || usual > 0)
                ledger_lose(r->score > usual ? r->score - usual : 0);
        }
        if (r->candidate != NATIVE && s->native_ns > 0)
            s->saved_ns += s->native_ns - r->score;
        values[i] = r->elapsed;
    }
    s->elapsed_ns = median_of(values, w->count);
    for (int i = 0; i < w->count; i++)
        values[i] = w->results[i].worst;
    s->worst_ns = median_of(values, w->count);
    if (s->list[NATIVE].seen > 0)
        s->native_ns = candidate_median(&s->list[NATIVE]);
}

/* Whether members are so far apart that one calls again before another has called at all. */
static bool runs_ahead(const struct arrivals *w)
{
    int ahead = 0;

    for (int i = 0; i + 1 < w->count; i++)
        ahead += w->results[i + 1].first < w->results[i].last;
    return w->semantics != SYNCHRONISES && ahead * 10 > w->count;
}

/* How long the next window is, so that its reductions take a two-hundredth of the time. */
static void pace(struct selection *s)
{
    struct arrivals *const w = s->arrivals;
    const int64_t each = s->elapsed_ns > 0 ? s->elapsed_ns : 1;
    const int shortest = runs_ahead(w) ? 32 : s->state == STATE_PROBE ? 4 : 8;
    int64_t cycle = COST_SHARE * w->extras[EXTRA_COST] / each;

    if (w->semantics != SYNCHRONISES && w->extras[EXTRA_WAITED] > each * w->cycle / 20) {
        cycle = cycle < LONGEST_WINDOW ? LONGEST_WINDOW : cycle;
        if (++s->strikes == 3)
            give_up(s, "some ranks run far ahead: statistics would hold them back");
    } else {
        s->strikes = 0;
    }
    cycle = cycle < shortest ? shortest : cycle > LONGEST_GAP ? LONGEST_GAP : cycle;
    const int length = cycle < LONGEST_WINDOW ? (int)cycle : LONGEST_WINDOW;

    arrivals_next(w, length, (int)cycle - length);
}

/* ---- probing */

static bool takes_part(const struct selection *s, int i)
{
    return i == s->current || i == NATIVE || !s->list[i].out;
}

/* What a run of a candidate will take. */
static int64_t expected(const struct selection *s, const struct candidate *c)
{
    const int64_t usual = candidate_median(&s->list[s->current]);

    if (c->seen > 0)
        return candidate_median(c);
    if (c->predicted_ns * 4 < usual * 3)
        return usual;
    return c->predicted_ns > usual ? c->predicted_ns : usual + usual / 8;
}

static bool wants_run(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];
    const bool enough = i == NATIVE && s->lap < 3 && c->seen >= 4;

    return i != s->current && takes_part(s, i) && !enough && c->asked < runs_of_lap[s->lap];
}

/* Plans the next window's probes, in turns, as far as the budget goes. */
static void plan(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;
    const int room = w->next_length - (w->next_length + 3) / 4;
    const int64_t usual = candidate_median(&s->list[s->current]);
    int64_t budget = -w->extras[EXTRA_BUDGET] - s->in_flight_ns[0] - s->in_flight_ns[1];
    int placed = 0, last = -1;
    int64_t risk = 0;

    while (placed < room && placed != last && budget > 0) {
        last = placed;
        for (int i = 0; i < s->count && placed < room && budget > 0; i++) {
            if (!wants_run(s, i) || s->probes >= s->limit)
                continue;
            const int64_t loss = expected(s, &s->list[i]) - usual;

            s->next[placed * w->next_length / room] = (uint8_t)i;
            placed++;
            s->probes++;
            s->all_probes++;
            s->later_probes += s->phase > 1;
            s->list[i].asked++;
            risk += loss > 0 ? loss : 0;
            budget -= loss > 0 ? loss : 0;
        }
    }
    s->in_flight_ns[1] = s->in_flight_ns[0];
    s->in_flight_ns[0] = risk;
}

static bool lap_is_over(const struct selection *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->got < c->asked || (wants_run(s, i) && s->probes < s->limit))
            return false;
    }
    return s->list[s->current].seen >= 4;
}

static void next_lap(struct selection *s)
{
    s->lap++;
    for (int i = 0; i < s->count; i++)
        s->list[i].asked = s->list[i].got = 0;
}

static void conclude(struct selection *s, int choice, const char *why)
{
    s->state = STATE_HOLD;
    s->patience = s->phase > 1 && choice == s->before ? 2 * s->patience : FIRST_PATIENCE;
    s->next_phase = s->instances + s->patience;
    s->current = choice;
    s->reference.count = 0;
    s->moved = 0;
    s->why = why;
    explain_trials(s);
    explain_choice(s);
}

static int best_of(const struct selection *s)
{
    int best = s->current;

    for (int i = 0; i < s->count; i++)
        if (takes_part(s, i) && s->list[i].seen > 0 &&
            candidate_median(&s->list[i]) < candidate_median(&s->list[best]))
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
            if (!s->list[i].out && i != s->current && i != best &&
                (worst < 0 || candidate_median(&s->list[i]) > candidate_median(&s->list[worst])))
                worst = i;
        if (worst >= 0)
            s->list[worst].out = true;
    }
    if (better(&s->list[best], &s->list[s->current], likely, 10))
        s->current = best;
    next_lap(s);
}

/* What runs unless something is better: in the first phase the library's own; later what is known
 * to be the better one of that and what ran before. */
static int incumbent(const struct selection *s)
{
    if (s->phase == 1 || s->list[NATIVE].seen == 0)
        return s->phase == 1 ? NATIVE : s->before;
    return s->list[s->before].seen > 0 &&
                   candidate_median(&s->list[s->before]) < candidate_median(&s->list[NATIVE])
               ? s->before
               : NATIVE;
}

static void begin_duel(struct selection *s, int best, int other)
{
    for (int i = 0; i < s->count; i++)
        s->list[i].out = i != best && i != other;
    s->list[best].seen = s->list[other].seen = 0;
    if (s->current != best)
        s->current = other;
    next_lap(s);
}

static void probe(struct selection *s)
{
    const int best = best_of(s), other = incumbent(s);

    if (!lap_is_over(s)) {
        return;
    } else if (s->lap == 1) {
        halve(s);
    } else if (best == other) {
        conclude(s, other, "nothing was faster");
    } else if (better(&s->list[best], &s->list[other], s->lap == 3 ? likely : sure, 1)) {
        conclude(s, best, "faster by more than the noise");
    } else if (s->lap == 2 && s->probes + runs_of_lap[3] <= s->limit) {
        begin_duel(s, best, other);
    } else {
        conclude(s, other, "nothing was faster by more than the noise");
    }
}

/* ---- phases */

/* The candidates that the schedules predict to be promising; the better half of a prediction is
 * about what no machine has in common with another. */
static int choose_field(struct selection *s)
{
    const int most = s->limit * 2 / 7 < MOST_FIELD ? s->limit * 2 / 7 : MOST_FIELD;
    const int64_t usual = candidate_median(&s->list[s->current]);
    int64_t least = INT64_MAX;
    int chosen = 0;

    for (int i = 1; i < s->count; i++) {
        const int64_t p = s->list[i].predicted_ns;

        s->list[i].out = true;
        least = p > 0 && p < least ? p : least;
    }
    for (; chosen < most; chosen++) {
        int next = -1;

        for (int i = 1; i < s->count; i++) {
            const int64_t p = s->list[i].predicted_ns;

            if (s->list[i].out && i != s->current && p <= usual + usual / 4 &&
                (p == 0 || p <= least + least / 2) && (next < 0 || p < s->list[next].predicted_ns))
                next = i;
        }
        if (next < 0)
            break;
        s->list[next].out = false;
    }
    return chosen;
}

/* What was measured in another phase says nothing now, but for the newest window. */
static void forget_phase(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    for (int i = 0; i < s->count; i++)
        s->list[i].seen = 0;
    for (int i = 0; i < w->count; i++) {
        struct candidate *const c = &s->list[w->results[i].candidate];

        c->samples[c->seen++ % MOST_SAMPLES] = w->results[i].score;
    }
}

static void begin_phase(struct selection *s, const char *why)
{
    const int64_t tenth = s->instances / 10 - s->later_probes;

    s->limit = s->phase == 0 || tenth > MOST_PROBES ? MOST_PROBES : (int)tenth;
    if (s->limit < FEWEST_PROBES)
        return;
    s->phase++;
    s->lap = s->probes = 0;
    s->before = s->current;
    s->why = why;
    if (s->phase > 1)
        forget_phase(s);
    explain_phase(s);
    if (choose_field(s) == 0 && s->phase == 1) {
        conclude(s, NATIVE, "no candidate is predicted to be faster");
        return;
    }
    s->state = STATE_PROBE;
    next_lap(s);
}

static void observe(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    if (s->list[NATIVE].seen < 4)
        return;
    /* Half a percent of the run: below, nothing that is found could be seen. */
    if (s->elapsed_ns * s->instances * 200 < w->extras[EXTRA_WALL])
        return;
    ledger_grant(s->native_ns);
    begin_phase(s, "start");
}

static void remember(struct typical *t, const struct sample *r)
{
    if (t->count == MOST_SAMPLES)
        return;
    t->scores[t->count] = r->score;
    t->worsts[t->count] = r->worst;
    t->latest[t->count++] = r->latest;
}

/* The rank that came last in three quarters of the instances; -1: none did. */
static int usual_latest(const struct typical *t)
{
    for (int i = 0; i < t->count; i++) {
        int times = 0;

        for (int j = 0; j < t->count; j++)
            times += t->latest[j] == t->latest[i];
        if (times * 4 >= t->count * 3)
            return t->latest[i];
    }
    return -1;
}

static bool differ(const int64_t *a, int n, const int64_t *b, int m, int64_t least)
{
    const int64_t change = median_of(a, n) - median_of(b, m);

    return (change > least || -change > least) &&
           (smaller(a, n, b, m, unlike) || smaller(b, m, a, n, unlike));
}

/* What of a window is unlike the reference; NULL: nothing is. Changes that are small beside the
 * operation's own time have nothing to say to an algorithm. */
static const char *change_of(const struct typical *now, const struct typical *before)
{
    const int64_t score = median_of(before->scores, before->count);
    const int64_t worst = median_of(before->worsts, before->count);
    const int64_t matters = score / 10, halved = worst / 2;
    const int was = usual_latest(before), is = usual_latest(now);

    if (differ(now->scores, now->count, before->scores, before->count, matters))
        return "score";
    if (differ(now->worsts, now->count, before->worsts, before->count,
               matters > halved ? matters : halved))
        return "imbalance";
    return was >= 0 && is >= 0 && was != is && worst > matters ? "imbalance" : NULL;
}

static void hold(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;
    struct typical now = {.count = 0};

    for (int i = 0; i < w->count; i++)
        remember(&now, &w->results[i]);
    if (s->reference.count < 8) {
        for (int i = 0; i < w->count; i++)
            if (w->results[i].candidate == s->current)
                remember(&s->reference, &w->results[i]);
        return;
    }
    const char *const why = change_of(&now, &s->reference);

    s->moved = why != NULL ? s->moved + 1 : 0;
    if (s->moved >= 2 && s->instances >= s->next_phase)
        begin_phase(s, why);
}

/* Called by all members with the same numbers; decides what the next window runs. */
void decide(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    memset(s->next, NOBODY, sizeof s->next);
    take(s);
    for (int i = 1; i < s->count; i++)
        if (w->extras[EXTRA_PREDICTED + i] > 0)
            s->list[i].predicted_ns = w->extras[EXTRA_PREDICTED + i];
    if (w->extras[EXTRA_FAILED] > 0)
        give_up(s, "an operation on this communicator failed");
    /* Where the clocks' error is as large as what is compared, nothing can be told. */
    const bool tells = s->switches && !s->left && w->extras[EXTRA_CLOCK] * 10 <= s->native_ns;

    if (tells && s->state == STATE_OBSERVE)
        observe(s);
    else if (tells && s->state == STATE_PROBE)
        probe(s);
    else if (tells && s->state == STATE_HOLD)
        hold(s);
    pace(s);
    if (tells && s->state == STATE_PROBE && !s->left)
        plan(s);
}
