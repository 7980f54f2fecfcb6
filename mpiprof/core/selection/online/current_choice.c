/* Current choice of a key. Only this file changes it. Each change adds an event, which key_log.c
 * reports. */
#include "selection/online/selection.h"

static void event_add(struct selection *s, enum news what, const char *why)
{
    struct current_choice *const h = &s->choice;
    const int most = sizeof h->events / sizeof *h->events;

    if (h->event_count < most)
        h->events[h->event_count++] = (struct event){what, h->current, h->state, s->instances, why};
}

void current_choice_start(struct selection *s)
{
    s->choice = (struct current_choice){.state = STATE_OBSERVE, .current = NATIVE};
}

void current_choice_run_on(struct selection *s, int which)
{
    s->choice.current = which;
}

void current_choice_probe(struct selection *s, const char *why)
{
    s->choice.state = STATE_PROBE;
    event_add(s, NEWS_PHASE, why);
}

void current_choice_choose(struct selection *s, int which, const char *why)
{
    s->choice.state = STATE_CHOSEN;
    s->choice.current = which;
    event_add(s, NEWS_CHOICE, why);
}

/* End the probing; the trials are reported first. */
void current_choice_conclude(struct selection *s, int which, const char *why)
{
    event_add(s, NEWS_TRIALS, NULL);
    current_choice_choose(s, which, why);
}

void current_choice_abandon(struct selection *s)
{
    s->choice.abandoned = true;
    s->choice.current = NATIVE;
}

bool current_choice_has(const struct selection *s, enum news what)
{
    for (int i = 0; i < s->choice.event_count; i++)
        if (s->choice.events[i].what == what)
            return true;
    return false;
}

void current_choice_clear_events(struct selection *s)
{
    s->choice.event_count = 0;
}
