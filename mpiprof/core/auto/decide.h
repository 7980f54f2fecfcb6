/* Observe, probe, hold: decide.c. */
#pragma once
#include "auto/selection.h"

void decide(struct selection *s);
