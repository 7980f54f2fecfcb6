/* Communication among all ranks that survives a rank without answer. */
#pragma once
#include "base/base.h"
#include "base/symbol_lookup.h"

/* ---- waiting for a request with a deadline (wait.c) */

#define WAIT_FINALIZE_NS INT64_C(5000000000)

bool wait_until(MPI_Request *request, int64_t deadline);
void wait_cancel(MPI_Request *request);

/* ---- binomial tree of all ranks (tree.c) */

enum { TREE_CHILDREN = 31 };

typedef void (*tree_join)(struct text *all, size_t earlier);

int tree_parent(int rank);
int tree_children(int rank, int size, int *children);
void tree_broadcast(void *what, int bytes, bool patient, MPI_Comm comm);
void tree_collect(struct text *t, tree_join join, MPI_Comm comm);
