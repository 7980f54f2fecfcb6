/* Robust statistics of scores (rank_test.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "selection/online/selection.h"

int64_t rank_test_median_of(const int64_t *values, int count);
int rank_test_samples(const struct candidate *c);
int64_t rank_test_median(const struct candidate *c);
int64_t rank_test_known(const struct candidate *c);
int64_t rank_test_spread_of(const int64_t *values, int count);
int64_t rank_test_usual(const struct selection *s);
int64_t rank_test_spread(const struct candidate *c);
bool rank_test_better(const struct candidate *a, const struct candidate *b, double z, int percent);
