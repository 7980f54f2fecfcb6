/* Current choice of a key. Only this file changes it. Each change adds an event, which explain.c
 * reports. */
#include "auto/hold.h"

#include "auto/candidates.h"

static void tell(struct hold *h, enum news what)
{
    const int most = sizeof h->events / sizeof *h->events;

    if (h->event_count < most)
        h->events[h->event_count++] = (struct event){what, h->current, h->state, h->why};
}

void hold_start(struct hold *h)
{
    *h = (struct hold){.state = STATE_OBSERVE, .current = NATIVE};
}

void hold_run_on(struct hold *h, int which)
{
    h->current = which;
}

void hold_probe(struct hold *h, const char *why)
{
    h->state = STATE_PROBE;
    h->why = why;
    tell(h, NEWS_PHASE);
}

void hold_choose(struct hold *h, int which, const char *why)
{
    h->state = STATE_HOLD;
    h->current = which;
    h->why = why;
    tell(h, NEWS_CHOICE);
}

/* End the probing; the trials are reported first. */
void hold_conclude(struct hold *h, int which, const char *why)
{
    tell(h, NEWS_TRIALS);
    hold_choose(h, which, why);
}

void hold_leave(struct hold *h)
{
    h->left = true;
    h->current = NATIVE;
}

bool hold_has(const struct hold *h, enum news what)
{
    for (int i = 0; i < h->event_count; i++)
        if (h->events[i].what == what)
            return true;
    return false;
}

/* Clear the events, which the caller has reported. */
void hold_told(struct hold *h)
{
    h->event_count = 0;
}
