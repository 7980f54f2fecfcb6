/* What is known of a key, and what it runs on: parts, each written by one file. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "auto/arrival.h"
#include "auto/candidates.h"
#include "auto/hold.h"
#include "schedule/schedule.h"

struct typical { /* instances that what is new is compared with */
    int64_t scores[MOST_SAMPLES], worsts[MOST_SAMPLES];
    int latest[MOST_SAMPLES];
    int count;
};

struct observed {                 /* observe.c: what windows have told */
    int64_t native_ns;            /* the library's own score, as it was last measured */
    int64_t elapsed_ns, worst_ns; /* medians, of the newest window */
    int64_t after_ns;             /* the same, from the last arrival on */
    int64_t saved_ns, lost_ns;    /* by switching, and by probing */
    int64_t private_ns;           /* what making a private communicator takes */
    int64_t latency_ns;           /* of a message while all members send; 0: not known yet */
};

struct pace {            /* pace.c */
    int64_t costs_ns[3]; /* of the newest windows' reductions */
    int costs;
    int strikes; /* windows in a row in which the statistics made ranks wait */
};

struct phases { /* decide.c */
    int number;
    int before;             /* what ran before this phase's probing */
    int64_t patience, next; /* no new phase before that instance */
    struct typical reference;
    int moved;       /* windows in a row that are unlike the reference */
    const char *due; /* why a new phase is, as soon as patience allows it; NULL: none is */
};

struct model {            /* field.c: of what candidates take */
    double factor, prior; /* by which it is off; as it was known when the phase began */
    int measured;         /* candidates that this phase has corrected it by */
    double noise;         /* of one score, as a part of it */
    double least;         /* what the best one takes at most */
};

struct probing {             /* probe.c */
    int late;                /* who comes last in this phase; -1: nobody in particular */
    bool final;              /* between the best one and its rival */
    int limit, probes;       /* of this phase, planned */
    int later_probes, ran;   /* of all phases but the first, planned; of all that have run */
    int stalled;             /* windows in a row that had no budget for probes */
    bool short_of_budget;    /* for some that the newest plan would have had */
    int64_t in_flight_ns[2]; /* what planned probes may lose, beyond what is in the budget */
    uint8_t plan[LONGEST_WINDOW], next[LONGEST_WINDOW]; /* by position: a candidate, or NOBODY */
};

struct told; /* told.h: for people; no decision knows it */

struct selection {
    struct arrivals *arrivals;
    bool switches;          /* the key may be switched; else only watched */
    int64_t instances;      /* that all members have counted */
    int64_t began_ns;       /* when it was made; each member's own: told by EXTRA_WALL */
    struct problem problem; /* of the first instance: alpha, and how many members there are */
    struct candidate list[MOST_LIST];
    int count;
    bool listed; /* candidates are known */
    struct hold hold;
    struct observed observed;
    struct pace pace;
    struct phases phases;
    struct model model;
    struct probing probing;
    struct told *told;
};
