/* User-defined reductions: the handles that MPI_Op_create has returned.
 *
 * Calls with a handle that is neither here nor predefined (predefined.c) go to the library. Such a
 * handle may be an extension, such as MPICH's MPIX_EQUAL, which works only in the library's
 * collectives and ends the job elsewhere. Threads: any; the table is changed under recorder.lock.
 */
#include "base/mpi_types.h"

#include "base/recorder.h"

static struct map known_operators;

/* Add a handle of MPI_Op_create, or remove a freed one, which the library may reuse for another
 * reduction. */
void operator_set_known(MPI_Op op, bool known)
{
    recorder_lock();
    map_put(&known_operators, map_key(op), known ? &known_operators : NULL);
    recorder_unlock();
}

/* Return true if mpiprof's algorithms may use the reduction. All members of a call get the same
 * result. */
bool operator_is_known(MPI_Op op)
{
    return predefined_reduction(op) != NULL || map_get(&known_operators, map_key(op)) != NULL;
}
