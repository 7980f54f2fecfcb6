/* Size and extent of a datatype (type.c). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/symbol_lookup.h"

struct type_facts {
    int64_t size, lower, extent, true_lower, true_extent;
    bool named; /* a predefined type */
};
struct type_facts type_facts(MPI_Datatype type);
