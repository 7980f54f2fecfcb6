#pragma once
#include "schedule/schedule.h"

/* Return the block size of the pipelined ring with its ranks in `order`: the given size, or the
 * best one. Returns 0 if memory is insufficient. */
int64_t ring_block(const struct problem *p, const int64_t *order);
