/* Time estimates of the candidates, and the set that may still contain the best (candidate_set.c).
 */
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
