/* Agreement of a job's processes on the trace folder (trace_agreement.c). */
#pragma once
#include <stdbool.h>

#include "base/symbol_lookup.h"

bool trace_agreement_start(MPI_Comm comm, int rank, int size, bool with_world);
bool trace_agreement_again(MPI_Comm comm);
void trace_agreement_say(void);
