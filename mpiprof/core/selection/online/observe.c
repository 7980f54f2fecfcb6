/* Evaluation of a reduced window: scores by candidate, and medians. */
#include "selection/online/selection.h"

#include "selection/online/arrival.h"
#include "selection/online/budget.h"
#include "selection/online/candidates.h"

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
    const int64_t usual = rank_test_median(&s->list[s->choice.current]);
    int64_t values[LONGEST_WINDOW] = {0};

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
        if (r->candidate != NATIVE && s->observed.native_ns > 0)
            s->observed.saved_ns += s->observed.native_ns - r->score;
        values[i] = r->elapsed;
    }
    s->observed.elapsed_ns = rank_test_median_of(values, w->count);
    for (int i = 0; i < w->count; i++)
        values[i] = w->results[i].worst;
    s->observed.worst_ns = rank_test_median_of(values, w->count);
    for (int i = 0; i < w->count; i++)
        values[i] = w->results[i].after;
    s->observed.after_ns = rank_test_median_of(values, w->count);
    if (s->list[NATIVE].seen > 0)
        s->observed.native_ns = rank_test_median(&s->list[NATIVE]);
    for (int i = 1; i < s->count; i++)
        if (w->predicted[i] > 0)
            s->list[i].predicted_ns = w->predicted[i];
    s->observed.private_ns = -w->extras[EXTRA_PRIVATE];
    s->observed.latency_ns = -w->extras[EXTRA_MESSAGE];
}
