/* How long messages take here: machine.c. */
#pragma once
#include <stdbool.h>

#include "base/text.h"

struct link { /* ns, ns a byte, bytes: t(m) = alpha + beta min(m, buffer) + pace max(m - buffer, 0)
               */
    double alpha, beta, pace, buffer;
};
extern struct link machine_link;
double machine_passing(const struct link *l, double bytes);
void machine_measure(struct text *out, bool full);
bool machine_reduces(void);
