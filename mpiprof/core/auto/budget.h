/* What probing may lose, and when a key's first window begins: budget.c. */
#pragma once
#include <stdint.h>

#include "run/execution.h"
#include "schedule/schedule.h"

enum { PRIVATE_TREES = 8 }; /* reductions and gathers of few bytes that make a communicator */

/* How long one of them takes, by the link that MPI_Init has measured. */
static inline double tree_ns(const struct problem *p)
{
    return p->alpha * log2_ceiling(p->size + p->remote_size);
}

enum { LOSS_SHARE = 50 }; /* a fiftieth of the time in collectives; of a key, of its own */
void budget_open(void);
void budget_spend(int64_t ns);
int64_t budget_left(void);
void budget_lose(int64_t ns);
void budget_grant(int64_t ns);
int budget_gap(const struct communicator *k, const struct problem *p, double each_ns);
double budget_least_time(const struct execution *e);
