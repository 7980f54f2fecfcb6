/* Life cycle of a key. */
#pragma once
#include <stdbool.h>

#include "selection/online/selection.h"
#include "selection/rules/key.h"

/* ---- life cycle of a key under `--switch auto` (auto.c) */

/* selection of algorithms is on; recording of arrivals is on */
extern bool auto_chooses, auto_is_collecting;
void auto_start(bool chooses);
bool auto_collects(const struct call *c);
const struct candidate *auto_choose(struct execution *e, struct key *key, const struct rule *first,
                                    const struct call_properties *q);
void auto_observe(struct execution *e, struct key *key);
void auto_end(struct call *c);

/* ---- the end of keys, and reductions that outlive their communicator (finalize.c) */

void finalize_free(struct key *keys, int count, MPI_Comm comm);
void finalize_inherit(struct key *child, const struct key *parent);
void finalize_run(void);
