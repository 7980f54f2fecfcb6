/* Messages about the selection of algorithms at the end of a run (diagnostics.c). */
#pragma once
#include "callsite/site.h"

struct sharing;
struct sharing *diagnostics_share(struct sharing *s, const char *operation,
                                  const struct site *first, int first_override,
                                  const struct site *other, int override);
void diagnostics_end(void);
