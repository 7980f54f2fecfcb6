/* The end of keys (finalize.c). */
#pragma once
#include <stdbool.h>

#include "selection/rules/key.h"

void finalize_forget(struct key *keys, int count, MPI_Comm comm);
void finalize_inherit(struct key *child, const struct key *parent);
void finalize_finish(void);
