/* In-situ statistics of call sites in the log (statistics.c). */
#pragma once
#include "selection/online/selection.h"

void statistics_keep(const struct selection *s, const struct communicator *k);
