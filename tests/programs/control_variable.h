/* Reads one of the library's control variables, of int, through MPI_T. */
#include <mpi.h>

/* -1: there is none of that name. MPI_T has been started, and is never ended: MPICH would forget
 * what was set. */
static inline int control_variable(const char *name)
{
    MPI_T_cvar_handle handle;
    int index, count, value = -2;

    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return -1;
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
    return value;
}
