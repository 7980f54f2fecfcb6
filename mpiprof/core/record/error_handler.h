/* Wrappers of the program's error handlers (error_handler.c). */
#pragma once
#include "base/symbol_lookup.h"

typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
MPI_Comm_errhandler_function *error_handler_stand_in(MPI_Comm_errhandler_function *function);
