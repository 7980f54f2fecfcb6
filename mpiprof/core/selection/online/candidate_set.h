/* Time estimates of the candidates, and the set that may still contain the best (candidate_set.c).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "selection/online/selection.h"

int64_t candidate_set_estimate(const struct selection *s, int i);
bool candidate_set_waits(const struct selection *s, int i);
bool candidate_set_is_open(const struct selection *s, int i);
int candidate_set_begin(struct selection *s);
void candidate_set_correct(struct selection *s);
bool candidate_set_climb(struct selection *s, int best);
