/* Checks that the library will accept a call's arguments (argument_check.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arguments.h"
#include "executor/self_message.h"
#include "record/call.h"

void argument_check_start(void);
void argument_check_end(void);
bool argument_check_asks(void);
bool argument_check_arguments(const struct call *c, const struct arguments *a);
int argument_check_pass_own(int operation, const struct self_message_sides *own);
