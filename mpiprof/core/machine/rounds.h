/* What the rounds of a measurement say: rounds.c. */
#pragma once
#include <stdbool.h>

enum { MOST_ROUNDS = 64 };

/* The rounds of one size, in the order of time: `ns[1]` of clean ones, in which the leader kept its
 * core, `ns[0]` of the others. */
struct rounds {
    int count[2];
    double ns[2][MOST_ROUNDS];
};

void rounds_keep(struct rounds *r, double ns, bool clean);
bool rounds_enough(const struct rounds *r);
double rounds_time(const struct rounds *r);
double rounds_spread(const struct rounds *r);
