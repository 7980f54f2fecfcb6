/* Time budget for probing, and the start of a key's first window (budget.c). */
#pragma once
#include <stdint.h>

#include "executor/execution.h"
#include "schedule/schedule.h"

enum { PRIVATE_TREES = 8 }; /* small reductions and gathers needed to create a communicator */

/* Return the time in ns of one small reduction or gather, from the link parameters that MPI_Init
 * measured. */
static inline double tree_ns(const struct problem *p)
{
    return p->alpha * log2_ceiling(p->size + p->remote_size);
}

/* probing may lose 1/50 of the time in collectives, and 1/50 of each key's time */
enum { LOSS_SHARE = 50 };
void budget_start(void);
void budget_add_time(int64_t ns);
int64_t budget_left(void);
void budget_add_loss(int64_t ns);
void budget_grant(int64_t ns);
int budget_gap(const struct communicator *k, const struct problem *p, double each_ns);
double budget_least_time(const struct execution *e);
