/* Totals of samples before each call site (presite_samples.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "callsite/site.h"

extern bool presite_sample_asked; /* read on the hot path */
void presite_sample_start(void);
void presite_sample_entered(const struct site *site);
void presite_sample_left(void);
void presite_sample_end(void);
