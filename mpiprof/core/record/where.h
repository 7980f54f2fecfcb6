/* Totals of samples before each call site (presite_samples.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "record/site.h"

extern bool where_asked; /* read on the hot path */
void where_start(void);
void where_entered(const struct site *site);
void where_left(void);
void where_end(void);
