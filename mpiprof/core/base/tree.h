/* Binomial tree of all ranks (tree.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/symbol_lookup.h"
#include "base/text.h"

enum { TREE_CHILDREN = 31 };

typedef void (*tree_join)(struct text *all, size_t earlier);

int tree_parent(int rank);
int tree_children(int rank, int size, int *children);
void tree_share(void *what, int bytes, bool patient, MPI_Comm comm);
void tree_collect(struct text *t, const char *between, tree_join join, MPI_Comm comm);
