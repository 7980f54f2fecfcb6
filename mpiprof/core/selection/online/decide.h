/* State machine of a key: observe, probe, hold (decide.c). */
#pragma once
#include "selection/online/selection.h"

void decide(struct selection *s);
void decide_from(struct selection *s, int which, const char *why);
