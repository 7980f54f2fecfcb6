/* What a key runs on: hold.c. */
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
    int current; /* what runs when nothing is probed */
    const char *why;
    bool left;              /* for good: it is not worth watching, or not safe */
    struct event events[8]; /* since somebody wrote them down */
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
