/* The problem of a schedule, from the arguments of a call (problem.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "executor/execution.h"

void problem_start(void);
bool problem_is_switched(const struct call *c);
bool problem_fill(struct execution *e);
bool problem_is_known(const struct execution *e);
int64_t problem_bytes(const struct execution *e);
int64_t *problem_counts(int which, int members);
void problem_forget(void);
int64_t problem_sum(const struct problem *p);
int64_t problem_most(const struct problem *p);
