/* Predefined datatypes and reductions, recognised by their handles (predefined.c). */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

struct predefined_type {
    const char *name;
    _Atomic int64_t size; /* -1 until the library has accepted the type and is queried */
};

void predefined_load(void *(*symbol)(const char *name));
struct predefined_type *predefined_type(MPI_Datatype type);
const char *predefined_reduction(MPI_Op op);
