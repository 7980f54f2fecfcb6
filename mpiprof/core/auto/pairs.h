/* Sums and maxima over all ranks in one reduction (sum_max_reduce.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"

/* In `all`: the result over all members, or for a scan over the members up to this one. */
struct pair {
    int64_t sum, most;
};
bool pairs_open(void);
void pairs_close(void);
void pairs_reduce(const struct pair *mine, struct pair *all, int count, MPI_Comm comm,
                  MPI_Request *request);
void pairs_scan(const struct pair *mine, struct pair *all, int count, MPI_Comm comm,
                MPI_Request *request);
