/* Conversion of Fortran handles to C handles. */
#pragma once
#include "base/pmpi.h"

#if defined(MPIPROF_ABI_openmpi) /* a Fortran handle is an index */
#define comm_f2c(f) pmpi.Comm_f2c(f)
#define type_f2c(f) pmpi.Type_f2c(f)
#define request_f2c(f) pmpi.Request_f2c(f)
#define op_f2c(f) pmpi.Op_f2c(f)
#define session_f2c(f) (pmpi.Session_f2c != NULL ? pmpi.Session_f2c(f) : NULL)
#define win_f2c(f) (pmpi.Win_f2c != NULL ? pmpi.Win_f2c(f) : NULL)
#elif defined(MPIPROF_ABI_mpich) /* a Fortran handle is the C handle */
#define comm_f2c(f) (f)
#define type_f2c(f) (f)
#define request_f2c(f) (f)
#define op_f2c(f) (f)
#define session_f2c(f) (f)
#define win_f2c(f) (f)
#endif
#define file_f2c(f) (pmpi.File_f2c != NULL ? pmpi.File_f2c(f) : NULL)
