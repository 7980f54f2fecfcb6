/* Execution of a schedule's rounds with point-to-point calls (execute.c). */
#pragma once
#include "executor/execution.h"

void execute(struct execution *e);
void execute_counts(struct execution *e, int64_t *counts, int64_t *room);
void execute_release(void);
