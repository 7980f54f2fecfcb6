/* Sums and maxima over all ranks in one reduction (sum_max_reduce.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

/* In `all`: the result over all members, or for a scan over the members up to this one. */
struct sum_max {
    int64_t sum, most;
};
bool sum_max_reduce_open(void);
void sum_max_reduce_close(void);
void sum_max_reduce_start(const struct sum_max *mine, struct sum_max *all, int count, MPI_Comm comm,
                          MPI_Request *request);
void sum_max_reduce_start_scan(const struct sum_max *mine, struct sum_max *all, int count,
                               MPI_Comm comm, MPI_Request *request);
