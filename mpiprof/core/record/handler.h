/* Wrappers of the program's error handlers (error_handler.c). */
#pragma once
#include "base/native.h"

typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
MPI_Comm_errhandler_function *handler_stand_in(MPI_Comm_errhandler_function *function);
