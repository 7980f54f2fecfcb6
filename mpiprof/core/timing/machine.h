/* Message times on this machine (machine.c). */
#pragma once
#include <stdbool.h>

#include "base/text.h"
#include "timing/alpha_beta_fit.h"

extern struct link machine_link;
double machine_passing(const struct link *l, double bytes);
void machine_measure(struct text *out, bool full);
bool machine_reduces(void);
