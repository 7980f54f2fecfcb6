/* Scheduling of probes, and the test that decides the winner (probe.c). */
#pragma once
#include <stdbool.h>

#include "selection/online/selection.h"

void probe_start(struct selection *s);
int probe_begin(struct selection *s, int limit, int late);
bool probe_step(struct selection *s);
void probe_plan(struct selection *s, bool may);
int probe_at(struct selection *s, int position);
void probe_refuse(struct selection *s, int i);
void probe_take(struct selection *s, int first);
bool probe_waits(const struct selection *s);
