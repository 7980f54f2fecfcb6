#pragma once
#include "schedule/schedule.h"

/* The block size of the pipelined ring whose ranks follow each other in `order`: as given, or the
 * best one. 0: no memory. */
int64_t ring_block(const struct problem *p, const int64_t *order);
