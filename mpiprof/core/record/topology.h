/* Neighbours in a communicator's topology (topology.c). */
#pragma once
#include "base/symbol_lookup.h"
#include "base/text.h"
#include "record/communicator.h"

struct topology topology_add(struct text *t, MPI_Comm comm, int rank);
