/* Rings, circulant graphs and the late rank, for several algorithms. */
#pragma once
#include <stdint.h>

#include "schedule/schedule.h"

/* Fill order[position] with the ranks of a ring according to problem->order. Returns false if there
 * is no memory. */
bool ring_order(const struct problem *p, int64_t *order);

/* Return the block size of the pipelined ring with its ranks in `order`: the given size, or the
 * best one. Returns 0 if memory is insufficient. */
int64_t ring_block(const struct problem *p, const int64_t *order);

/* ---- broadcast of blocks from process 0 over a circulant graph (bcast_circulant.c) */

enum { CIRCULANT_MOST = 32 }; /* for up to 2^31 processes */

struct circulant { /* schedule of process v, numbered from the root */
    int64_t v;
    int q; /* ceil(lg p) */
    /* idle: rounds that are skipped at the start, so that the last phase is complete */
    int64_t blocks, idle;
    int64_t skip[CIRCULANT_MOST + 1], gets[CIRCULANT_MOST], gives[CIRCULANT_MOST];
};
struct circulant_round {
    int64_t from, to;
    int64_t gets, gives; /* block numbers; -1 for none */
};

void circulant_fill(struct circulant *s, int64_t processes, int64_t v, int64_t blocks);
int64_t circulant_length(const struct circulant *s); /* in rounds */
struct circulant_round circulant_at(const struct circulant *s, int64_t r);

/* ---- the rank that is expected to arrive last, and the schedule of the other ranks (late.c) */

struct others { /* the problem without the late rank, from the view of one other rank */
    struct problem problem;
    struct context context;
};

int late_rank(const struct context *c);
bool late_here(const struct context *c);
int late_next(const struct context *c);
bool late_applies(const struct problem *p);

void late_others(struct others *o, const struct context *c, int root);
int64_t late_others_rounds(const struct context *c, const struct algorithm *a, int root);
void late_others_round(const struct context *c, const struct algorithm *a, int root, int64_t r,
                       struct round *out);
