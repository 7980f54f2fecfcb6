/* Laps of candidates, and who wins: probe.c. */
#pragma once
#include <stdbool.h>

#include "auto/selection.h"

int probe_field(struct selection *s);
void probe_lap(struct selection *s);
void probe_step(struct selection *s);
void probe_plan(struct selection *s);
void probe_take(struct selection *s, int first);
bool probe_waits(const struct selection *s);
void probe_run_on(struct selection *s, int which);
void probe_conclude(struct selection *s, int choice, const char *why);
void probe_tell(struct selection *s, enum news what);
