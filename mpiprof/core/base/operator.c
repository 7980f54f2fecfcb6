/* The program's own reductions: the handles that MPI_Op_create has returned.
 *
 * A handle that is neither here nor among the predefined ones (predefined.c) is left to the library: it
 * may be an extension such as MPICH's MPIX_EQUAL, which the library runs in its own collectives only and
 * whose use elsewhere ends the job. Any thread comes here; the table is changed under recorder.lock.
 */
#include "base/operator.h"

#include "base/map.h"
#include "base/predefined.h"
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

/* The library may give the handle to another reduction. */
void operator_freed(int error, MPI_Op op)
{
    if (error == MPI_SUCCESS && op != MPI_OP_NULL)
        put(op, NULL);
}

/* Whether an algorithm of ours may reduce with it; the same on all members of a call. */
bool operator_is_known(MPI_Op op)
{
    return predefined_reduction(op) != NULL || map_get(&made, (uint64_t)(uintptr_t)op) != NULL;
}
