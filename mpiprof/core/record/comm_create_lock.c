/* Lock between the program's threads that create communicators and mpiprof's own creations.
 *
 * Open MPI orders concurrent creations by itself: of all creations in a process's threads, that
 * with the lowest parent is numbered first. A communicator that is created within a collective,
 * beside the program's creations in other threads, can deadlock with them. So mpiprof creates one
 * only while the process creates no other, which the members agree on (private_comm.c). The
 * program's creations wait meanwhile; the wait is short, because all members of mpiprof's
 * communicator are present by then.
 */
#include <sched.h>

#include "base/pmpi.h"
#include "record/communicator.h"

enum { OURS = -1 };

/* Return true if creation beside that of the program's other threads may deadlock. */
bool comm_create_lock_has_threads(void)
{
#ifdef MPIPROF_ABI_openmpi
    int level = MPI_THREAD_MULTIPLE;

    return pmpi.Query_thread == NULL || pmpi.Query_thread(&level) != MPI_SUCCESS ||
           level == MPI_THREAD_MULTIPLE;
#else
    return false;
#endif
}

atomic_bool comm_create_lock_has_idup;
static atomic_int creations; /* number of the program's creations in progress, or OURS */

void comm_create_lock_begin(bool *under_way)
{
    int now = 0;

    while (!atomic_compare_exchange_weak(&creations, &now, now + 1))
        if (now == OURS) {
            sched_yield();
            now = 0;
        }
    *under_way = true;
}

void comm_create_lock_end(bool *under_way)
{
    if (*under_way)
        atomic_fetch_sub(&creations, 1);
    *under_way = false;
}

/* Take the lock. Returns false if another thread is creating a communicator. */
bool comm_create_lock_try_exclusive(void)
{
    int nobody = 0;

    return atomic_compare_exchange_strong(&creations, &nobody, OURS);
}

void comm_create_lock_end_exclusive(void)
{
    atomic_store(&creations, 0);
}
