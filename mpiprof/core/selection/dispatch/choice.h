/* Choice of the algorithm of a call (choice.c). */
#pragma once
#include <stdbool.h>

#include "executor/execution.h"
#include "schedule/schedule.h"

bool choice_is_random(const char *text);
bool choice_is_random_own(void);
const struct algorithm *choice_make(struct execution *e, const char **label);
