/* Arguments of a call, at entry and after acceptance (call_arguments.c). */
#pragma once
#include <stddef.h>

#include "base/arguments.h"
#include "record/entry.h"

void describe_expected(struct call *c, const struct arguments *a);
void describe_failed(struct call *c);
void describe_accepted(struct call *c, const struct arguments *a);

static inline void describe_entered(struct call *c, const struct arguments *a)
{
    if (c->record != NULL)
        describe_expected(c, a);
}
