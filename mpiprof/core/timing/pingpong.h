/* Measurement of message times between two ranks (pingpong.c). */
#pragma once
#include <stdbool.h>

#include "base/text.h"
#include "timing/alpha_beta_fit.h"
#include "timing/repetitions.h"

struct pingpong {
    int count, sizes[MOST_SIZES];
    struct rounds one_way[MOST_SIZES], both_ways[MOST_SIZES];
};

void pingpong_measure(struct pingpong *p, int rank, int leader, int peer, bool full);
void pingpong_add(struct text *out, struct pingpong *p);
