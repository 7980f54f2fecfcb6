/* Which candidates a phase probes: field.c. */
#pragma once
#include "auto/selection.h"

enum { MOST_FIELD = 7 }; /* candidates beside the library's own, in one phase */

int field_choose(struct selection *s);
