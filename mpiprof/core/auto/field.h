/* What candidates are thought to take, and which of them may still be the best: field.c. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "auto/selection.h"

int64_t field_estimate(const struct selection *s, int i);
bool field_waits(const struct selection *s, int i);
bool field_is_open(const struct selection *s, int i);
int field_begin(struct selection *s);
void field_correct(struct selection *s);
bool field_climb(struct selection *s, int best);
