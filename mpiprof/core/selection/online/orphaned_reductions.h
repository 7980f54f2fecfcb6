/* Reductions that outlive their communicator (orphaned_reductions.c). */
#pragma once
#include <stdbool.h>

#include "base/symbol_lookup.h"
#include "selection/online/arrival.h"

void orphaned_reduction_add(struct arrivals **all, int count, MPI_Comm comm);
void orphaned_reduction_release(void);
bool orphaned_reduction_any(void);
