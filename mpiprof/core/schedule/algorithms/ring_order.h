#pragma once
#include "schedule/schedule.h"

/* Fills order[position] with the ranks of a ring, by problem->order. False: no memory. */
bool ring_order(const struct problem *p, int64_t *order);
