/* Sums and maxima over all ranks, in one reduction: pairs.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/native.h"

struct pair {
    int64_t sum, most;
};
bool pairs_open(void);
void pairs_close(void);
void pairs_reduce(const struct pair *mine, struct pair *all, int count, MPI_Comm comm,
                  MPI_Request *request);
