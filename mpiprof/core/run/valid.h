/* Checks that the library will accept a call's arguments (argument_check.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "record/call.h"
#include "run/own.h"

void valid_start(void);
void valid_end(void);
bool valid_asks(void);
bool valid_arguments(const struct call *c, const struct arguments *a);
int valid_pass_own(int operation, const struct own_sides *own);
