/* User-defined reductions: the handles that MPI_Op_create has returned.
 *
 * Calls with a handle that is neither here nor predefined (predefined.c) go to the library. Such a
 * handle may be an extension, such as MPICH's MPIX_EQUAL, which works only in the library's
 * collectives and ends the job elsewhere. Threads: any; the table is changed under recorder.lock.
 */
#include "base/mpi_types.h"

#include "base/base.h"
#include "base/recorder.h"

static struct map made;

static void put(MPI_Op op, void *value)
{
    recorder_lock();
    map_put(&made, (uint64_t)(uintptr_t)op, value);
    recorder_unlock();
}

void operator_made(int error, MPI_Op op)
{
    if (error == MPI_SUCCESS)
        put(op, &made); /* anything but NULL */
}

/* Remove a handle, because the library may reuse it for another reduction. */
void operator_freed(int error, MPI_Op op)
{
    if (error == MPI_SUCCESS && op != MPI_OP_NULL)
        put(op, NULL);
}

/* Return true if mpiprof's algorithms may use the reduction. All members of a call get the same
 * result. */
bool operator_is_known(MPI_Op op)
{
    return predefined_reduction(op) != NULL || map_get(&made, (uint64_t)(uintptr_t)op) != NULL;
}
