/* The arguments of a call from C or Fortran (arguments.c). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

struct side {
    const void *count, *counts, *displs, *type, *types;
};
struct arguments {
    const void *sendbuf, *recvbuf, *op;
    struct side send, recv;
    bool large, fortran;
};

bool argument_in_place(const struct arguments *a, const void *buffer);
MPI_Datatype argument_type(const struct arguments *a, const void *types, size_t i);
int64_t argument_displacement(const struct arguments *a, const void *displs, size_t i);
MPI_Op argument_operation(const struct arguments *a);
const void *argument_buffer(const struct arguments *a, const void *buffer);

static inline int64_t argument_count(const struct arguments *a, const void *counts, size_t i)
{
    return a->large ? ((const MPI_Count *)counts)[i] : ((const int *)counts)[i];
}

static inline bool argument_has_counts(const struct side *s)
{
    return s->count == NULL;
}
