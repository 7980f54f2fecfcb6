/* The field of a phase: what its candidates are thought to take, and which may still be the best.
 *
 *      estimate   measured: the median of its scores
 *                 like one that was measured (one of the library's own, by its name): what that takes
 *                 else:     what the model predicts, times how far off the model was on those that
 *                           were measured
 *      doubt      measured n times: 2 median distances of a score from its median / sqrt(n)
 *                 else:     a factor of 2
 *      open       the estimate, less its doubt, is no more than what the best one takes at most
 *
 * Of an algorithm's block sizes one is in the field; its neighbours join if it takes no more than a
 * quarter longer than the best. One of the library's own waits for ours that it is like.
 */
#include "auto/field.h"

#include "auto/candidates.h"
#include "auto/robust.h"
#include "auto/selection.h"
#include "schedule/schedule.h"

enum {
    GUESS = 2, /* what was not measured may be off by so much */
    SLOPE = 4  /* and another block size may be better by a part of that */
};

/* ---- estimates */

/* For one of the library's own: ours that it is like, in the form that this phase has found to take
 * least; 0: none was measured. */
static int like_of(const struct selection *s, int i)
{
    int found = 0;

    for (int j = 1; s->list[i].like != NULL && j < s->count; j++) {
        const struct candidate *const c = &s->list[j];

        if (c->variant.algorithm == s->list[i].like && c->seen > 0 && c->predicted_ns > 0 &&
            (found == 0 || robust_median(c) < robust_median(&s->list[found])))
            found = j;
    }
    return found;
}

static double model_of(const struct selection *s, int i)
{
    const double predicted = (double)s->list[i].predicted_ns;
    const struct candidate *const like = &s->list[like_of(s, i)];

    if (like == s->list)
        return s->model.factor * predicted;
    return (double)robust_median(like) * predicted / (double)like->predicted_ns;
}

/* What is disturbed takes longer: of a single run that took more than twice what was expected
 * nothing is concluded. */
static bool is_doubtful(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];

    return c->seen == 1 && c->predicted_ns > 0 && (double)c->samples[0] > GUESS * model_of(s, i);
}

int64_t field_estimate(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];
    const int64_t model = (int64_t)model_of(s, i);

    if (c->seen > 0 && !is_doubtful(s, i))
        return robust_median(c);
    /* What another phase has measured may no longer hold, and nor may the model. */
    if (c->last_ns > 0 && (model == 0 || c->last_ns < model))
        return c->last_ns;
    return model;
}

/* ---- who may be the best */

/* Of the one with most scores: those of a few say little of their spread. */
static double noise_of(const struct selection *s)
{
    const struct candidate *most = &s->list[NATIVE];

    for (int i = 1; i < s->count; i++)
        most = robust_samples(&s->list[i]) > robust_samples(most) ? &s->list[i] : most;
    const int64_t usual = robust_median(most);

    return usual > 0 ? 2.0 * (double)robust_spread(most) / (double)usual : 0;
}

static double doubt_of(const struct selection *s, int i)
{
    static const double root[] = {0, 1, 1.41, 1.73, 2}; /* 4 and more */
    const int n = robust_samples(&s->list[i]);

    return n == 0 ? GUESS : 1 + s->model.noise / root[n < 4 ? n : 4];
}

static double least_of(const struct selection *s)
{
    double least = (double)INT64_MAX;

    for (int i = 0; i < s->count; i++) {
        const double most = (double)robust_median(&s->list[i]) * doubt_of(s, i);

        if (s->list[i].seen > 0 && most < least)
            least = most;
    }
    return least;
}

/* After each window: how far off the model is, in the mean over the candidates that this phase has
 * probed, and what was known before. What ran when it began tells nothing of the others, as it may
 * be what has changed. */
void field_correct(struct selection *s)
{
    double ratios = s->model.prior;

    s->model.measured = 0;
    for (int i = 1; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];

        if (c->got == 0 || c->predicted_ns == 0 || c->like != NULL || i == s->phases.before ||
            is_doubtful(s, i))
            continue;
        ratios += (double)robust_median(c) / (double)c->predicted_ns;
        s->model.measured++;
    }
    s->model.factor = ratios / (s->model.measured + 1);
    s->model.noise = noise_of(s);
    s->model.least = least_of(s);
}

bool field_is_open(const struct selection *s, int i)
{
    return is_doubtful(s, i) || (double)field_estimate(s, i) / doubt_of(s, i) <= s->model.least;
}

/* One of the library's own waits for ours that it is like, unless it is known to be better. */
bool field_waits(const struct selection *s, int i)
{
    const struct candidate *const c = &s->list[i];

    if (c->like == NULL || c->seen > 0 || like_of(s, i) > 0)
        return false;
    for (int j = 1; j < s->count; j++)
        if (s->list[j].variant.algorithm == c->like && !s->list[j].out &&
            s->list[j].predicted_ns <= c->predicted_ns)
            return true;
    return false;
}

/* ---- who is in it */

/* Algorithms in which one rank joins last: with who comes last in this phase. */
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

/* Whether another variant, which differs in block size alone, stands for this one. */
static bool is_stood_for(const struct selection *s, int i)
{
    const struct variant *const v = &s->list[i].variant;
    const int64_t own = field_estimate(s, i);

    for (int j = 1; j < s->count; j++) {
        const struct variant *const w = &s->list[j].variant;
        const bool alike = w->algorithm == v->algorithm && w->own == v->own &&
                           w->order == v->order && w->equal_blocks == v->equal_blocks &&
                           w->late == v->late;
        const int64_t other = field_estimate(s, j);

        if (j != i && alike && (other < own || (other == own && j < i)))
            return true;
    }
    return false;
}

/* At the begin of a phase; returns how many candidates may be tried. */
int field_begin(struct selection *s)
{
    int open = 0;

    if (s->model.factor == 0)
        s->model.factor = 1;
    s->model.prior = s->model.factor;
    field_correct(s);
    list_late(s);
    s->list[NATIVE].out = false;
    for (int i = 1; i < s->count; i++) {
        struct candidate *const c = &s->list[i];

        c->out =
            i != s->hold.current && (c->refused || !is_for_this_phase(s, i) || is_stood_for(s, i));
        open += i != s->hold.current && !c->out && field_is_open(s, i);
    }
    return open;
}

/* The other block size, if there is one that this phase has not measured, joins the field. */
static bool join(struct selection *s, int which, int64_t block_size)
{
    if (block_size < LEAST_BLOCK || block_size >= s->problem.bytes)
        return false;
    struct variant wanted = s->list[which].variant;

    wanted.block_size = block_size;
    const int found = candidate_changed(s->list, &s->count, which, &wanted);

    if (found == 0 || found == s->hold.current || s->list[found].seen > 0 ||
        s->list[found].asked > 0)
        return false;
    s->list[found].out = false;
    /* Until it is measured: as much better as it may be. */
    s->list[found].last_ns = robust_median(&s->list[which]) * SLOPE / (SLOPE + 1);
    return true;
}

/* The measured block size that took least, unless it is far from being the best; 0: none. */
static int best_block(const struct selection *s, int best)
{
    const int64_t near = robust_median(&s->list[best]) * (SLOPE + 1) / SLOPE;
    int found = 0;

    for (int i = 1; i < s->count; i++) {
        const struct candidate *const c = &s->list[i];
        const int64_t takes = robust_median(c);

        if (c->variant.block_size > 0 && c->seen > 0 && takes < near &&
            (found == 0 || takes < robust_median(&s->list[found])))
            found = i;
    }
    return found;
}

/* The neighbours of the best block size join. False: there are none. */
bool field_climb(struct selection *s, int best)
{
    const int from = best_block(s, best);

    if (from == 0)
        return false;
    const int64_t block_size = s->list[from].variant.block_size;
    const bool half = join(s, from, block_size / 2), twice = join(s, from, block_size * 2);

    return half || twice;
}
