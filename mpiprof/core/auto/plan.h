/* What was chosen, as a plan: plan.c. */
#pragma once
#include <stdbool.h>

#include "auto/selection.h"
#include "base/native.h"

void plan_start(void);
bool plan_is_wanted(void);
void plan_add(const struct selection *s); /* under recorder.lock */
void plan_finish(MPI_Comm comm);
