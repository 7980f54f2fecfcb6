/* Statistics of repeated time measurements (repetitions.c). */
#pragma once
#include <stdbool.h>

enum { MOST_ROUNDS = 64 };

/* The repetitions of one message size in order of time. `ns[1]` contains the clean ones, in which
 * the leader did not lose its core, and `ns[0]` the others. */
struct rounds {
    int count[2];
    double ns[2][MOST_ROUNDS];
};

void repetition_keep(struct rounds *r, double ns, bool clean);
bool repetition_enough(const struct rounds *r);
double repetition_time(const struct rounds *r);
double repetition_spread(const struct rounds *r);
