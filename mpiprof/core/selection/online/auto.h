/* Life cycle of a key under `--switch auto` (auto.c). */
#pragma once
#include <stdbool.h>

#include "selection/online/candidates.h"
#include "selection/rules/key.h"
#include "selection/rules/rules.h"

/* selection of algorithms is on; recording of arrivals is on */
extern bool auto_chooses, auto_watching;
void auto_start(bool chooses);
bool auto_takes(const struct call *c);
const struct candidate *auto_choose(struct execution *e, struct key *key, const struct rule *first,
                                    const struct asked *q);
void auto_watch(struct execution *e, struct key *key);
void auto_end(struct call *c);
