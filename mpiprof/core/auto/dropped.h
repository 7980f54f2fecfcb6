/* Reductions that outlive their communicator (orphaned_reductions.c). */
#pragma once
#include <stdbool.h>

#include "auto/arrival.h"
#include "base/native.h"

void dropped_add(struct arrivals **all, int count, MPI_Comm comm);
void dropped_release(void);
bool dropped_any(void);
