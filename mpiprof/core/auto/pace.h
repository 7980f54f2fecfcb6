/* How often a key is looked at: pace.c. */
#pragma once
#include "auto/selection.h"

void pace_window(struct selection *s);
