#pragma once
#include "schedule/schedule.h"

/* Fill order[position] with the ranks of a ring according to problem->order. Returns false if there
 * is no memory. */
bool ring_order(const struct problem *p, int64_t *order);
