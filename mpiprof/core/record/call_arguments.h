/* Arguments of a call, at entry and after acceptance (call_arguments.c). */
#pragma once
#include <stddef.h>

#include "base/arguments.h"
#include "record/call_state.h"

void call_arguments_expected(struct call *c, const struct arguments *a);
void call_arguments_failed(struct call *c);
void call_arguments_accepted(struct call *c, const struct arguments *a);

static inline void call_arguments_entered(struct call *c, const struct arguments *a)
{
    if (c->record != NULL)
        call_arguments_expected(c, a);
}
