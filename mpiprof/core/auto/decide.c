/* Observe, probe, hold: what a key's instances run on, from the statistics of its windows.
 *
 *      observe --> probe (probe.c) --> hold
 *                    ^  |                |   two windows in a row are unlike what they were
 *                    +--+----------------+
 *
 * A pure function of numbers that are the same on all members: no clock and no call site of this
 * rank is looked at, and what it comes to is written down by others (explain.c).
 */
#include <string.h>

#include "auto/arrival.h"
#include "auto/budget.h"
#include "auto/candidates.h"
#include "auto/decide.h"
#include "auto/noise.h"
#include "auto/probe.h"
#include "auto/selection.h"
#include "base/operation.h"
#include "schedule/schedule.h"

enum {
    MOST_PROBES = 40,    /* instances, in one phase */
    FEWEST_PROBES = 6,   /* else a phase is not worth beginning */
    COST_SHARE = 200,    /* a window is that many times as long as its reductions */
    FIRST_PATIENCE = 16, /* instances from one phase to the next */
    LONGEST_GAP = 20000, /* instances between windows */
    UNLIKE = 4           /* times the median distance from the median: in two windows no accident */
};

/* ---- what a window brings */

static void give_up(struct selection *s, const char *why)
{
    s->left = true;
    s->current = NATIVE;
    s->state = STATE_HOLD;
    s->why = why;
    probe_tell(s, NEWS_CHOICE);
}

/* Scores, what probing has lost, what switching has saved by its own estimate. */
static void take(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;
    const int64_t usual = noise_median(&s->list[s->current]);
    int64_t values[LONGEST_WINDOW] = {0};

    for (int i = 0; i < w->count; i++) {
        const struct sample *const r = &w->results[i];
        struct candidate *const c = &s->list[r->candidate];

        c->samples[c->seen++ % MOST_SAMPLES] = r->score;
        c->tried++;
        if (r->planned != NOBODY) {
            s->list[r->planned].got++;
            if (r->candidate == r->planned && usual > 0 && r->score > usual) {
                budget_lose(r->score - usual);
                s->lost_ns += r->score - usual;
            }
        }
        if (r->candidate != NATIVE && s->native_ns > 0)
            s->saved_ns += s->native_ns - r->score;
        values[i] = r->elapsed;
    }
    s->elapsed_ns = noise_median_of(values, w->count);
    for (int i = 0; i < w->count; i++)
        values[i] = w->results[i].worst;
    s->worst_ns = noise_median_of(values, w->count);
    if (s->list[NATIVE].seen > 0)
        s->native_ns = noise_median(&s->list[NATIVE]);
    if (w->extras[EXTRA_COST] > 0) /* the first window has none yet */
        s->costs_ns[s->costs++ % 3] = w->extras[EXTRA_COST];
}

/* Whether members are so far apart that one calls again before another has called at all. */
static bool runs_ahead(const struct arrivals *w)
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
    const int64_t way = 2 * s->latency_ns * log2_ceiling(s->arrivals->own.members);

    return noise_median_of(s->costs_ns, s->costs < 3 ? s->costs : 3) + (s->state == STATE_HOLD ? way
                                                                        : s->short_of_budget
                                                                            ? way / 2
                                                                            : way / 8);
}

/* How long the next window is, so that its reductions take a two-hundredth of the time; where an
 * algorithm is chosen, waiting for late ranks is none of that. */
static void pace(struct selection *s)
{
    struct arrivals *const w = s->arrivals;
    const int64_t score = noise_median(&s->list[s->current]);
    const int64_t least = s->switches && score > 0 && score < s->elapsed_ns ? score : s->elapsed_ns;
    const int64_t each = least > 0 ? least : 1;
    const int shortest = runs_ahead(w) ? 32 : 4;
    int64_t cycle = COST_SHARE * cost_of(s) / each;

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

/* ---- phases */

/* What was measured in another phase says nothing now, but for the newest window. */
static void forget_phase(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    for (int i = 0; i < s->count; i++) {
        struct candidate *const c = &s->list[i];

        c->last_ns = noise_known(c);
        c->seen = 0;
    }
    for (int i = 0; i < w->count; i++) {
        struct candidate *const c = &s->list[w->results[i].candidate];

        c->samples[c->seen++ % MOST_SAMPLES] = w->results[i].score;
    }
}

/* The sooner the last phase is followed by this one, the longer until the next. */
static void be_patient(struct selection *s)
{
    const bool soon = s->phase > 0 && s->instances < s->next_phase + 3 * s->patience;

    s->patience = soon ? 2 * s->patience : FIRST_PATIENCE;
    s->next_phase = s->instances + s->patience;
}

/* Later phases may probe a fifth of a restless program's instances: after half of 300 that is
 * enough for a field and a climb of block sizes. What they lose, the budget bounds. */
static bool begin_phase(struct selection *s, const char *why)
{
    const int64_t fifth = s->instances / 5 - s->later_probes;

    s->limit = s->phase == 0 || fifth > MOST_PROBES ? MOST_PROBES : (int)fifth;
    if (s->limit < FEWEST_PROBES)
        return false;
    be_patient(s);
    s->phase++;
    s->lap = s->probes = s->climbs = 0;
    s->reference.count = s->moved = 0;
    s->before = s->current;
    s->why = why;
    s->due = NULL;
    if (s->phase > 1)
        forget_phase(s);
    probe_tell(s, NEWS_PHASE);
    s->field = probe_field(s);
    if (s->field == 0 && s->phase == 1) {
        probe_conclude(s, NATIVE, "no candidate is predicted to be faster");
        return true;
    }
    s->state = STATE_PROBE;
    probe_lap(s);
    return true;
}

static void observe(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    if (!s->listed || s->list[NATIVE].seen < 4)
        return;
    /* Half a percent of the run: below, nothing that is found could be seen. */
    if (s->elapsed_ns * s->instances * 200 < w->extras[EXTRA_WALL])
        return;
    budget_grant(s->native_ns);
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

/* 1, -1: three quarters of a lie above, below b, further than b's own noise: that of the middle
 * ones, as a change may be among what is compared with. 0: they are alike. */
static int side(const int64_t *a, int n, const int64_t *b, int m, int64_t least)
{
    const int64_t middle = noise_median_of(b, m), noise = UNLIKE * noise_spread_of(b, m);
    const int64_t far = noise > least ? noise : least;
    int above = 0, below = 0;

    for (int i = 0; i < n; i++) {
        above += a[i] > middle + far;
        below += a[i] < middle - far;
    }
    return above * 4 >= n * 3 ? 1 : below * 4 >= n * 3 ? -1 : 0;
}

/* What of a window is unlike the reference; NULL: nothing is. Changes that are small beside the
 * operation's own time have nothing to say to an algorithm. */
static const char *change_of(const struct typical *now, const struct typical *before)
{
    const int64_t score = noise_median_of(before->scores, before->count);
    const int64_t worst = noise_median_of(before->worsts, before->count);
    const int64_t matters = score / 10, halved = worst / 2;
    const int was = usual_latest(before), is = usual_latest(now);

    if (side(now->scores, now->count, before->scores, before->count, matters) != 0)
        return "score";
    if (side(now->worsts, now->count, before->worsts, before->count,
             matters > halved ? matters : halved) != 0)
        return "imbalance";
    return was >= 0 && is >= 0 && was != is && worst > matters ? "imbalance" : NULL;
}

/* What the algorithm that runs between probes took in this window. */
static void remember_current(const struct selection *s, struct typical *t)
{
    const struct arrivals *const w = s->arrivals;

    for (int i = 0; i < w->count; i++)
        if (w->results[i].candidate == s->current)
            remember(t, &w->results[i]);
}

/* Whether what was chosen is slower than what it was chosen over. There is a reference of it only
 * after a while, and a change may come before. */
static bool is_wrong(const struct selection *s, const struct typical *now)
{
    const struct candidate *const native = &s->list[NATIVE];

    return s->state == STATE_HOLD && s->current != NATIVE && native->seen > 0 &&
           side(now->scores, now->count, native->samples, noise_samples(native),
                noise_median(native) / 10) > 0;
}

/* After a change that comes too soon to probe again: what was chosen before it may have become
 * slower than the library's own, and then that runs until the phase begins. */
static void retreat(struct selection *s, const struct typical *now)
{
    if (s->state != STATE_HOLD || s->current == NATIVE || s->native_ns == 0 ||
        noise_median_of(now->scores, now->count) <= s->native_ns)
        return;
    probe_run_on(s, NATIVE);
    s->why = "it changed too soon to probe again, and was slower than this";
    probe_tell(s, NEWS_CHOICE);
}

/* Notes why a new phase is due. While probing as well, by the instances between probes: a phase may
 * wait long for its budget, and what it has measured before a change says nothing. */
static void follow(struct selection *s, const struct typical *now)
{
    const bool wrong = is_wrong(s, now);

    if (!wrong && s->reference.count < 8) {
        remember_current(s, &s->reference);
        return;
    }
    const char *const why = wrong ? "score" : change_of(now, &s->reference);

    s->moved = why != NULL ? s->moved + 1 : 0;
    if (s->moved < 2)
        return;
    s->due = why;
    if (s->instances < s->next_phase)
        retreat(s, now);
}

static void go_on(struct selection *s)
{
    struct typical now = {.count = 0};

    remember_current(s, &now);
    if (now.count >= 4) {
        follow(s, &now);
        if (s->due != NULL && s->instances >= s->next_phase && begin_phase(s, s->due))
            return;
    }
    if (s->state == STATE_PROBE)
        probe_step(s);
}

/* Called by all members with the same numbers; decides what the next window runs. */
void decide(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    memset(s->next, NOBODY, sizeof s->next);
    take(s);
    for (int i = 1; i < s->count; i++)
        if (w->predicted[i] > 0)
            s->list[i].predicted_ns = w->predicted[i];
    if (w->extras[EXTRA_FAILED] > 0)
        give_up(s, w->extras[EXTRA_FAILED] > 1 ? "memory is short"
                                               : "an operation on this communicator failed");
    /* Where the clocks' error is as large as what is compared, nothing can be told. */
    const bool tells = s->switches && !s->left && w->extras[EXTRA_CLOCK] * 10 <= noise_usual(s);

    if (tells && s->state == STATE_OBSERVE)
        observe(s);
    else if (tells)
        go_on(s);
    pace(s);
    if (tells && s->state == STATE_PROBE && !s->left)
        probe_plan(s);
}
