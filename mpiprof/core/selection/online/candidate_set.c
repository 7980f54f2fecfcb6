/* Candidate set of a phase: the estimated time of each candidate, and which candidates may be best.
 *
 *    estimate   measured: the median of its scores
 *               library algorithm with a measured equivalent: the time of the equivalent
 *               otherwise: the model's prediction, times the model's mean error on the
 *                          measured candidates
 *    doubt      measured n times: the factor 1 + noise / sqrt(n); the noise is 2 median deviations
 *                                 of a score, relative to the median
 *               otherwise: a factor of 2
 *    open       the estimate divided by its doubt is at most the upper bound of the best candidate
 *
 * The set contains one block size of each algorithm. The neighbouring sizes join if this one takes
 * at most a quarter longer than the best candidate. A library algorithm waits for its equivalent.
 */
#include "selection/online/selection.h"

enum {
    GUESS = 2, /* possible error factor of a prediction */
    SLOPE = 4  /* another block size may be better by 1/SLOPE */
};

/* ---- estimates */

/* Return the faster one of two measured candidates. `a` may be NULL. */
static const struct candidate *faster_of(const struct candidate *a, const struct candidate *b)
{
    return a == NULL || rank_test_median(b) < rank_test_median(a) ? b : a;
}

/* Return the fastest measured equivalent of a library algorithm in this phase, or NULL. */
static const struct candidate *equivalent_of(const struct selection *s, int i)
{
    const struct candidate *fastest = NULL;

    for (int j = 1; s->list[i].similar != NULL && j < s->count; j++) {
        const struct candidate *const c = &s->list[j];

        if (c->variant.algorithm == s->list[i].similar && c->seen > 0 && c->predicted_ns > 0)
            fastest = faster_of(fastest, c);
    }
    return fastest;
}

static double model_of(const struct selection *s, int i)
{
    const double predicted = (double)s->list[i].predicted_ns;
    const struct candidate *const e = equivalent_of(s, i);

    return e == NULL ? s->model.factor * predicted
                     : (double)rank_test_median(e) * predicted / (double)e->predicted_ns;
}

/* Return true if nothing can be concluded: a single run took more than twice the expected time.
 * Disturbances only make runs longer. */
static bool is_doubtful(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];

    return c->seen == 1 && c->predicted_ns > 0 && (double)c->samples[0] > GUESS * model_of(s, i);
}

int64_t candidate_set_estimate(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];
    const int64_t model = (int64_t)model_of(s, i);

    if (c->seen > 0 && !is_doubtful(s, i))
        return rank_test_median(c);
    /* Both the model and the measurements of an earlier phase may be outdated. */
    if (c->last_ns > 0 && (model == 0 || c->last_ns < model))
        return c->last_ns;
    return model;
}

/* ---- candidates that may be best */

/* Return the relative noise of the candidate with most scores: few scores have a random spread. */
static double noise_of(const struct selection *s)
{
    const struct candidate *most = &s->list[NATIVE];

    for (int i = 1; i < s->count; i++)
        most = rank_test_samples(&s->list[i]) > rank_test_samples(most) ? &s->list[i] : most;
    const int64_t usual = rank_test_median(most);

    return usual > 0 ? 2.0 * (double)rank_test_spread(most) / (double)usual : 0;
}

static double doubt_of(const struct selection *s, int i)
{
    static const double root[] = {0, 1, 1.41, 1.73, 2}; /* 4 and more */
    const int n = rank_test_samples(&s->list[i]);

    return n == 0 ? GUESS : 1 + s->model.noise / root[n < 4 ? n : 4];
}

static double least_of(const struct selection *s)
{
    double least = (double)INT64_MAX;

    for (int i = 0; i < s->count; i++) {
        const double most = (double)rank_test_median(&s->list[i]) * doubt_of(s, i);

        if (s->list[i].seen > 0 && most < least)
            least = most;
    }
    return least;
}

/* Update the model after each window: the mean of the prior factor and the ratios of the candidates
 * that this phase probed. The candidate that ran at the start is excluded, because its time may be
 * the change that began the phase. */
void candidate_set_correct(struct selection *s)
{
    double ratios = s->model.prior;

    s->model.measured = 0;
    for (int i = 1; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->measured == 0 || c->predicted_ns == 0 || c->similar != NULL ||
            i == s->phases.before || is_doubtful(s, i))
            continue;
        ratios += (double)rank_test_median(c) / (double)c->predicted_ns;
        s->model.measured++;
    }
    s->model.factor = ratios / (s->model.measured + 1);
    s->model.noise = noise_of(s);
    s->model.least = least_of(s);
}

/* Return how many times the optimistic time of a candidate exceeds the upper bound of the best
 * candidate. A candidate with 1 or less may be best. */
double candidate_set_excess(const struct selection *s, int i)
{
    if (s->model.least <= 0)
        return 0;
    return (double)candidate_set_estimate(s, i) / doubt_of(s, i) / s->model.least;
}

bool candidate_set_contains(const struct selection *s, int i)
{
    return is_doubtful(s, i) ||
           (double)candidate_set_estimate(s, i) / doubt_of(s, i) <= s->model.least;
}

/* Return true if this library algorithm must wait until its equivalent is probed. It need not wait
 * if it is predicted to be faster. */
bool candidate_set_is_waiting(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];

    if (c->similar == NULL || c->seen > 0 || equivalent_of(s, i) != NULL)
        return false;
    for (int j = 1; j < s->count; j++)
        if (s->list[j].variant.algorithm == c->similar && !s->list[j].excluded &&
            s->list[j].predicted_ns <= c->predicted_ns)
            return true;
    return false;
}

/* ---- members of the set */

/* Add the algorithms in which one rank joins last. */
static void list_late(struct selection *s)
{
    const int listed = s->count;

    for (int i = 1; i < listed && s->probing.late >= 0; i++) {
        struct variant wanted = s->list[i].variant;

        wanted.late = s->probing.late;
        if (wanted.algorithm != NULL && wanted.algorithm->early != NULL)
            candidate_changed(s->list, &s->count, i, &wanted);
    }
}

static bool is_for_this_phase(const struct selection *s, int i)
{
    const struct variant *const v = &s->list[i].variant;

    return v->algorithm == NULL || v->algorithm->early == NULL || v->late == s->probing.late;
}

/* Return true if another variant that differs only in block size represents this one. */
static bool is_stood_for(const struct selection *s, int i)
{
    const struct variant *const v = &s->list[i].variant;
    const int64_t own = candidate_set_estimate(s, i);

    for (int j = 1; j < s->count; j++) {
        const struct variant *const w = &s->list[j].variant;
        const bool alike = w->algorithm == v->algorithm &&
                           w->library_algorithm == v->library_algorithm && w->order == v->order &&
                           w->equal_blocks == v->equal_blocks && w->late == v->late;
        const int64_t other = candidate_set_estimate(s, j);

        if (j != i && alike && (other < own || (other == own && j < i)))
            return true;
    }
    return false;
}

/* Build the candidate set of a phase. Returns the number of candidates that may be tried. */
int candidate_set_begin(struct selection *s)
{
    int open = 0;

    if (s->model.factor == 0)
        s->model.factor = 1;
    s->model.prior = s->model.factor;
    candidate_set_correct(s);
    list_late(s);
    s->list[NATIVE].excluded = false;
    for (int i = 1; i < s->count; i++) {
        struct candidate *const c = &s->list[i];

        c->excluded = i != s->choice.current &&
                      (c->refused || !is_for_this_phase(s, i) || is_stood_for(s, i));
        open += i != s->choice.current && !c->excluded && candidate_set_contains(s, i);
    }
    return open;
}

/* Add another block size. Returns false if it is invalid, or already measured in this phase. */
static bool block_size_add(struct selection *s, int which, int64_t block_size)
{
    if (block_size < LEAST_BLOCK || block_size >= s->problem.bytes)
        return false;
    struct variant wanted = s->list[which].variant;

    wanted.block_size = block_size;
    const int added = candidate_changed(s->list, &s->count, which, &wanted);
    struct candidate *const c = &s->list[added];

    if (added == 0 || added == s->choice.current || c->seen > 0 || c->planned > 0)
        return false;
    c->excluded = false;
    /* optimistic estimate until the size is measured */
    c->last_ns = rank_test_median(&s->list[which]) * SLOPE / (SLOPE + 1);
    return true;
}

/* Add the neighbours of the fastest measured block size that is near the best candidate. Returns
 * false if there are none. */
bool candidate_set_extend_blocks(struct selection *s, int best)
{
    const int64_t near = rank_test_median(&s->list[best]) * (SLOPE + 1) / SLOPE;
    const struct candidate *fastest = NULL;

    for (int i = 1; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->variant.block_size > 0 && c->seen > 0 && rank_test_median(c) < near)
            fastest = faster_of(fastest, c);
    }
    if (fastest == NULL)
        return false;
    const int from = (int)(fastest - s->list);
    const int64_t block_size = fastest->variant.block_size;
    const bool half = block_size_add(s, from, block_size / 2);
    const bool twice = block_size_add(s, from, block_size * 2);

    return half || twice;
}
