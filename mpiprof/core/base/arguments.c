/* The arguments of a call from C or Fortran. */
#include "base/arguments.h"
#include "base/pmpi.h"

bool argument_in_place(const struct arguments *a, const void *buffer)
{
#ifdef MPIPROF_ABI_openmpi
    if (a->fortran) {
        for (size_t i = 0; i < 4; i++)
            if (buffer != NULL && buffer == pmpi.fortran_in_place[i])
                return true;
        return false;
    }
#endif
    (void)a;
    return buffer == MPI_IN_PLACE;
}

MPI_Datatype argument_type(const struct arguments *a, const void *types, size_t i)
{
#ifdef MPIPROF_FORTRAN
    if (a->fortran)
        return type_f2c(((const MPI_Fint *)types)[i]);
#endif
    (void)a;
    return ((const MPI_Datatype *)types)[i];
}

int64_t argument_displacement(const struct arguments *a, const void *displs, size_t i)
{
    return a->large ? ((const MPI_Aint *)displs)[i] : ((const int *)displs)[i];
}

MPI_Op argument_operation(const struct arguments *a)
{
#ifdef MPIPROF_FORTRAN
    if (a->fortran)
        return op_f2c(*(const MPI_Fint *)a->op);
#endif
    return *(const MPI_Op *)a->op;
}

/* Return a buffer's address as in C, because Open MPI's Fortran has another address for
 * MPI_BOTTOM. */
const void *argument_buffer(const struct arguments *a, const void *buffer)
{
    for (size_t i = 0; a->fortran && buffer != NULL && i < 4; i++)
        if (buffer == pmpi.fortran_bottom[i])
            return NULL;
    return buffer;
}
