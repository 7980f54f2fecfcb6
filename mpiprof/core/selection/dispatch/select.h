/* Choice of the algorithm of a call, and its execution. */
#pragma once
#include "executor/execution.h"

/* ---- choice of the algorithm of a call (choice.c) */

bool choice_is_random(const char *text, bool *own);
const struct algorithm *choice_make(struct execution *e, const char **label);

/* ---- execution of calls on selected algorithms (select.c) */

void select_start(void);
void select_end(void);
bool select_run(struct call *c, const struct arguments *a, int *error);
void select_ended(struct call *c, bool observed); /* a hook of the recording (recorder.h) */
