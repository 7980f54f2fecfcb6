/* What noise allows to say: noise.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "auto/selection.h"

int64_t noise_median_of(const int64_t *values, int count);
int noise_samples(const struct candidate *c);
int64_t noise_median(const struct candidate *c);
int64_t noise_known(const struct candidate *c);
int64_t noise_spread_of(const int64_t *values, int count);
int64_t noise_usual(const struct selection *s);
int64_t noise_spread(const struct candidate *c);
bool noise_better(const struct candidate *a, const struct candidate *b, double z, int percent);
