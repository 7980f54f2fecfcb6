/* Export of the choices as a plan (plan.c). */
#pragma once
#include <stdbool.h>

#include "base/symbol_lookup.h"
#include "selection/online/selection.h"

void plan_add(const struct selection *s); /* the caller must have locked recorder.lock */
void plan_finish(MPI_Comm comm);
