/* User-defined reductions (operator.c). */
#pragma once
#include <stdbool.h>

#include "base/symbol_lookup.h"

typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);
typedef void MPI_User_function_c(void *, void *, MPI_Count *, MPI_Datatype *);

void operator_made(int error, MPI_Op op);
void operator_freed(int error, MPI_Op op);
bool operator_is_known(MPI_Op op);
