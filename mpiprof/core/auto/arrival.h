/* Windows of instances, and their statistics over all ranks: arrival.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "auto/pairs.h"
#include "base/native.h"
#include "base/operation.h"

struct signatures;
enum { LONGEST_WINDOW = 256, MOST_LIST = 24 };

/* What travels with the statistics, as the maximum over the members. */
enum extra {
    EXTRA_FAILED,  /* 1: an operation on this communicator has failed; 2: memory is short */
    EXTRA_BUDGET,  /* minus what probing may still lose */
    EXTRA_COST,    /* of the last window's reductions */
    EXTRA_WAITED,  /* of that, waiting for other members */
    EXTRA_CLOCK,   /* the bound on the clocks' error */
    EXTRA_STALE,   /* it has grown since the clocks were compared */
    EXTRA_WALL,    /* since the key's first instances */
    EXTRA_PRIVATE, /* minus what making the private communicator took: some waited in it */
    EXTRA_MESSAGE, /* minus what a message of a small reduction takes */
    EXTRAS
};

struct sample {             /* one instance, over all members; ns */
    int64_t first, last;    /* arrivals, on the first node's clock */
    int64_t average, worst; /* imbalance */
    int64_t elapsed;        /* mean over the members */
    int64_t after; /* the mean exit minus the last arrival; < 0: most did not wait for it */
    int64_t score; /* mean exit minus the earliest that the operation allows */
    int64_t wait;  /* sum over the members */
    int latest;    /* the member that came last */
    int candidate;
    int planned; /* the candidate that was to be probed, or NOBODY */
};

struct moment { /* one instance, on this rank */
    int64_t arrival, exit;
    struct signatures *signatures;
    int candidate;
    int planned; /* the candidate that was to be probed, or NOBODY */
};

struct membership {      /* of this member */
    int members, member; /* of the private communicator */
    bool root;           /* this member is */
    bool second;         /* of an inter-communicator's groups */
};

struct arrivals {
    enum semantics semantics;
    struct membership own;
    int length;           /* of the window that is being filled */
    int next_length, gap; /* of the one after it, and the instances before that */
    int position;         /* < 0: in the gap */
    int room;
    struct moment *now, *before;  /* what is being filled, what is being reduced */
    int count;                    /* of `before` */
    struct sample *results;       /* of `before`, when its reductions are done */
    struct pair *mine, *all;      /* what is reduced */
    struct pair *scanned;         /* SCANS: `mine` over the members up to this one; else NULL */
    int64_t extras[EXTRAS];       /* mine, then that of all */
    int64_t predicted[MOST_LIST]; /* of each candidate: mine, then of all (candidates.c) */
    bool late;                    /* the last one's time counts, who may be any: so the mean does */
    MPI_Request requests[2];      /* of a reduction and a scan */
    int stage, since, cycle; /* the reduction under way, instances since the first, and until due */
    int64_t cost_ns, waited_ns;
};

struct arrivals *arrivals_make(enum semantics semantics, const struct membership *own, int length);
void arrivals_free(struct arrivals *w);
void arrivals_note(struct arrivals *w, const struct moment *m);
bool arrivals_full(const struct arrivals *w);
bool arrivals_step(struct arrivals *w, MPI_Comm comm);
void arrivals_next(struct arrivals *w, int length, int gap);
bool arrivals_extend(struct arrivals *w);
void arrivals_begin(struct arrivals *w, MPI_Comm comm);
bool arrivals_pass(struct arrivals *const *all, const MPI_Comm *comms, int count, int64_t deadline);
bool arrivals_are_done(struct arrivals *w);
