/* Length of a key's windows (window_length.c). */
#pragma once
#include <stdbool.h>

#include "auto/selection.h"

bool pace_runs_ahead(const struct arrivals *w);
void pace_window(struct selection *s);
