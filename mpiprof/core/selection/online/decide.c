/* State machine of a key: what its instances run, from the statistics of its windows.
 *
 *   observe --> probe (probe.c) --> chosen
 *      ^  |                |   two consecutive windows differ from the reference
 *      +--+----------------+
 *
 * decide() is a pure function of numbers that are equal on all members. It uses no clock and no
 * call site of this rank. observe.c evaluates a window, window_length.c limits its cost.
 * current_choice.c executes the decision, key_log.c reports it.
 */
#include "selection/online/selection.h"

enum {
    MOST_PROBES = 40,    /* instances in one phase */
    FEWEST_PROBES = 6,   /* a phase with fewer probes is not started */
    FIRST_PATIENCE = 16, /* minimum number of instances from phase to phase */
    UNLIKE = 4 /* threshold in median absolute deviations; two windows beyond it are no accident */
};

/* ---- phases */

static void forget_phase(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;

    for (int i = 0; i < s->count; i++) {
        s->list[i].last_ns = rank_test_known(&s->list[i]);
        s->list[i].seen = 0;
    }
    for (int i = 0; i < w->count; i++) {
        struct candidate *const c = &s->list[w->results[i].candidate];

        c->samples[c->seen++ % MOST_SAMPLES] = w->results[i].score;
    }
}

/* Double the minimum distance of phases after a short one. */
static void be_patient(struct selection *s)
{
    struct phases *const p = &s->phases;
    const bool soon = p->number > 0 && s->instances < p->next + 3 * p->patience;

    p->patience = soon ? 2 * p->patience : FIRST_PATIENCE;
    p->next = s->instances + p->patience;
}

static void end_phase(struct selection *s)
{
    if (s->phases.number > 1 && s->choice.current == s->phases.before)
        s->phases.patience *= 2;
    s->phases.next = s->instances + s->phases.patience;
}

enum { ANY_CANDIDATE = -1 };

/* Add the window's instances that ran a candidate. */
static void instances_add(struct reference_instances *t, const struct arrivals *w, int candidate)
{
    for (int i = 0; i < w->count && t->count < MOST_SAMPLES; i++) {
        const struct sample *const r = &w->results[i];

        if (candidate == ANY_CANDIDATE || r->candidate == candidate) {
            t->scores[t->count] = r->score;
            t->worsts[t->count] = r->worst;
            t->latest[t->count++] = r->latest;
        }
    }
}

/* Return the rank that arrived last in three quarters of the instances, or -1 if there is none. */
static int usual_latest(const struct reference_instances *t)
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

/* Return the rank that consistently arrives last in this window, later than the operation takes, or
 * -1. The operation takes at most the library's score and the time after the last arrival. The
 * score alone may include waits, as in a reduce. */
static int comes_last(const struct selection *s)
{
    const int64_t native = s->observed.native_ns, after = s->observed.after_ns;
    struct reference_instances now = {.count = 0};

    instances_add(&now, s->arrivals, ANY_CANDIDATE);
    return s->observed.worst_ns > (after < native ? after : native) ? usual_latest(&now) : -1;
}

/* Start a phase. Later phases may probe a fifth of the instances. After half of 300 instances this
 * allows a full candidate set and a search over block sizes. The budget bounds the loss. */
static bool begin_phase(struct selection *s, const char *why)
{
    const int64_t fifth = s->instances / 5 - s->probing.later_probes;
    const int limit = s->phases.number == 0 || fifth > MOST_PROBES ? MOST_PROBES : (int)fifth;

    if (limit < FEWEST_PROBES)
        return false;
    be_patient(s);
    s->phases.number++;
    s->phases.reference.count = s->phases.moved = 0;
    s->phases.before = s->choice.current;
    s->phases.due = NULL;
    if (s->phases.number > 1)
        forget_phase(s);
    current_choice_probe(s, why);
    const int open = probe_begin(s, limit, comes_last(s));

    if (open == 0 && s->phases.number == 1) {
        current_choice_conclude(s, NATIVE, "no candidate is predicted to be faster");
        end_phase(s);
    }
    return true;
}

static void observation_end(struct selection *s)
{
    if (!s->listed || s->list[NATIVE].seen < 4)
        return;
    /* Require at least 0.5 % of the time since the key's creation. Below this, no gain would be
     * visible. */
    if (s->observed.elapsed_ns * s->instances * 200 < s->arrivals->extras[EXTRA_WALL])
        return;
    budget_grant(s->observed.native_ns);
    begin_phase(s, "start");
}

/* Return 1 or -1 if three quarters of `a` lie above or below the median of `b` by more than its
 * noise, else 0. The noise is the median deviation, because a change may already be among the
 * values. */
static int shift_direction(const int64_t *a, int n, const int64_t *b, int m, int64_t least)
{
    const int64_t middle = rank_test_median_of(b, m), noise = UNLIKE * rank_test_spread_of(b, m);
    const int64_t far = noise > least ? noise : least;
    int above = 0, below = 0;

    for (int i = 0; i < n; i++) {
        above += a[i] > middle + far;
        below += a[i] < middle - far;
    }
    return above * 4 >= n * 3 ? 1 : below * 4 >= n * 3 ? -1 : 0;
}

/* Return the property in which a window differs from the reference, or NULL. Changes that are small
 * compared with the operation's time do not matter to an algorithm. */
static const char *change_of(const struct reference_instances *now,
                             const struct reference_instances *before)
{
    const int64_t score = rank_test_median_of(before->scores, before->count);
    const int64_t worst = rank_test_median_of(before->worsts, before->count);
    const int64_t matters = score / 10, least = matters > worst / 2 ? matters : worst / 2;
    const int was = usual_latest(before), is = usual_latest(now);

    if (shift_direction(now->scores, now->count, before->scores, before->count, matters) != 0)
        return "score";
    if (shift_direction(now->worsts, now->count, before->worsts, before->count, least) != 0)
        return "imbalance";
    return was >= 0 && is >= 0 && was != is && worst > matters ? "imbalance" : NULL;
}

static bool has_chosen_algorithm(const struct selection *s)
{
    return s->choice.state == STATE_CHOSEN && s->choice.current != NATIVE;
}

/* Return true if the choice is slower than the library's default. A change may come before the
 * reference is complete. */
static bool is_wrong(const struct selection *s, const struct reference_instances *now)
{
    const struct candidate *const native = &s->list[NATIVE];

    return has_chosen_algorithm(s) && native->seen > 0 &&
           shift_direction(now->scores, now->count, native->samples, rank_test_samples(native),
                           rank_test_median(native) / 10) > 0;
}

/* Record why a new phase is due, also during probing. A phase may wait long for its budget, and its
 * measurements from before a change are worthless. */
static void change_track(struct selection *s, const struct reference_instances *now)
{
    const bool wrong = is_wrong(s, now);

    if (!wrong && s->phases.reference.count < 8) {
        instances_add(&s->phases.reference, s->arrivals, s->choice.current);
        return;
    }
    const char *const why = wrong ? "score" : change_of(now, &s->phases.reference);

    s->phases.moved = why != NULL ? s->phases.moved + 1 : 0;
    if (s->phases.moved < 2)
        return;
    s->phases.due = why;
    /* Until the next phase, run the library's default if the choice is slower. */
    if (s->instances < s->phases.next && has_chosen_algorithm(s) && s->observed.native_ns > 0 &&
        rank_test_median_of(now->scores, now->count) > s->observed.native_ns)
        current_choice_choose(s, NATIVE,
                              "the pattern changed too soon to probe again, and the algorithm was "
                              "slower than this one");
}

static void phase_continue(struct selection *s)
{
    struct reference_instances now = {.count = 0};

    instances_add(&now, s->arrivals, s->choice.current);
    if (now.count >= 4) {
        change_track(s, &now);
        if (s->phases.due != NULL && s->instances >= s->phases.next &&
            begin_phase(s, s->phases.due))
            return;
    }
    if (s->choice.state == STATE_PROBE && probe_step(s))
        end_phase(s);
}

void decide_from(struct selection *s, int which, const char *why)
{
    s->phases.number = 1;
    current_choice_choose(s, which, why);
}

/* Decide what the next window runs. All members call it with the same numbers. */
void decide(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;
    const int ran = s->choice.current;

    observe_window(s);
    if (w->extras[EXTRA_FAILED] > 0) {
        current_choice_abandon(s);
        current_choice_choose(s, NATIVE,
                              w->extras[EXTRA_FAILED] > 1
                                  ? "memory is short"
                                  : "an operation on this communicator failed");
    }
    /* A decision requires a clock error well below the times that are compared. */
    const bool tells = s->switches && !s->choice.abandoned &&
                       w->extras[EXTRA_CLOCK] * 10 <= rank_test_default_time(s);

    if (tells && s->choice.state == STATE_OBSERVE)
        observation_end(s);
    else if (tells)
        phase_continue(s);
    if (s->choice.current != ran) /* the new choice has no reference yet */
        s->phases.reference.count = s->phases.moved = 0;
    window_length_set(s);
    probe_plan(s, tells && s->choice.state == STATE_PROBE && !s->choice.abandoned);
}
