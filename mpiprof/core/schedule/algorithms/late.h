/* The rank that is expected to arrive last, and the schedule of the other ranks (late.c). */
#pragma once
#include "schedule/schedule.h"

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
