/* Conversion of Fortran handles to C handles. */
#pragma once
#include "base/pmpi.h"
#include "base/symbol_lookup.h"

#if defined(MPIPROF_ABI_openmpi) /* a Fortran handle is an index */
static inline MPI_Comm comm_f2c(MPI_Fint f)
{
    return pmpi.Comm_f2c(f);
}
static inline MPI_Datatype type_f2c(MPI_Fint f)
{
    return pmpi.Type_f2c(f);
}
static inline MPI_Request request_f2c(MPI_Fint f)
{
    return pmpi.Request_f2c(f);
}
static inline MPI_Op op_f2c(MPI_Fint f)
{
    return pmpi.Op_f2c(f);
}
static inline MPI_Session session_f2c(MPI_Fint f)
{
    return pmpi.Session_f2c != NULL ? pmpi.Session_f2c(f) : NULL;
}
static inline MPI_Win win_f2c(MPI_Fint f)
{
    return pmpi.Win_f2c != NULL ? pmpi.Win_f2c(f) : NULL;
}
#elif defined(MPIPROF_ABI_mpich) /* a Fortran handle is the C handle */
#define comm_f2c(f) (f)
#define type_f2c(f) (f)
#define request_f2c(f) (f)
#define op_f2c(f) (f)
#define session_f2c(f) (f)
#define win_f2c(f) (f)
#endif
static inline MPI_File file_f2c(MPI_Fint f)
{
    return pmpi.File_f2c != NULL ? pmpi.File_f2c(f) : NULL;
}
