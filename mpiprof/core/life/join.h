/* Agreement of a job's processes on the trace folder (trace_agreement.c). */
#pragma once
#include <stdbool.h>

#include "base/native.h"

bool join_start(MPI_Comm comm, int rank, int size, bool with_world);
bool join_again(MPI_Comm comm);
void join_say(void);
