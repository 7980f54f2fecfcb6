/* What is said of choices at the end: remarks.c. */
#pragma once
#include "base/native.h"
#include "record/site.h"

struct sharing;
struct sharing *remarks_share(struct sharing *s, const char *operation, const struct site *first,
                              int first_wish, const struct site *other, int wish);
void remarks_end(MPI_Comm comm);
