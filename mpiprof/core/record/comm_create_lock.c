/* Lock between the program's threads that create communicators and mpiprof's own creations.
 *
 * Open MPI orders concurrent creations by itself: of all creations in a process's threads, that
 * with the lowest parent is numbered first. A communicator that is created within a collective,
 * beside the program's creations in other threads, can deadlock with them. So mpiprof creates one
 * only while the process creates no other, which the members agree on (private_comm.c). The
 * program's creations wait meanwhile; the wait is short, because all members of mpiprof's
 * communicator are present by then.
 *
 * MPI_Comm_idup creates its communicator later, in any call, when all its members have called it.
 * Until then a library may let other creations of the same process wait, in any thread. A member may
 * call it only after the collective in which mpiprof would create a communicator. So all members
 * must have called the same ones, as far as one is pending.
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

static atomic_int pending;          /* number of MPI_Comm_idup that are not complete */
static atomic_uint_fast64_t called; /* sum of the keys of all MPI_Comm_idup */
static atomic_int creations;        /* number of the program's creations in progress, or OURS */

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

void comm_create_lock_note_idup(uint64_t key)
{
    atomic_fetch_add(&called, key);
}

uint64_t comm_create_lock_sum_idups(void)
{
    return atomic_load(&called);
}

void comm_create_lock_count_pending(int change)
{
    atomic_fetch_add(&pending, change);
}

bool comm_create_lock_has_pending(void)
{
    return atomic_load(&pending) > 0;
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
