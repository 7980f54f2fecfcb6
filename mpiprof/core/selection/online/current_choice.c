/* Current choice of a key. Only this file changes it. Each change adds an event, which key_log.c
 * reports. */
#include "selection/online/current_choice.h"

#include "selection/online/candidates.h"

static void event_add(struct current_choice *h, enum news what)
{
    const int most = sizeof h->events / sizeof *h->events;

    if (h->event_count < most)
        h->events[h->event_count++] = (struct event){what, h->current, h->state, h->why};
}

void current_choice_start(struct current_choice *h)
{
    *h = (struct current_choice){.state = STATE_OBSERVE, .current = NATIVE};
}

void current_choice_run_on(struct current_choice *h, int which)
{
    h->current = which;
}

void current_choice_probe(struct current_choice *h, const char *why)
{
    h->state = STATE_PROBE;
    h->why = why;
    event_add(h, NEWS_PHASE);
}

void current_choice_choose(struct current_choice *h, int which, const char *why)
{
    h->state = STATE_HOLD;
    h->current = which;
    h->why = why;
    event_add(h, NEWS_CHOICE);
}

/* End the probing; the trials are reported first. */
void current_choice_conclude(struct current_choice *h, int which, const char *why)
{
    event_add(h, NEWS_TRIALS);
    current_choice_choose(h, which, why);
}

void current_choice_abandon(struct current_choice *h)
{
    h->abandoned = true;
    h->current = NATIVE;
}

bool current_choice_has(const struct current_choice *h, enum news what)
{
    for (int i = 0; i < h->event_count; i++)
        if (h->events[i].what == what)
            return true;
    return false;
}

/* Clear the events, which the caller has reported. */
void current_choice_clear_events(struct current_choice *h)
{
    h->event_count = 0;
}
