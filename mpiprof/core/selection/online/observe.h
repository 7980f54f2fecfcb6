/* Evaluation of a reduced window (observe.c). */
#pragma once
#include <stdint.h>

#include "selection/online/selection.h"

void observe_loss(struct selection *s, int64_t ns);
void observe_window(struct selection *s);
