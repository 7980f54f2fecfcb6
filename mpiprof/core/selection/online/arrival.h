/* Windows of instances and their statistics over all ranks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/operation.h"
#include "base/symbol_lookup.h"

/* ---- sums and maxima over all ranks in one reduction (sum_max_reduce.c) */

/* In `all`: the result over all members, or for a scan over the members up to this one. */
struct sum_max {
    int64_t sum, most;
};
bool sum_max_reduce_open(void);
void sum_max_reduce_close(void);
void sum_max_reduce_start(const struct sum_max *mine, struct sum_max *all, int count, bool scans,
                          MPI_Comm comm, MPI_Request *request);

/* ---- windows of instances (arrival.c) */

struct shape_group;
enum { LONGEST_WINDOW = 256, MOST_LIST = 24 };

/* Values that are reduced with the statistics, as the maximum over the members. */
enum extra {
    EXTRA_FAILED, /* 1 after a failed operation on this communicator, 2 if memory is short */
    EXTRA_BUDGET, /* minus the remaining probing budget in ns */
    EXTRA_COST,   /* ns spent in the last window's reductions */
    EXTRA_WAITED, /* the part of EXTRA_COST spent waiting for other members */
    EXTRA_CLOCK,  /* bound on the clock error in ns */
    EXTRA_STALE,  /* 1 if the clock error has grown since the last synchronisation */
    EXTRA_WALL,   /* ns since the key's state was created */
    /* minus the creation time of the private communicator: the maximum excludes waits */
    EXTRA_PRIVATE,
    EXTRA_MESSAGE, /* minus the message time of a small reduction in ns */
    EXTRAS
};

struct sample {             /* one instance over all members; all times in ns */
    int64_t first, last;    /* arrivals on the first node's clock */
    int64_t average, worst; /* average-case and worst-case imbalance */
    int64_t elapsed;        /* mean over the members */
    /* mean exit minus last arrival; negative if most members did not wait for the last one */
    int64_t after;
    int64_t score; /* mean exit minus the earliest possible exit of each member */
    int64_t wait;  /* sum over the members */
    int latest;    /* member that arrived last */
    int candidate;
    int planned; /* candidate planned for this instance, or NOBODY */
};

struct moment { /* one instance on this rank */
    int64_t arrival, exit;
    struct shape_group *shape_group;
    int candidate;
    int planned; /* candidate planned for this instance, or NOBODY */
};

struct membership {      /* this process in its communicator */
    int members, member; /* number and rank in the private communicator */
    bool root;
    bool second; /* in the second group of an inter-communicator */
};

struct arrivals {
    enum wait_rule wait_rule;
    struct membership member;
    int length; /* instances in the window that is being recorded */
    /* length of the next window, and of the gap before it */
    int next_length, gap;
    int position; /* index in the window; negative in the gap */
    int room;
    struct moment *current, *finished; /* window being recorded, window being reduced */
    int count;                         /* instances in `finished` */
    struct sample *results;            /* statistics of `finished`, valid after its reductions */
    struct sum_max *input, *output;    /* reduction input and output */
    struct sum_max *scanned; /* prefix reduction of `input` for scans; NULL for other operations */
    int64_t extras[EXTRAS];  /* this member's values, then the maxima over all members */
    /* per candidate: this member's ns, then the agreed value */
    int64_t predicted[MOST_LIST];
    /* predictions assume a late rank, which may be any: the mean counts, not the maximum */
    bool late;
    MPI_Request requests[2]; /* one reduction and one scan */
    /* active reduction, instances since the first one, instances per window with gap */
    int stage, since, cycle;
    int64_t cost_ns, waited_ns;
};

struct arrivals *arrivals_make(enum wait_rule rule, const struct membership *own, int length);
void arrivals_free(struct arrivals *w);
void arrivals_note(struct arrivals *w, const struct moment *m);
bool arrivals_step(struct arrivals *w, MPI_Comm comm);
void arrivals_next(struct arrivals *w, int length, int gap);
bool arrivals_extend(struct arrivals *w);
void arrivals_begin(struct arrivals *w, MPI_Comm comm);
bool arrivals_advance(struct arrivals *w, MPI_Comm comm);
bool arrivals_are_done(struct arrivals *w);
