/* Datatypes and reductions of MPI, and user-defined ones. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

/* ---- predefined datatypes and reductions, recognised by their handles (predefined.c) */

struct predefined_type {
    const char *name;
    _Atomic int64_t size; /* -1 until the library has accepted the type and is queried */
};

void predefined_find_handles(void *(*symbol)(const char *name));
struct predefined_type *predefined_type(MPI_Datatype type);
int64_t predefined_bytes(MPI_Datatype type);
const char *predefined_reduction(MPI_Op op);

/* ---- size and extent of a datatype (type.c) */

struct type_properties {
    int64_t size, lower, extent, true_lower, true_extent;
    bool named; /* a predefined type */
};
struct type_properties type_properties(MPI_Datatype type);

/* ---- user-defined reductions (operator.c) */

typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);
typedef void MPI_User_function_c(void *, void *, MPI_Count *, MPI_Datatype *);

void operator_set_known(MPI_Op op, bool known);
bool operator_is_known(MPI_Op op);
