/* Throttling of the process's control group, and pressure on the node (node_pressure.c). */
#pragma once
#include <stdint.h>

#include "tracefile/event.h"

void node_pressure_start(void);
int64_t node_pressure_due(int64_t begin_ns, int64_t end_ns);
void node_pressure_read(struct record *r, int64_t since_ns);
void node_pressure_end(void);
