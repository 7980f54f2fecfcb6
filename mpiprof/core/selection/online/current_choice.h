/* The candidate that a key currently runs (current_choice.c). */
#pragma once
#include <stdbool.h>

enum state { STATE_NONE, STATE_OBSERVE, STATE_PROBE, STATE_HOLD };
enum news { NEWS_PHASE, NEWS_TRIALS, NEWS_CHOICE };
struct event {
    enum news what;
    int current;
    enum state state;
    const char *why;
};

struct current_choice {
    enum state state;
    int current; /* candidate that runs in instances without a probe */
    const char *why;
    bool abandoned;         /* permanently abandoned: recording is too expensive or unsafe */
    struct event events[8]; /* changes since the last current_choice_clear_events */
    int event_count;
};

void current_choice_start(struct current_choice *h);
void current_choice_run_on(struct current_choice *h, int which);
void current_choice_probe(struct current_choice *h, const char *why);
void current_choice_choose(struct current_choice *h, int which, const char *why);
void current_choice_conclude(struct current_choice *h, int which, const char *why);
void current_choice_abandon(struct current_choice *h);
bool current_choice_has(const struct current_choice *h, enum news what);
void current_choice_clear_events(struct current_choice *h);
