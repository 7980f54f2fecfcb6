/* Texts of all ranks: collect.c. */
#pragma once
#include "base/native.h"
#include "base/text.h"

void collect_text(struct text *t, const char *between, MPI_Comm comm);
