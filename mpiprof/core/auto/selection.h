/* What is known of a key, and what it runs on. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "auto/arrival.h"
#include "auto/candidates.h"
#include "base/text.h"
#include "record/comm.h"
#include "record/site.h"
#include "schedule/schedule.h"

enum state { STATE_NONE, STATE_OBSERVE, STATE_PROBE, STATE_HOLD };
struct typical { /* instances that what is new is compared with */
    int64_t scores[MOST_SAMPLES], worsts[MOST_SAMPLES];
    int latest[MOST_SAMPLES];
    int count;
};
/* What decide() has come to: written down by explain.c, for people and for the trace. */
enum news { NEWS_PHASE, NEWS_TRIALS, NEWS_CHOICE };
struct event {
    enum news what;
    int current;
    enum state state;
    const char *why;
};
struct selection {
    struct arrivals *arrivals;
    enum state state;
    bool listed;   /* candidates are known */
    bool switches; /* the key may be switched; else only watched */
    bool left;     /* for good: it is not worth watching, or not safe */
    int current;   /* what runs when nothing is probed */
    int before;    /* what ran before this phase's probing */
    int rival;     /* of the best one, in a duel */
    uint8_t plan[LONGEST_WINDOW], next[LONGEST_WINDOW]; /* by position: a candidate, or NOBODY */
    struct candidate list[MOST_LIST];
    int count;
    int phase, lap, field;        /* candidates beside the library's own, in this phase */
    int climbs;                   /* laps of this phase that were for block sizes */
    int limit, probes;            /* of this phase, planned */
    int later_probes, all_probes; /* of all phases but the first, planned; of all that have run */
    int64_t instances;            /* that all members have counted */
    int64_t patience, next_phase; /* no new phase before that instance */
    struct typical reference;
    int moved;            /* windows in a row that are unlike the reference */
    const char *due;      /* why a new phase is, as soon as patience allows it; NULL: none is */
    int stalled;          /* windows of this lap that had no budget for probes */
    bool short_of_budget; /* for some that the newest plan would have had */
    int strikes;          /* windows in a row in which the statistics made ranks wait */
    int64_t costs_ns[3];  /* of the newest windows' reductions */
    int costs;
    const char *why;
    struct event events[8]; /* since they were last written down */
    int event_count;
    int64_t native_ns, elapsed_ns, worst_ns; /* medians, of the newest window */
    int64_t saved_ns, lost_ns;
    int64_t in_flight_ns[2]; /* what planned probes may lose, beyond what is in the budget */
    int64_t private_ns;      /* what making a private communicator takes */
    int64_t latency_ns;      /* of a message while all members send; 0: not known yet */
    struct problem problem;  /* of the first instance: alpha, and how many members there are */
    /* for people */
    uint64_t key;
    const struct communicator *comm;
    const struct site *sites[4];
    int site_count, root, operation;
    int64_t bytes, message_ns;
    bool known;          /* the bytes, to all members */
    bool written;        /* to selection.jsonl */
    struct text history; /* when it changed and why, in words */
};
