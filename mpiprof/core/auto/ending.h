/* The end of keys (finalize.c). */
#pragma once
#include <stdbool.h>

#include "choose/key.h"

void ending_forget(struct key *keys, int count, MPI_Comm comm);
void ending_inherit(struct key *child, const struct key *parent);
void ending_finish(MPI_Comm comm);
