/* Evaluation of a reduced window: scores by candidate, and medians. */
#include "selection/online/selection.h"

void observe_loss(struct selection *s, int64_t ns)
{
    s->observed.lost_ns += ns;
    budget_add_loss(ns);
}

/* Record the scores, the loss by probing, the estimated gain by selection, and the values on which
 * the members agreed. */
void observe_window(struct selection *s)
{
    const struct arrivals *const w = s->arrivals;
    struct observed *const o = &s->observed;
    const int64_t usual = rank_test_median(&s->list[s->choice.current]);

    for (int i = 0; i < w->count; i++) {
        const struct sample *const r = &w->results[i];
        struct candidate *const c = &s->list[r->candidate];

        c->samples[c->seen++ % MOST_SAMPLES] = r->score;
        c->tried++;
        if (r->planned != NOBODY) {
            s->list[r->planned].measured++;
            if (r->candidate == r->planned && usual > 0 && r->score > usual)
                observe_loss(s, r->score - usual);
        }
        if (r->candidate != NATIVE && o->native_ns > 0)
            o->saved_ns += o->native_ns - r->score;
    }
    o->elapsed_ns = rank_test_median_spaced(&w->results->elapsed, sizeof *w->results, w->count);
    o->worst_ns = rank_test_median_spaced(&w->results->worst, sizeof *w->results, w->count);
    o->after_ns = rank_test_median_spaced(&w->results->after, sizeof *w->results, w->count);
    if (s->list[NATIVE].seen > 0)
        o->native_ns = rank_test_median(&s->list[NATIVE]);
    for (int i = 1; i < s->count; i++)
        if (w->predicted[i] > 0)
            s->list[i].predicted_ns = w->predicted[i];
    o->private_ns = -w->extras[EXTRA_PRIVATE];
    o->latency_ns = -w->extras[EXTRA_MESSAGE];
}
