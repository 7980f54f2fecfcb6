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

struct hold {
    enum state state;
    int current; /* candidate that runs in instances without a probe */
    const char *why;
    bool left;              /* permanently abandoned: recording is too expensive or unsafe */
    struct event events[8]; /* changes since the last hold_told */
    int event_count;
};

void hold_start(struct hold *h);
void hold_run_on(struct hold *h, int which);
void hold_probe(struct hold *h, const char *why);
void hold_choose(struct hold *h, int which, const char *why);
void hold_conclude(struct hold *h, int which, const char *why);
void hold_leave(struct hold *h);
bool hold_has(const struct hold *h, enum news what);
void hold_told(struct hold *h);
