/* Length of a key's windows (window_length.c). */
#pragma once
#include <stdbool.h>

#include "selection/online/selection.h"

bool window_length_runs_ahead(const struct arrivals *w);
void window_length_window(struct selection *s);
