/* Execution of calls on selected algorithms (select.c). */
#pragma once
#include <stdbool.h>

#include "base/arguments.h"
#include "record/call.h"

void select_start(void);
void select_end(void);
bool select_run(struct call *c, const struct arguments *a, int *error);

/* Hooks of the recording (hooks.h). */
void select_ended(struct call *c, bool observed);
void select_inherited(struct communicator *child, const struct communicator *parent);
