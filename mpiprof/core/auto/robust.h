/* Robust statistics of scores (rank_test.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "auto/selection.h"

int64_t robust_median_of(const int64_t *values, int count);
int robust_samples(const struct candidate *c);
int64_t robust_median(const struct candidate *c);
int64_t robust_known(const struct candidate *c);
int64_t robust_spread_of(const int64_t *values, int count);
int64_t robust_usual(const struct selection *s);
int64_t robust_spread(const struct candidate *c);
bool robust_better(const struct candidate *a, const struct candidate *b, double z, int percent);
